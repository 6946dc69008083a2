"""What our sessions of PostgreSQL are like, whatever a database is set to."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, Connection, Engine, select
from sqlalchemy.exc import InternalError, OperationalError

from controller.storage import schema, upgrade
from controller.storage.database import open_database
from controller.storage.kinds import parse_url
from controller.storage.postgresql import (
    LOST_PEER_S,
    STATEMENT_TIMEOUT_MS,
    reading_engine,
    sharing_engine,
    writing_engine,
)
from controller.storage.refusals import DriverMissing
from tests.postgres import Postgres

pytestmark = pytest.mark.full


@pytest.fixture
def commit(postgres_url: str) -> Iterator[Engine]:
    engine = writing_engine(parse_url(postgres_url))
    yield engine
    engine.dispose()


@pytest.fixture
def reading(postgres_url: str) -> Iterator[Engine]:
    engine = reading_engine(parse_url(postgres_url))
    yield engine
    engine.dispose()


def setting(connection: Connection, name: str) -> str:
    value: str = connection.exec_driver_sql(f"SELECT setting FROM pg_settings WHERE name = '{name}'").scalar_one()
    return value


def sessions(postgres: Postgres, url: str) -> list[str]:
    """The state of each session that is ours."""
    query = "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'strandline'"
    return [state for (state,) in postgres.execute(query, url)]


@pytest.mark.parametrize(
    ("given", "ours"),
    [("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
)
def test_a_commit_is_at_least_as_durable_as_asked(
    postgres: Postgres, postgres_url: str, commit: Engine, given: str, ours: str
) -> None:
    postgres.execute(f"ALTER DATABASE {postgres_url.rpartition('/')[2]} SET synchronous_commit = {given}")

    with commit.connect() as connection:
        assert setting(connection, "synchronous_commit") == ours


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as Python has it where an import has failed
    with pytest.raises(DriverMissing, match=r"pip install '\.\[postgres\]'"):
        open_database("postgresql://strandline@127.0.0.1:1/none")


def test_a_session_that_ends_while_a_store_is_opened_leaves_no_doubt_whether_that_changed_it(
    postgres: Postgres, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checking = upgrade.check

    def check(connection: Connection) -> None:
        checking(connection)
        ours = "datname = current_database() AND application_name = 'strandline'"
        postgres.execute(f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE {ours}", postgres_url)

    open_database(postgres_url).close()
    monkeypatch.setattr(upgrade, "check", check)
    with open_database(postgres_url) as opened, opened.writer.begin():
        assert opened.writer.scalar(select(schema.service.c.id)) == 1


def test_a_reader_sees_one_moment_and_writes_nothing(commit: Engine, reading: Engine) -> None:
    with commit.connect() as writer, reading.connect() as reader:
        with writer.begin():
            writer.exec_driver_sql("CREATE TABLE one (n int)")
        with reader.begin():
            assert reader.exec_driver_sql("SELECT count(*) FROM one").scalar_one() == 0
            with writer.begin():
                writer.exec_driver_sql("INSERT INTO one VALUES (1)")
            assert reader.exec_driver_sql("SELECT count(*) FROM one").scalar_one() == 0
        with pytest.raises(InternalError, match="read-only transaction"), reader.begin():
            reader.exec_driver_sql("INSERT INTO one VALUES (2)")


def test_a_writers_statements_each_see_what_was_committed_before_them(postgres_url: str, commit: Engine) -> None:
    beside = sharing_engine(parse_url(postgres_url))
    with commit.connect() as writer, beside.connect() as other:
        with writer.begin():
            writer.exec_driver_sql("CREATE TABLE one (n int)")
        with writer.begin():
            assert writer.exec_driver_sql("SELECT count(*) FROM one").scalar_one() == 0
            with other.begin():
                other.exec_driver_sql("INSERT INTO one VALUES (1)")
            assert writer.exec_driver_sql("SELECT count(*) FROM one").scalar_one() == 1
    beside.dispose()


def test_a_session_that_writes_waits_outside_of_a_transaction_and_ends_what_takes_too_long(
    postgres: Postgres, postgres_url: str, commit: Engine
) -> None:
    patient = writing_engine(parse_url(postgres_url), statement_timeout_ms=0)
    with commit.connect() as connection:
        assert sessions(postgres, postgres_url) == ["idle"]
        assert setting(connection, "statement_timeout") == str(STATEMENT_TIMEOUT_MS)
        idle, interval, count = (
            int(setting(connection, f"tcp_keepalives_{name}")) for name in ("idle", "interval", "count")
        )
        assert idle + interval * count == LOST_PEER_S  # when the server lets go of a controller that vanished
        assert int(setting(connection, "tcp_user_timeout")) == LOST_PEER_S * 1000
    with patient.connect() as connection:
        assert setting(connection, "statement_timeout") == "0"
    patient.dispose()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux tells a socket's patience")
def test_we_let_go_of_a_server_that_vanished(commit: Engine) -> None:
    with commit.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        with socket.fromfd(driver.fileno(), socket.AF_INET, socket.SOCK_STREAM) as ours:

            def option(name: int) -> int:
                return ours.getsockopt(socket.IPPROTO_TCP, name)

            lost_s = option(socket.TCP_KEEPIDLE) + option(socket.TCP_KEEPINTVL) * option(socket.TCP_KEEPCNT)
            assert lost_s == LOST_PEER_S
            assert option(socket.TCP_USER_TIMEOUT) == LOST_PEER_S * 1000


def test_writing_sessions_read_what_is_committed_whatever_the_default(
    postgres: Postgres, postgres_url: str, commit: Engine
) -> None:
    name = postgres_url.rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")

    with commit.connect() as connection:
        assert setting(connection, "transaction_isolation") == "read committed"


@pytest.mark.parametrize("engine", [reading_engine, writing_engine, sharing_engine])
def test_a_session_whose_statement_gets_no_answer_is_made_again(
    postgres_url: str, engine: Callable[[URL], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """psycopg found the socket dead and left the session open, and each read after that failed for minutes."""
    waiting, dead = psycopg.Connection.wait, ["now"]

    def wait(session: Any, steps: Any, *more: Any, **named: Any) -> Any:
        if dead:
            dead.clear()
            next(steps)  # which sends the statement
            raise psycopg.OperationalError("connection socket closed")
        return waiting(session, steps, *more, **named)

    made = engine(parse_url(postgres_url))
    with made.connect() as connection:
        monkeypatch.setattr(psycopg.Connection, "wait", wait)
        with pytest.raises(OperationalError, match="socket closed") as failed, connection.begin():
            connection.execute(select(1))
        assert failed.value.connection_invalidated
        monkeypatch.undo()
        with connection.begin():
            assert connection.scalar(select(1)) == 1
    made.dispose()
