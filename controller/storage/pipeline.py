"""A pipeline for PostgreSQL: sends prepared statements in one go, and reads their answers in one go.

psycopg's own pipeline talks to the server at each statement, which costs a commit more than all else that the client
does for it. This one uses psycopg's connection, by its documented wrapper of libpq.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any, Final

_COMMIT: Final = b"COMMIT"


class PipelineResult:
    """The result of a statement, available once the pipeline has run."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result: Any = None  # a PGresult

    @property
    def rowcount(self) -> int:
        return int(self.result.command_tuples or 0)

    def fetchall(self) -> list[tuple[str | int | float | None, ...]]:
        """The rows, with numbers, flags and texts as values."""
        result = self.result
        get, columns = result.get_value, range(result.nfields)
        reads = [(column, _READS.get(result.ftype(column), bytes.decode)) for column in columns]
        return [
            tuple([None if (value := get(row, column)) is None else read(value) for column, read in reads])
            for row in range(result.ntuples)
        ]


# By type: bool, int8, int2, int4, float8. What is not here is text.
_READS: Final[dict[int, Any]] = {16: b"t".__eq__, 20: int, 21: int, 23: int, 701: float}


class Fate(Enum):
    """What is known of the transaction whose statements ran last."""

    UNDONE = auto()  # not committed, and never will be without another COMMIT
    DONE = auto()  # committed, by the server and by every standby that it waits for
    UNKNOWN = auto()  # COMMIT was sent, and the server did not report its outcome


class Pipeline:
    """Runs statements in one session; prepares each when it is first used."""

    def __init__(self, driver: Any) -> None:
        """Takes psycopg's connection."""
        from psycopg import Error, pq

        self.fate = Fate.UNDONE
        self._Error: type[Exception] = Error
        self._pq: Any = pq
        self._driver = driver
        self._session: Any = driver.pgconn
        self._names: dict[str, bytes] = {}
        self._waiting: list[tuple[bytes | None, Any, PipelineResult]] = []
        self._warnings: list[str] = []
        driver.add_notice_handler(self._hear)

    def put(self, statement: str, values: Sequence[Any]) -> PipelineResult:
        """Adds a statement to the next run."""
        if not self._waiting and self._session.transaction_status == self._pq.TransactionStatus.IDLE:
            self._waiting.append((None, self._begin(), PipelineResult()))
        answer = PipelineResult()
        self._waiting.append((self._name(statement), [_bytes(each) for each in values], answer))
        return answer

    def _begin(self) -> bytes:
        """BEGIN, as psycopg would send it: at least repeatable reads see one snapshot."""
        begin, level = b"BEGIN", self._driver.isolation_level
        if level is not None:
            begin += b" ISOLATION LEVEL " + level.name.replace("_", " ").encode()
        return begin + b" READ ONLY" if self._driver.read_only else begin

    def put_commit(self) -> None:
        self._waiting.append((None, _COMMIT, PipelineResult()))

    @contextmanager
    def filled(self) -> Iterator[None]:
        """On exit, runs the statements that were put inside. Raises the first of psycopg's errors; the server ran no
        later statement. `fate` has the outcome of the transaction."""
        self.fate = Fate.UNDONE
        try:
            yield
            self._run()
        except self._Error as error:
            if is_over(error):
                self._session.finish()
            raise
        finally:
            self._waiting.clear()

    def _run(self) -> None:
        if not self._waiting:
            return
        try:
            self._session.enter_pipeline_mode()
            self._put_all()
            self._send()
            error = self._read_all()
            self._session.exit_pipeline_mode()
        except BaseException:
            self._session.finish()  # the session is unusable: the next call needs a new one
            raise
        if error is not None:
            raise error

    def _put_all(self) -> None:
        for name, given, _ in self._waiting:
            if name is not None:
                self._session.send_query_prepared(name, given)
                continue
            if given == _COMMIT:
                self.fate = Fate.UNKNOWN  # from here on COMMIT may have been sent
            self._session.send_query_params(given, None)
        self._session.pipeline_sync()

    def _read_all(self) -> Exception | None:
        """Reads all answers; returns the error of the first statement that failed."""
        error: Exception | None = None
        try:
            for _, given, answer in self._waiting:
                self._warnings.clear()
                answer.result = self._next()
                if error is None:
                    error = self._judge(given, answer.result)
                self._next()  # None, which ends the answer
            self._next()  # the answer to the sync
        except Exception as lost:
            # A server that ends the session sends an error in place of the next answer, and nothing after it.
            raise (lost if error is None else error) from None
        return error

    def _judge(self, given: Any, result: Any) -> Any:
        """Returns the error in an answer, None if there is none, and updates `fate`."""
        status = self._pq.ExecStatus
        if result is None:
            return self._error(None)
        failed = self._error(result) if result.status == status.FATAL_ERROR else None
        if given != _COMMIT:
            if failed is not None and failed.sqlstate is not None:
                self.fate = Fate.UNDONE  # the server stopped here, before COMMIT
            return failed
        if failed is not None:
            if undone(failed):
                self.fate = Fate.UNDONE
            return failed
        from psycopg import OperationalError

        if result.command_status != _COMMIT:
            self.fate = Fate.UNDONE
            return OperationalError("the server answered COMMIT with a rollback")
        if self._warnings:
            return OperationalError(self._warnings[0])
        self.fate = Fate.DONE
        return None

    def _hear(self, notice: Any) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self._warnings.append(str(notice.message_primary))

    # libpq holds the GIL while it waits. So it is asked only for data that has arrived, and `_wait` waits.

    def _send(self) -> None:
        while self._session.flush():
            self._wait(select.POLLIN | select.POLLOUT)
            self._session.consume_input()

    def _next(self) -> Any:
        """Waits for the next result; raises OperationalError if none will arrive."""
        while self._session.is_busy():
            self._wait(select.POLLIN)
            try:
                self._session.consume_input()
            except self._Error:
                break  # results that arrived before the connection ended can still be read
        result = self._session.get_result()
        if self._session.status != self._pq.ConnStatus.OK and _sqlstate(self._pq, result) is None:
            raise self._error(None)
        return result

    def _wait(self, events: int) -> None:
        poll = select.poll()
        poll.register(self._session.socket, events)
        poll.poll()

    def _name(self, statement: str) -> bytes:
        """The name of the prepared statement in the session; prepares it the first time."""
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

    def _error(self, result: Any) -> Any:  # one of psycopg's errors
        from psycopg import OperationalError
        from psycopg.errors import error_from_result

        if result is None:
            return OperationalError(self._session.get_error_message().strip() or "the connection is lost")
        return error_from_result(result)


def undone(error: Any) -> bool:
    """Whether a COMMIT that failed with this error of psycopg certainly changed nothing. It is certain only of an error
    that leaves the session open; with any other, the server may have committed before."""
    return bool(error.diag.severity_nonlocalized == "ERROR")


def is_over(error: Any) -> bool:
    """Whether the server ended the session with this error."""
    return error.diag.severity_nonlocalized in ("FATAL", "PANIC")


def _sqlstate(pq: Any, result: Any) -> bytes | None:
    """The SQLSTATE of an error from the server. Errors that libpq itself makes have none."""
    return None if result is None else result.error_field(pq.DiagnosticField.SQLSTATE)


def _bytes(value: Any) -> bytes | None:
    return None if value is None else str(value).encode()
