"""Somebody sets the host's clock: marks go on by their intervals, and what the controller tells never goes back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from controller.lifecycle import start_controller
from strandline.core.note import Note
from strandline.core.writer import WriterState
from tests.served import NOON, InProcess, ManualClock

pytestmark = pytest.mark.usefixtures("store_url")


SECOND, HOUR = 1_000, 3_600_000


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
        """Marks came in each of so many seconds, or of twice as many; they leave nobody out; no time goes back."""
        times = [mark["time"] for mark in self.marks()]
        assert len(times) >= seconds // 2
        assert self.clock.now - times[-1] <= 2 * SECOND
        assert all(mark["complete"] for mark in [*self.marks(), *self.marks("tail")])
        assert self.told == sorted(self.told)
        assert len(self.marks("tail")) >= len(self.told) - 1


@pytest.fixture
def world(controller: InProcess, clock: ManualClock) -> World:
    return World(controller, clock)


def test_a_clock_set_back_stops_no_marks_until_both_meet(world: World, clock: ManualClock) -> None:
    world.run(4)
    clock.wall_ahead_ms = -HOUR
    world.run(20)

    world.check(24)
    assert world.time() - clock.wall() == HOUR - 10 * SECOND
    world.controller.pass_time(2 * HOUR)
    assert world.time() == clock.wall()


def test_a_leap_of_an_hour_is_no_writers_silence(tmp_path: Path, clock: ManualClock) -> None:
    async def play() -> None:
        controller = await start_controller(f"sqlite:///{tmp_path / 'store.db'}", clock, "test")
        await controller.streams.create("s", 2, {"writer_timeout_ms": 3_000})

        async def note(*writers: str) -> set[str]:
            """Returns the writers that have timed out after these have noted."""
            for writer in writers:
                await controller.notes.take("s", Note(writer=writer, times={"": clock.now}, position={writer: 1}))
            await controller.run_due()
            stream = (await controller.streams.get("s")).stream
            timed_out = WriterState.TIMED_OUT
            return {name for name, writer in stream.writers.items() if timed_out in stream.states(writer).values()}

        assert await note("0", "1") == set()
        clock.wall_ahead_ms = HOUR
        assert await note("0") == set()
        assert controller.clock.now() == clock.wall()
        for timed_out in (set(), set(), {"1"}):
            clock.now += SECOND
            assert await note("0") == timed_out
        await controller.stop()

    asyncio.run(play())


def test_a_clock_set_forward_is_followed_at_once_and_operators_are_told_of_one_set_back(
    world: World, clock: ManualClock
) -> None:
    def shown() -> Any:
        world.controller.pass_time(SECOND)
        ready = world.controller.call("GET", "/readyz")["clock"]
        text = world.controller.request("GET", "/metrics").text
        (line,) = (line for line in text.splitlines() if line.startswith("strandline_clock_host_ahead_seconds "))
        assert float(line.split()[1]) == ready["host_ahead_ms"] / 1000
        return ready

    clock.wall_ahead_ms = HOUR
    assert shown() == {"state": "steady", "host_ahead_ms": 0}
    assert world.time() == clock.wall() > NOON
    world.controller.note("w", clock.wall(), {})
    for ahead, state in ((0, "ahead"), (HOUR - 4_000, "ahead"), (HOUR, "steady")):
        clock.wall_ahead_ms = ahead
        assert shown()["state"] == state
