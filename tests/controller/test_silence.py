"""Time in which nobody could be heard counts against no one: a store that is away, a controller that does not run."""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from time import monotonic
from typing import Any

import pytest

from controller.clock import Clock
from strandline.errors import StoreUnavailable
from tests.postgres import Postgres
from tests.served import InProcess, ManualClock, OwnProcess

pytestmark = pytest.mark.full

CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": 3_000}
TIMEOUT_MS = 5_000
LONGER_S = 6.0  # than that timeout


def started(controller: InProcess) -> int:
    """Two writers, and a reader of a group; returns the reader's epoch. One second passes."""
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.note("w0", 10, {"0": 10})
    controller.note("w1", 10, {"1": 10})
    settings = {"streams": ["s"], "reader_timeout_ms": 3_000, "idle_timeout_ms": 3_000}
    controller.call("PUT", "/v1/reader-groups/g", settings)
    epoch: int = controller.call("PUT", "/v1/reader-groups/g/readers/r", {"positions": {"s": {"0": 99, "1": 99}}})[
        "epoch"
    ]
    controller.pass_time(1_000)
    return epoch


class SlowStart(ManualClock):
    """The clock of a host on which a start takes long: so much passes once the store was told when it begins."""

    def __init__(self, now: int, takes_ms: int) -> None:
        super().__init__(now)
        self._takes_ms = takes_ms

    def wall(self) -> int:
        told = super().wall()
        self.now, self._takes_ms = self.now + self._takes_ms, 0
        return told


def held_by(controller: InProcess) -> Any:
    return controller.call("GET", "/v1/streams/s")["held_by"][""]


class TestOnEachStore:
    @pytest.fixture
    def database(self, store_url: str) -> str:
        return store_url

    @pytest.fixture
    def away(self, store_url: str, request: pytest.FixtureRequest) -> Callable[[], Any]:
        """While it is entered the store can be read, and refuses every commit."""

        def execute(statement: str) -> None:
            if store_url.startswith("sqlite"):
                with closing(sqlite3.connect(store_url.removeprefix("sqlite:///"), timeout=30)) as connection:
                    connection.execute(statement)
            else:
                request.getfixturevalue("postgres").execute(statement, store_url)

        @contextmanager
        def refusing() -> Iterator[None]:
            if store_url.startswith("sqlite"):
                refuse, allow = "BEGIN SELECT RAISE(ABORT, 'away'); END", "DROP TRIGGER away"
            else:
                execute(
                    "CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'away'; END$$"
                )
                refuse, allow = "FOR EACH ROW EXECUTE FUNCTION away()", "DROP FUNCTION away CASCADE"
            execute(f"CREATE TRIGGER away BEFORE UPDATE ON served {refuse}")
            yield
            execute(allow)

        return refusing

    def test_a_store_that_is_away_makes_nobody_silent(self, controller: InProcess, away: Any) -> None:
        #   0      1 s                                      10 s              12 s          13 s
        #   heard  ├── the store is away, w0 goes on trying ──┤ w0 and r heard │ w1 is lost
        epoch = started(controller)
        with away():
            for second in range(9):
                body = {"writer": "w0", "time": 11 + second, "position": {"0": 11 + second}}
                controller.call("POST", "/v1/streams/s/notes", body, expect=503)
                with pytest.raises(StoreUnavailable):
                    controller.pass_time(1_000)
        controller.pass_time(0)

        controller.note("w0", 20, {"0": 20})
        assert [(mark["time"], mark["complete"]) for mark in controller.marks()] == [(10, True)]
        held = held_by(controller)
        assert (held["writer"], held["last_heard_ms_ago"], held["released_in_ms"]) == ("w1", 1_000, 2_000)
        body = {"positions": {"s": {"0": 100}}, "epoch": epoch}
        answer = controller.call("PUT", "/v1/reader-groups/g/readers/r", body)
        assert answer["owned"] == {"s": {"0": 100, "1": 99}} and answer["window"]["idle"] == []
        controller.pass_time(1_999)
        assert held_by(controller)["released_in_ms"] == 1
        controller.pass_time(1)
        assert (controller.marks()[-1]["time"], controller.marks()[-1]["excluded"]) == (20, ["w1"])

    def test_silence_goes_on_after_a_restart_from_where_it_was(
        self, controller: InProcess, start: Callable[..., InProcess], away: Any
    ) -> None:
        started(controller)
        controller.note("w0", 20, {"0": 20})
        with away():
            for milliseconds in (0, 60_000):  # the heart beats at once, and finds that the store is away
                with pytest.raises(StoreUnavailable):
                    controller.pass_time(milliseconds)
        controller.pass_time(0)
        controller.pass_time(500)
        again = start(after_ms=3_600_000)

        held = held_by(again)
        assert (held["writer"], held["last_heard_ms_ago"], held["released_in_ms"]) == ("w1", 1_500, 1_500)
        group = again.call("GET", "/v1/reader-groups/g")
        assert group["readers"][0]["owned"] == {"s": {"0": 99, "1": 99}}
        again.pass_time(1_499)
        assert again.marks()[-1]["excluded"] == []
        again.pass_time(1)
        assert again.marks()[-1]["excluded"] == ["w1"]

    def test_a_start_that_takes_long_makes_nobody_silent(
        self, controller: InProcess, database: str, clock: ManualClock
    ) -> None:
        started(controller)
        controller.note("w0", 20, {"0": 20})
        controller.__exit__(None, None, None)
        with InProcess(database, SlowStart(clock.now, takes_ms=60_000)) as again:
            held = held_by(again)
            assert (held["writer"], held["last_heard_ms_ago"], held["released_in_ms"]) == ("w1", 1_000, 2_000)
            assert again.call("GET", "/v1/reader-groups/g")["readers"][0]["owned"] == {"s": {"0": 99, "1": 99}}
            again.pass_time(1_999)
            assert again.marks()[-1]["excluded"] == []
            again.pass_time(1)
            assert again.marks()[-1]["excluded"] == ["w1"]

    def test_a_group_assumes_no_idleness_while_nobody_could_be_heard(self, controller: InProcess, away: Any) -> None:
        started(controller)
        with away():
            for milliseconds in (0, 60_000):  # the heart beats at once, and finds that the store is away
                with pytest.raises(StoreUnavailable):
                    controller.pass_time(milliseconds)
        controller.pass_time(0)
        controller.pass_time(1_999)
        assert controller.call("GET", "/v1/reader-groups/g/time-window")["idle"] == []
        controller.pass_time(1)
        assert controller.call("GET", "/v1/reader-groups/g/time-window")["idle"] == ["s"]


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


def test_the_clock_notices_that_the_process_stood_still_whoever_asks_it_first() -> None:
    host = ManualClock()
    clock = Clock(host)
    clock.watched = True
    before = clock.moment()
    host.now += 9_000
    assert clock.moment() == (before.now + 9_000, before.served)
    host.now += 900
    assert clock.moment().served == before.served + 900
