"""Time in which nobody could be heard counts against no one: a store that is away, a controller that does not run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from tests.postgres import Postgres
from tests.served import OwnProcess

pytestmark = pytest.mark.full

CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": 3_000}
TIMEOUT_MS = 5_000
LONGER_S = 6.0  # than that timeout


class Writers:
    """w0 and w1 in a real controller, which both note, and a group whose reader reports."""

    def __init__(self, server: OwnProcess) -> None:
        self.client = server.client
        created = self.client.put("/v1/streams/s", json={**CONFIG, "writer_timeout_ms": TIMEOUT_MS})
        assert created.status_code == 201
        self.noted = 0
        self.note("w1")
        self.client.put("/v1/reader-groups/g", json={"streams": ["s"], "reader_timeout_ms": TIMEOUT_MS})
        registered = self.client.put("/v1/reader-groups/g/readers/r", json={"positions": {"s": {"0": 1}}})
        self.epoch = registered.json()["epoch"]
        assert self.note("w0").is_success

    def note(self, writer: str) -> Any:
        self.noted += 1
        body = {"writer": writer, "time": self.noted, "position": {}}
        return self.client.post("/v1/streams/s/notes", json=body)

    def check_that_nobody_was_silent(self) -> None:
        """Before w1, or the reader, is heard again."""
        assert self.note("w0").is_success
        described = self.client.get("/v1/streams/s").json()
        assert described["writers"].get("timed_out", 0) == 0
        held = described["held_by"][""]
        assert held["writer"] == "w1" and held["released_in_ms"] > 0
        assert held["last_heard_ms_ago"] + held["released_in_ms"] == TIMEOUT_MS
        assert all(mark["complete"] for mark in self.client.get("/v1/streams/s/marks").json()["marks"])
        body = {"positions": {"s": {"0": 2}}, "epoch": self.epoch}
        report = self.client.put("/v1/reader-groups/g/readers/r", json=body)
        assert report.json()["owned"] == {"s": {"0": 2}}


def test_a_controller_that_was_stopped_and_goes_on_has_made_nobody_silent(serve: Any) -> None:
    server: OwnProcess = serve()
    writers = Writers(server)
    server.process.send_signal(signal.SIGSTOP)
    threading.Event().wait(LONGER_S)  # longer than anybody may be silent
    server.process.send_signal(signal.SIGCONT)

    writers.check_that_nobody_was_silent()
    assert server.stop() == 0 and " paused ms=" in server.log


def test_a_time_in_which_no_controller_ran_has_made_nobody_silent(serve: Any) -> None:
    first: OwnProcess = serve()
    writers = Writers(first)
    first.stop()
    threading.Event().wait(LONGER_S)
    second: OwnProcess = serve()
    writers.client = second.client
    writers.check_that_nobody_was_silent()


def test_a_server_of_postgresql_that_was_stopped_has_made_nobody_silent(
    serve_on: Any, new_postgres: Callable[..., Postgres]
) -> None:
    postgres = new_postgres("fsync=off")
    server: OwnProcess = serve_on(postgres.new_database())
    writers = Writers(server)
    postgres.stop()
    until = monotonic() + LONGER_S
    while monotonic() < until:
        threading.Event().wait(0.1)
        assert writers.note("w0").status_code in (503, 504)
    postgres.start()

    deadline = monotonic() + 60
    while writers.note("w0").status_code != 200 and monotonic() < deadline:
        pass
    writers.check_that_nobody_was_silent()
    server.stop()
    postgres.remove()
