"""A controller whose store another one took over says so, is not ready, answers nothing from before, and ends."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import delete

from controller.storage import schema
from controller.storage.database import open_database
from controller.storage.kinds import parse_url
from controller.storage.postgresql import sharing_engine
from controller.storage.sqlite import sqlite_engine
from controller.storage.terms import begin_term
from controller.terminal import TAKEN_OVER_STATUS
from tests.postgres import Postgres
from tests.served import InProcess, OwnProcess

pytestmark = pytest.mark.full

CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
NOTE = {"writer": "a", "time": 100, "position": {"0": 1}}


@pytest.fixture
def database(store_url: str) -> str:
    return store_url


def take_over(url: str, owner: str) -> None:
    """Begins to serve a store that another controller serves, as one does that has its lock."""
    parsed = parse_url(url)
    engine = sqlite_engine(parsed) if parsed.get_backend_name() == "sqlite" else sharing_engine(parsed)
    with engine.connect() as connection:
        begin_term(connection, owner, 0)
    engine.dispose()


def test_a_fenced_controller_names_its_successor_and_serves_nothing(controller: InProcess) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.note("a", 100, {"0": 1})
    waiting = controller.request_soon("GET", "/v1/streams/s/marks?after=1&wait_ms=30000")
    take_over(str(controller.database), "the-other:7")

    problem = controller.call("POST", "/v1/streams/s/notes", {**NOTE, "time": 200}, expect=503)

    assert problem["code"] == "store_unavailable" and "controller the-other:7 took the store over" in problem["detail"]
    assert "the-other:7" in controller.call("GET", "/readyz", expect=503)["detail"]
    assert "the-other:7" in controller.call("GET", "/v1/streams/s/marks", expect=503)["detail"]
    assert waiting.result(60).json()["marks"] == []
    assert controller.call("GET", "/healthz") == {"status": "ok"}


def test_a_controller_whose_entry_is_gone_reports_an_earlier_store(controller: InProcess) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    parsed = parse_url(str(controller.database))
    engine = sqlite_engine(parsed) if parsed.get_backend_name() == "sqlite" else sharing_engine(parsed)
    with engine.begin() as connection:
        connection.execute(delete(schema.served))
    engine.dispose()

    problem = controller.call("POST", "/v1/streams/s/notes", NOTE, expect=503)

    assert "no longer has this controller's entry" in problem["detail"]
    assert "earlier moment" in controller.call("GET", "/readyz", expect=503)["detail"]


def ended(server: OwnProcess) -> tuple[int, str]:
    """What a controller that ends by itself exits with and has said."""
    status = server.process.wait(60)
    server.client.close()
    server._end()
    return status, server.log


class TestSqlite:
    @pytest.fixture
    def database(self, tmp_path: Path) -> Path:
        return tmp_path / "store.db"

    def test_the_fenced_process_ends_with_a_message_and_its_status(
        self, serve: Callable[..., OwnProcess], database: Path
    ) -> None:
        first = serve("--log-format", "json")
        first.client.put("/v1/streams/s", json=CONFIG)
        first.client.post("/v1/streams/s/notes", json=NOTE)
        os.unlink(f"{database}.lock")  # which nobody may do: it lets a second one in

        second = serve()

        status, log = ended(first)
        assert status == TAKEN_OVER_STATUS
        owner = re.search(r'"event": "taken_over", "by": "(\S+)"', log)
        assert owner is not None and owner[1].endswith(f":{second.process.pid}")
        assert f"controller {owner[1]} took the store over" in log.splitlines()[-1]
        assert '"event": "stopped"' in log and "Traceback" not in log
        assert second.client.get("/readyz").status_code == 200
        assert [each["time"] for each in second.client.get("/v1/streams/s/marks").json()["marks"]] == [100]


class TestPostgresql:
    @pytest.fixture
    def database(self, postgres_url: str) -> str:
        return postgres_url

    def test_the_earlier_one_ends_although_it_cannot_even_have_the_lock(
        self, serve: Callable[..., OwnProcess], database: str, postgres: Postgres
    ) -> None:
        first = serve()
        first.process.send_signal(signal.SIGSTOP)
        sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'strandline'"
        postgres.execute(f"{sessions} AND datname = current_database()", database)

        second = serve()
        first.process.send_signal(signal.SIGCONT)

        status, log = ended(first)
        assert status == TAKEN_OVER_STATUS and f":{second.process.pid} took the store over" in log
        assert second.client.get("/readyz").status_code == 200

    def test_a_lock_that_a_command_holds_is_waited_for_and_nobody_ends(
        self, start: Callable[..., InProcess], database: str, postgres: Postgres
    ) -> None:
        controller = start()
        controller.call("PUT", "/v1/streams/s", CONFIG)
        sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'strandline'"
        postgres.execute(f"{sessions} AND datname = current_database()", database)
        deadline = time.monotonic() + 60  # the server gives the lock back when the session is over
        locks = "SELECT 1 FROM pg_locks, pg_database WHERE locktype = 'advisory' AND database = pg_database.oid"
        while postgres.execute(f"{locks} AND datname = current_database()", database):
            assert time.monotonic() < deadline
        with open_database(database):
            problem = controller.call("POST", "/v1/streams/s/notes", NOTE, expect=503)
            assert "another session holds the lock" in problem["detail"]
            assert controller.call("GET", "/readyz", expect=503)["code"] == "store_unavailable"

        controller.note("a", 100, {"0": 1})
        assert controller.call("GET", "/readyz")["status"] == "ready"
