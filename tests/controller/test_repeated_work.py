"""What a controller does by itself, again and again."""

from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from sqlalchemy import Connection, insert, update

from controller.lifecycle import start_controller
from controller.storage import schema
from controller.storage.heads import DUE_STREAMS, Service, head_values, new_head
from controller.storage.presence import Presence
from controller.storage.subjects import Kind, Subject
from controller.streams.registry import DAMAGED_ASIDE_S, KEPT_S
from strandline.errors import TimeWentBack
from strandline.testing import ManualClock
from tests.controller.world import CONFIG, World, play
from tests.served import NOON


class Beats(Presence):
    count = 0

    def serve(self, connection: Connection) -> Service:
        self.count += 1
        return super().serve(connection)


class Endless:
    """Work that never ends."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def run_due(self) -> None:
        self.begun.set()
        await asyncio.Event().wait()


def test_the_heartbeat_waits_for_no_other_work(tmp_path: Path) -> None:
    async def scene() -> None:
        clock, endless, beats = ManualClock(NOON), Endless(), Beats("test", "1", ManualClock(NOON).wall)
        made = await start_controller(f"sqlite:///{tmp_path / 'store.db'}", clock, "test", by_hand=True)
        retention: Any = endless
        controller = replace(made, retention=retention, presence=beats)
        controller.serve(by_hand=False)
        await endless.begun.wait()
        before = beats.count
        async with asyncio.timeout(60):
            while beats.count < before + 2:
                await asyncio.sleep(0.05)
        await controller.stop()

    asyncio.run(scene())


def test_what_nobody_waits_for_does_not_pile_up_while_the_store_is_silent(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await world.streams.create("s", 1, CONFIG)
        await world.note("s", 2)
        with mock.patch.object(world.commits, "soon", wraps=world.commits.soon) as soon:
            for calls in (1, 2):
                with pytest.raises(TimeWentBack):
                    await world.note("s", 1)
                (live := await world.streams.get("s")).tally.refusals["time_went_back"] += 1
                for _ in range(10):
                    world.streams.store_counts()
                assert soon.call_count == calls
                await world.commits.settled()
                world.streams.store_counts()
                assert soon.call_count == calls and live.standing.totals.refusals == {"time_went_back": 2 * calls}

    play(f"sqlite:///{tmp_path / 'store.db'}", scene)


async def two_due(world: World) -> None:
    """Two streams, in each of which a writer falls silent, and before them many whose rows are missing."""

    def spoil(connection: Connection) -> None:
        with connection.begin():
            head = new_head("1", NOON)._replace(wake_at=NOON)
            names = [f"broken-{number}" for number in range(DUE_STREAMS + 1)]
            rows = [head_values(Subject(Kind.STREAM, name), head, "") for name in names]
            connection.execute(insert(schema.head), rows)

    for name in ("s", "t"):
        await world.streams.create(name, 1, {**CONFIG, "writer_timeout_ms": 1_000})
        for writer, time in (("a", 1), ("b", 2)):
            await world.note(name, time, writer)
            world.clock.now += 100
        (await world.streams.get(name)).discard()
    await world.store.write(spoil)
    world.clock.now += 2_000


def test_streams_that_cannot_be_advanced_are_in_nobodys_way(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await two_due(world)
        await world.streams.advance_due()
        for name in ("s", "t"):
            assert (await world.streams.get(name)).chains[""].last_seq == 2

    play(f"sqlite:///{tmp_path / 'store.db'}", scene)


def test_streams_that_nobody_calls_leave_memory_when_the_store_has_all_of_them(store_url: str) -> None:
    async def scene(world: World) -> None:
        loop = asyncio.get_running_loop()
        names = ("idle", "due", "left", "bounded")
        for name in names:
            await world.streams.create(name, 1, {**CONFIG, "writer_timeout_ms": 2_000 if name == "due" else 86_400_000})
            for time in (1, 2):
                await world.note(name, time)
        await world.streams.change("bounded", lambda each, now: each.configure({"mark_retention_ms": 86_400_000}, now))
        world.clock.now += 500
        live, noted_at = await world.streams.get("idle"), world.clock.now
        live.noted_at["0"], live.tally.notes = noted_at, 2  # the store has neither yet
        reader = (await world.streams.get("left")).next_mark("")  # one that waited a while, and has left
        memory = [weakref.ref(each) for each in world.streams.in_memory()]
        await world.streams.let_go()
        assert {each.name for each in world.streams.in_memory()} == set(names)  # they were called just now

        world.clock.now += 1
        later = loop.time() + KEPT_S + 1
        with mock.patch.object(loop, "time", lambda: later):
            for _ in range(2):  # what is not written yet is written first
                await world.streams.let_go()
                await world.commits.settled()
        assert {each.name for each in world.streams.in_memory()} == {"due", "bounded"} and reader.done()
        del live
        gc.collect()
        assert len([each for each in memory if each() is not None]) == 2

        loaded = await world.streams.get("idle")
        assert (loaded.noted_at, loaded.chains[""].last_seq) == ({"0": noted_at}, 2)
        counted = world.streams.counted("idle")
        assert counted is not None and counted.totals.notes == loaded.standing.totals.notes == 2

    play(store_url, scene)


def test_a_stream_that_cannot_be_read_is_tried_again_after_a_while(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await two_due(world)
        loop = asyncio.get_running_loop()

        def spoil(connection: Connection) -> None:
            with connection.begin():
                connection.execute(update(schema.stream).where(schema.stream.c.name == "s").values(config="{"))

        await world.store.write(spoil)
        with mock.patch.object(world.streams._loading, "load", wraps=world.streams._loading.load) as load:
            for loads, later in ((1, 0.0), (1, 1.0), (2, DAMAGED_ASIDE_S + 1)):
                at = loop.time() + later
                with mock.patch.object(loop, "time", lambda at=at: at):
                    await world.streams.advance_due()
                assert [call.args[0] for call in load.call_args_list].count("s") == loads
        assert "s" in world.streams.damaged

    play(f"sqlite:///{tmp_path / 'store.db'}", scene)
