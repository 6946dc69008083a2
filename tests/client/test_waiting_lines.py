"""Whoever waits says for whom, in one line, once it has waited for two seconds, and then at a pace."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from strandline.client import calls
from strandline.client.http import Connection, Seams
from strandline.client.retry import Patience
from strandline.errors import ControllerAway
from strandline.paced_log import OF_THE_PROCESS, WAIT_LOGGED_AFTER_MS, WARNINGS_PAUSE_MS, PacedLog, Room, Waiting


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    """What clients have logged so far: `lines()`."""
    caplog.set_level(logging.WARNING, "strandline")
    OF_THE_PROCESS.refill()
    return lambda: [record.getMessage() for record in caplog.records if record.name == "strandline"]


class Clock:
    """A clock that sleeping moves."""

    now_ms = 0.0

    def sleep(self, pause_s: float) -> None:
        self.now_ms += pause_s * 1000

    async def sleep_async(self, pause_s: float) -> None:
        self.sleep(pause_s)

    def seams(self) -> Seams:
        return Seams(lambda: self.now_ms, self.sleep, self.sleep_async, lambda: 0.5)


def test_a_call_that_waits_for_a_controller_names_it_once(closed_port: str, lines: Any) -> None:
    clock = Clock()
    with Connection(closed_port, seams=clock.seams(), patience=Patience(deadline_ms=30_000)) as connection:
        for _ in range(2):
            with pytest.raises(ControllerAway):
                connection.run(calls.describe("orders"))
    assert clock.now_ms > 30_000
    (line,) = lines()
    assert line.startswith(f"waiting for the controller at {closed_port}: ") and "refused" in line


def test_a_call_that_is_over_within_two_seconds_says_nothing(closed_port: str, lines: Any) -> None:
    patience = Patience(deadline_ms=WAIT_LOGGED_AFTER_MS - 500)
    connection = Connection(closed_port, seams=Clock().seams(), patience=patience)
    with connection, pytest.raises(ControllerAway):
        connection.run(calls.describe("orders"))
    assert lines() == []


def test_a_wait_is_told_after_two_seconds_and_then_once_a_minute(lines: Any) -> None:
    now = 0.0
    waiting = Waiting(PacedLog("strandline", lambda: now, Room()), lambda: now)
    told = []
    for second in range(130):
        now = float(second)
        before = len(lines())
        waiting.goes_on("waiting for X")
        if len(lines()) > before:
            told.append(second)
    assert told == [2, 2 + WARNINGS_PAUSE_MS // 1000, 2 + 2 * WARNINGS_PAUSE_MS // 1000]
    assert lines()[0] == "waiting for X (for 2 s)"
    waiting.ends("X has answered again")
    assert lines()[3:] == ["X has answered again after 129 s"]
    now = 500.0
    waiting.goes_on("waiting for X")
    waiting.ends("X has answered again")
    assert len(lines()) == 4  # a new wait begins with its first failure, and was too short to be told


def test_every_wait_that_was_told_has_a_line_when_it_is_over_and_no_other_has(lines: Any) -> None:
    clock = Clock()
    log = PacedLog("strandline", lambda: clock.now_ms / 1000, Room())
    for begins, ends in ((0, 15), (20, 30), (60, 64)):
        waiting = Waiting(log, lambda: clock.now_ms / 1000)
        for at in (begins, begins + 3):
            clock.now_ms = at * 1000
            waiting.goes_on("waiting for X")
        clock.now_ms = ends * 1000
        waiting.ends("X has answered again")
    assert lines() == [
        "waiting for X (for 3 s)",
        "X has answered again after 15 s",
        "waiting for X (for 3 s) (1 more such warnings were left out)",
        "X has answered again after 4 s",
    ]
