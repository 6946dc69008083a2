"""Somebody sets the host's clock: marks go on by their intervals, and what the controller tells never goes back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from strandline.core.clock import CLOCK_CONFIRM_MS, CLOCK_STEP_BOUND_MS
from tests.served import NOON, InProcess, ManualClock

SECOND, HOUR, DAY = 1_000, 3_600_000, 86_400_000


class World:
    """Two writers of a stream in event time, whose marks come each second, and a reporter of one in ingestion time.
    All of them take their time from elsewhere than the host that the controller runs on."""

    def __init__(self, controller: InProcess, clock: ManualClock) -> None:
        self.clock = clock
        self.controller = controller
        self.noted = 0
        self.told: list[int] = []
        controller.call("PUT", "/v1/streams/s", {"segments": 2, "writer_timeout_ms": 3_000})
        controller.call("PUT", "/v1/streams/tail", {"segments": 1, "time_domain": "ingestion"})

    def run(self, seconds: int) -> None:
        """Everybody says each half second where he is, and nobody is refused."""
        for _ in range(2 * seconds):
            self.noted += 1
            for writer in ("w0", "w1"):
                self.controller.note(writer, self.clock.now, {writer[1:]: self.noted})
            self.told.append(self.time())
            report = {"reporter": "t", "time": self.told[-1], "position": {"0": self.noted}}
            self.controller.call("POST", "/v1/streams/tail/tail", report)
            self.controller.pass_time(SECOND // 2)

    def time(self) -> int:
        return int(self.controller.request("GET", "/healthz").headers["strandline-time"])

    def marks(self, stream: str = "s") -> list[dict[str, Any]]:
        return self.controller.marks(stream)

    def check(self, seconds: int) -> None:
        """Marks came in each of so many seconds, to an eighth of the time; they leave nobody out; no time goes back."""
        times = [mark["time"] for mark in self.marks()]
        assert len(times) >= seconds * 7 // 8
        assert self.clock.now - times[-1] <= 2 * SECOND
        assert all(mark["complete"] for mark in [*self.marks(), *self.marks("tail")])
        assert self.told == sorted(self.told)
        assert len(self.marks("tail")) >= len(self.told) - 1


@pytest.fixture
def database(store_url: str) -> str:
    return store_url


@pytest.fixture
def world(controller: InProcess, clock: ManualClock) -> World:
    return World(controller, clock)


def test_a_clock_that_goes_an_hour_forward_and_comes_back_changes_nothing(world: World, clock: ManualClock) -> None:
    world.run(4)
    clock.wall_ahead_ms = HOUR
    world.run(3)
    assert world.time() == clock.now
    clock.wall_ahead_ms = 0
    world.run(6)

    world.check(13)
    assert world.time() == clock.now
    assert all(mark["time"] <= clock.now for mark in world.marks("tail"))


def test_a_clock_set_back_stops_no_marks_until_both_meet(world: World, clock: ManualClock) -> None:
    world.run(4)
    clock.wall_ahead_ms = -HOUR
    world.run(20)

    world.check(24)
    ahead = world.time() - clock.wall()
    assert HOUR - 20 * SECOND // 8 <= ahead < HOUR
    world.controller.pass_time(8 * HOUR)
    assert world.time() == clock.wall()


def test_a_restart_with_the_host_behind_keeps_making_marks(
    world: World, clock: ManualClock, start: Callable[..., InProcess]
) -> None:
    world.run(4)
    clock.wall_ahead_ms = -HOUR
    for _ in range(3):
        world.controller = start(after_ms=200)
        world.run(5)
    world.check(19)


def test_a_clock_set_forward_is_followed_in_the_end(world: World, clock: ManualClock) -> None:
    world.run(4)
    clock.wall_ahead_ms = HOUR
    world.run(CLOCK_CONFIRM_MS // SECOND)
    assert world.time() == clock.now
    world.controller.pass_time(2 * SECOND)
    assert world.time() == clock.now + HOUR


def test_only_a_restart_follows_a_jump_beyond_one_day(
    world: World, clock: ManualClock, start: Callable[..., InProcess]
) -> None:
    clock.wall_ahead_ms = CLOCK_STEP_BOUND_MS + HOUR
    world.controller.pass_time(10 * CLOCK_CONFIRM_MS)
    assert world.time() == clock.now
    problem = world.controller.call(
        "POST", "/v1/streams/s/notes", {"writer": "w", "time": clock.now + DAY + HOUR, "position": {}}, expect=422
    )
    assert problem["code"] == "time_too_far_ahead"
    world.controller = start()
    assert world.time() == clock.wall()
    world.controller.note("w", clock.now + DAY + HOUR, {})


def test_operators_are_told(world: World, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        world.controller.pass_time(SECOND)
        found = [record.message for record in caplog.records if record.message.startswith("clock_")]
        caplog.clear()
        return found

    def shown() -> Any:
        ready = world.controller.call("GET", "/readyz")["clock"]
        text = world.controller.request("GET", "/metrics").text
        (line,) = (line for line in text.splitlines() if line.startswith("strandline_clock_host_ahead_seconds "))
        assert float(line.split()[1]) == ready["host_ahead_ms"] / 1000
        return ready

    caplog.set_level(logging.INFO, logger="strandline")
    assert (told(), shown()) == ([], {"state": "steady", "host_ahead_ms": 0})
    clock.wall_ahead_ms = HOUR
    assert (told(), shown()) == (["clock_behind"], {"state": "behind", "host_ahead_ms": HOUR})
    assert told() == []
    clock.wall_ahead_ms = 0
    assert (told(), shown()) == (["clock_steady"], {"state": "steady", "host_ahead_ms": 0})
    clock.wall_ahead_ms = -HOUR
    assert (told(), shown()) == (["clock_ahead"], {"state": "ahead", "host_ahead_ms": -HOUR})
    clock.wall_ahead_ms = -4_000
    assert (told(), shown()["state"]) == (["clock_steady"], "steady")
    clock.wall_ahead_ms = 2 * HOUR
    assert told() == ["clock_behind"]
    world.controller.pass_time(CLOCK_CONFIRM_MS)
    assert told() == ["clock_followed", "clock_steady"]
    assert world.time() == clock.wall() > NOON
