"""Marks older than `mark_retention_ms` go, a bounded number at a time; the newest stays, and what a group needs."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from controller.commit.store import Store
from controller.mark_retention import RETENTION_CHECK_MS, RETENTION_MARKS, Retention
from controller.streams.reads import Reads
from strandline.errors import UnknownStream
from tests.controller.world import World, play

CONFIG = {
    "segments": 1,
    "mark_interval_ms": 0,
    "max_ahead_ms": None,
    "writer_timeout_ms": None,
    "mark_retention_ms": 60_000,
}
GROUP = "/v1/reader-groups/g"


def marks_made(controller: Any, count: int, every_ms: int, stream: str = "s") -> None:
    """Marks at 10, 20, … for the offsets 10, 20, …, made one after the other."""
    for n in range(1, count + 1):
        controller.note("a", 10 * n, {"0": 10 * n}, stream)
        controller.clock.now += every_ms


def seqs(controller: Any) -> list[int]:
    return [mark["seq"] for mark in controller.marks()]


def stored(database: Path) -> list[int]:
    with sqlite3.connect(database) as connection:
        return [seq for (seq,) in connection.execute("SELECT seq FROM mark ORDER BY seq")]


def test_old_marks_go_from_memory_and_from_the_store_whatever_a_group_has_that_passed_none(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.call("PUT", GROUP, {"streams": ["s"]})
    controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 5}}})
    marks_made(controller, 10, 10_000)  # the first is 100 s old by now

    controller.pass_time(0)
    controller.pass_time(RETENTION_CHECK_MS)

    assert seqs(controller) == stored(controller.database) == [6, 7, 8, 9, 10]
    assert controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": 40}})["lower"] is None
    assert controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": 65}})["lower"] == 60


def test_a_stream_at_rest_lets_marks_go_when_it_is_loaded_again_but_the_newest_stays_however_old(start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    marks_made(controller, 3, 1_000)

    controller = start(after_ms=86_400_000)
    assert seqs(controller) == [1, 2, 3]
    controller.pass_time(0)
    assert seqs(controller) == stored(controller.database) == [3]

    for _ in range(2):
        controller.pass_time(86_400_000)
    assert seqs(controller) == [3]
    controller = start()
    assert seqs(controller) == [3]
    assert controller.note("a", 100, {"0": 100})["marks"][0]["seq"] == 4


def test_without_a_retention_marks_stay_and_setting_one_takes_effect(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {**CONFIG, "mark_retention_ms": None})
    marks_made(controller, 3, 60_001)
    controller.pass_time(86_400_000)
    assert seqs(controller) == [1, 2, 3]

    controller.call("PATCH", "/v1/streams/s", {"mark_retention_ms": 1})
    controller.pass_time(0)

    assert seqs(controller) == [3]


def test_very_many_marks_go_in_steps(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    for first in range(0, RETENTION_MARKS + 2_000, 6_000):
        notes = [{"writer": "a", "time": n, "position": {"0": n}} for n in range(first + 1, first + 6_001)]
        controller.call("POST", "/v1/streams/s/notes", {"notes": notes})
    controller.clock.now += 60_001
    controller.note("a", 20_000, {"0": 20_000})

    controller.pass_time(0)
    assert controller.marks(limit=1)[0]["seq"] == RETENTION_MARKS + 1
    controller.pass_time(RETENTION_CHECK_MS - 1)
    assert controller.marks(limit=1)[0]["seq"] == RETENTION_MARKS + 1
    controller.pass_time(1)
    assert seqs(controller) == [12_001]


def test_a_served_controller_lets_old_marks_go_by_itself(serve: Any) -> None:
    client = serve().client
    client.put("/v1/streams/s", json={**CONFIG, "mark_retention_ms": 1})
    for n in (1, 2, 3):
        client.post("/v1/streams/s/notes", json={"writer": "a", "time": n, "position": {"0": n}})

    deadline = time.monotonic() + 60
    while len(marks := client.get("/v1/streams/s/marks").json()["marks"]) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [mark["seq"] for mark in marks] == [3]


@pytest.mark.parametrize("heard", [True, False])
def test_what_a_group_stands_on_stays_while_someone_reads_in_it(controller: Any, heard: bool) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.call("PUT", GROUP, {"streams": ["s"], "reader_timeout_ms": None})
    marks_made(controller, 10, 10_000)
    body: dict[str, Any] = {"positions": {"s": {"0": 35}}}
    epoch = controller.call("PUT", f"{GROUP}/readers/r", body)["epoch"]

    controller.pass_time(RETENTION_CHECK_MS)
    assert seqs(controller) == list(range(3, 11))  # the group has passed mark 3
    if heard:
        controller.pass_time(50_000)
        controller.call("PUT", f"{GROUP}/readers/r", {**body, "epoch": epoch})
    controller.pass_time(51_000)

    lower = controller.call("GET", f"{GROUP}/time-window")["streams"]["s"]["lower"]
    assert (seqs(controller)[0], lower) == ((3, 30) if heard else (10, None))


class Meanwhile(Store):
    """A store in front of which something happens once, after it was read."""

    def __init__(self, store: Store, happens: Callable[[], Awaitable[None]]) -> None:
        self._real = store
        self._happens = [happens]

    async def read(self, *args: Any, **kwargs: Any) -> Any:
        found = await self._real.read(*args, **kwargs)
        while self._happens:
            await self._happens.pop()()
        return found


def test_a_stream_that_is_created_again_meanwhile_keeps_its_marks(store_url: str) -> None:
    async def scene(world: World) -> None:
        async def make(marks: int) -> None:
            await world.streams.create("a0", 1, {"mark_interval_ms": 0, "max_ahead_ms": None, "mark_retention_ms": 1})
            for n in range(1, marks + 1):
                await world.note("a0", n)

        async def make_again() -> None:
            await world.streams.delete("a0")
            await make(2)

        await make(3)
        world.clock.now += 10
        reading, clock = Reads(world.streams, world.store, world.clock_of_streams), world.clock_of_streams
        store = Meanwhile(world.store, make_again)
        await Retention(world.streams, reading, world.groups, store, clock).run_due()
        await world.commits.settled()
        assert [mark.seq for mark in (await reading.marks("a0", "", 0, 10)).marks] == [1, 2]

    play(store_url, scene)


def test_a_group_that_has_passed_no_mark_holds_none_back(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.call("PUT", GROUP, {"streams": ["s"]})
    controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 5}}})
    marks_made(controller, 10, 10_000)

    controller.pass_time(RETENTION_CHECK_MS)

    assert seqs(controller) == [6, 7, 8, 9, 10]


def test_a_read_of_a_stream_that_is_deleted_meanwhile_fails_no_call_of_others(store_url: str) -> None:
    async def scene(world: World) -> None:
        for stream in ("a0", "b1"):
            await world.streams.create(stream, 1, {"max_ahead_ms": None})
        loaded = await world.streams.get("a0")
        await world.streams.delete("a0")
        reading = asyncio.create_task(world.streams.check_again(loaded, "", 1))  # its marks were not found
        await asyncio.sleep(0)

        await world.note("b1", 5)
        with pytest.raises(UnknownStream):
            await reading

    play(store_url, scene)
