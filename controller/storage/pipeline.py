"""PostgreSQL's pipeline by hand: prepared statements, sent in one go, and their answers read in one go.

psycopg's own pipeline talks to the server at each statement that is put into it, which costs a commit more than all
else that our side does for it. This one uses psycopg's connection, by its documented wrapper of libpq.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

_BEGIN: Final = b"BEGIN"
_COMMIT: Final = b"COMMIT"


class Answer:
    """What a statement brought about; there once the pipeline has been run."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result: Any = None  # a PGresult

    @property
    def rowcount(self) -> int:
        return int(self.result.command_tuples or 0)

    def fetchall(self) -> list[tuple[str | int | None, ...]]:
        """Rows of whole numbers and texts."""
        result = self.result
        columns = range(result.nfields)
        return [tuple([_value(result, row, column) for column in columns]) for row in range(result.ntuples)]


def _value(result: Any, row: int, column: int) -> str | int | None:
    value = result.get_value(row, column)
    if value is None:
        return None
    return int(value) if result.ftype(column) in _WHOLE else value.decode()


_WHOLE: Final = frozenset({20, 21, 23})  # the types int8, int2, int4


class Pipeline:
    """Statements for one session, each prepared when it first comes by."""

    def __init__(self, driver: Any) -> None:
        """Takes psycopg's connection."""
        from psycopg import pq

        self._pq: Any = pq
        self._session: Any = driver.pgconn
        self._names: dict[str, bytes] = {}
        self._waiting: list[tuple[bytes | None, Any, Answer]] = []

    def put(self, statement: str, values: Sequence[Any]) -> Answer:
        """Adds a statement to what is run next."""
        if not self._waiting and self._session.transaction_status == self._pq.TransactionStatus.IDLE:
            self._waiting.append((None, _BEGIN, Answer()))
        answer = Answer()
        self._waiting.append((self._name(statement), [_bytes(each) for each in values], answer))
        return answer

    def put_commit(self) -> None:
        self._waiting.append((None, _COMMIT, Answer()))

    @contextmanager
    def filled(self) -> Iterator[None]:
        """Runs what is put in inside, at its end. Raises psycopg's errors, the first of them; nothing after that one
        was done, and what was done before is not committed."""
        try:
            yield
            self._run()
        finally:
            self._waiting.clear()

    def _run(self) -> None:
        if not self._waiting:
            return
        session = self._session
        session.enter_pipeline_mode()
        for name, given, _ in self._waiting:
            if name is None:
                session.send_query_params(given, None)
            else:
                session.send_query_prepared(name, given)
        session.pipeline_sync()
        self._send()
        failed: Answer | None = None
        for _, _, answer in self._waiting:
            answer.result = self._next()
            if failed is None and answer.result.status == self._pq.ExecStatus.FATAL_ERROR:
                failed = answer
            self._next()  # nothing, which ends the answer
        self._next()  # that of the sync
        session.exit_pipeline_mode()
        if failed is not None:
            raise self._error(failed.result)

    # libpq holds Python's lock while it waits. So it is asked only for what is there, and waiting is done here.

    def _send(self) -> None:
        while self._session.flush():
            self._wait(select.POLLIN | select.POLLOUT)
            self._session.consume_input()

    def _next(self) -> Any:
        """The next result, once it is there; raises OperationalError where none will come any more."""
        while self._session.is_busy():
            self._wait(select.POLLIN)
            self._session.consume_input()
        result = self._session.get_result()
        if self._session.status != self._pq.ConnStatus.OK:
            raise self._error(result)
        return result

    def _wait(self, events: int) -> None:
        poll = select.poll()
        poll.register(self._session.socket, events)
        poll.poll()

    def _name(self, statement: str) -> bytes:
        """The name under which the session knows a statement."""
        name = self._names.get(statement)
        if name is None:
            name = b"strandline_%d" % len(self._names)
            self._session.send_prepare(name, statement.encode())
            self._send()
            result = self._next()
            self._next()
            if result.status != self._pq.ExecStatus.COMMAND_OK:
                raise self._error(result)
            self._names[statement] = name
        return name

    def _error(self, result: Any) -> Exception:
        from psycopg import OperationalError
        from psycopg.errors import error_from_result

        if result is None or self._session.status != self._pq.ConnStatus.OK:
            return OperationalError(self._session.get_error_message().strip() or "the connection is lost")
        error: Exception = error_from_result(result)
        return error


def _bytes(value: Any) -> bytes | None:
    return None if value is None else str(value).encode()
