"""Each statement that a store gets while notes come was sent by SQLAlchemy."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.postgres import Postgres

CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
ENDS = ("COMMIT", "ROLLBACK")


class Sent:
    """What SQLAlchemy sends, and its commits."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.commits = 0

    def send(self, _connection: Any, _cursor: Any, statement: str, given: Any, _context: Any, many: bool) -> None:
        self.statements += [statement] * (len(given) if many else 1)

    def commit(self, _connection: Any) -> None:
        self.commits += 1


@pytest.fixture
def sent() -> Iterator[Sent]:
    sent = Sent()
    listeners = (("before_cursor_execute", sent.send), ("commit", sent.commit))
    for name, listener in listeners:
        event.listen(Engine, name, listener)
    yield sent
    for name, listener in listeners:
        event.remove(Engine, name, listener)


@pytest.fixture
def traced(sent: Sent) -> Iterator[list[str]]:
    """What SQLite gets."""
    traced: list[str] = []

    def trace(connection: Any, _record: Any) -> None:
        connection.set_trace_callback(traced.append)

    event.listen(Engine, "connect", trace)
    yield traced
    event.remove(Engine, "connect", trace)


def note_much(controller: Any) -> None:
    for time in range(1, 6):
        controller.note("a", time, {"0": time})
        controller.note("b", time, {"0": time})
    notes = [{"stream": "s", "writer": w, "times": {"": 9}, "position": {"0": 9}} for w in ("a", "b", "c")]
    controller.call("POST", "/v1/notes", {"notes": notes})


def test_sqlite_gets_what_sqlalchemy_sent_and_nothing_else(sent: Sent, traced: list[str], start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    note_much(controller)
    controller.__exit__(None, None, None)  # so that nothing is under way

    # Settings of a connection are no statements of the store.
    got = [each for each in traced if not each.startswith("PRAGMA")]
    ours = [each for each in sent.statements if not each.startswith("PRAGMA")]
    assert sum(each.startswith("INSERT INTO mark ") for each in got) > 5
    assert sum(each == "COMMIT" for each in got) == sent.commits
    values = {re.escape(each).replace(r"\?", ".*") for each in ours}
    fits = re.compile("|".join(f"(?:{each})" for each in values), re.DOTALL)
    assert [each for each in got if each not in ENDS and not fits.fullmatch(each)] == []
    assert sum(each not in ENDS for each in got) == len(ours)


@pytest.mark.full
class TestPostgresql:
    @pytest.fixture
    def server(self, new_postgres: Callable[..., Postgres]) -> Iterator[Postgres]:
        server = new_postgres("fsync=off", "log_statement=all", "log_line_prefix=<%a> ")
        yield server
        server.stop(signal.SIGQUIT)

    @pytest.fixture
    def database(self, server: Postgres) -> str:
        return server.new_database()

    def test_postgresql_gets_what_sqlalchemy_sent_and_nothing_else(
        self, sent: Sent, server: Postgres, start: Any
    ) -> None:
        controller = start()
        controller.call("PUT", "/v1/streams/s", CONFIG)
        controller.note("a", 0, {"0": 0})  # what connections are set to has been said
        before = len(server.log())
        note_much(controller)

        entries = re.findall(
            r"^<strandline> LOG:  (?:statement|execute [^:]*): (.*(?:\n\t.*)*)", server.log()[before:], re.M
        )
        got = {plain(each) for each in entries if not each.startswith(("BEGIN", *ENDS))}
        assert any(each.startswith("INSERT INTO mark ") for each in got)
        assert got - set(map(plain, sent.statements)) == set()


def plain(statement: str) -> str:
    """Without the names of parameters, and in one line."""
    return " ".join(re.sub(r"%\(\w+\)s|\$\d+", "?", statement).split())
