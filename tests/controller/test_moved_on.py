"""What changes while a call waits: it answers with what is there then."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from controller.commit.store import Store
from controller.http.bodies import SealBody
from controller.http.routes.streams import seal
from controller.lifecycle import start_controller
from controller.storage.database import open_database
from controller.storage.news import Found
from controller.storage.subjects import Kind, Subject
from controller.streams.notes import Noted, Notes
from controller.streams.registry import Streams
from strandline.core.changes import NoteResult
from strandline.core.note import Note
from strandline.core.segment import NewSegment
from strandline.core.stream import Stream
from strandline.errors import StoreCorrupt, StoreUnavailable, UnknownStream
from strandline.testing import ManualClock
from strandline.wire.groups import GroupSettings
from tests.controller.world import CONFIG, World, play
from tests.storage.loads import load_stream


def test_the_marks_of_a_seal_are_shown_by_the_segments_that_another_controller_has_made_meanwhile(
    postgres_url: str,
) -> None:
    async def scene() -> None:
        clock = ManualClock()
        one, other = [await start_controller(postgres_url, clock, name, by_hand=True) for name in ("one", "other")]
        await one.streams.create("s", 1, CONFIG)
        await one.notes.take("s", Note(writer="w", times={"": 1}, position={"0": 5}))
        await one.streams.get("s", now=True)
        parts = [NewSegment("a", 0.0, 0.5), NewSegment("b", 0.5, 1.0)]
        await other.streams.change("s", lambda stream, now: stream.scale({"0": 5}, parts, now))
        for segment, time in (("a", 2), ("b", 3)):
            await other.notes.take("s", Note(writer="w", times={"": time}, position={segment: 7}))
        await other.streams.change("s", lambda stream, now: stream.configure({"min_writers": 2}, now))
        await other.notes.take("s", Note(writer="w", times={"": 4}, position={"a": 8, "b": 8}))

        page = await seal("s", SealBody(), one, None)

        assert [(mark.time, mark.cut) for mark in page.marks] == [(4, {"a": 8, "b": 8})]
        await one.stop()
        await other.stop()

    asyncio.run(scene())


class Failing(Store):
    """A store of several controllers. Once it is away, it fails when the test says so."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.is_shared = True
        self.away = False
        self.commit_fails, self.read_fails = asyncio.Event(), asyncio.Event()

    async def transact(self, *asked: Any) -> None:
        if not self.away:
            return await super().transact(*asked)
        _, known, _, apply = asked
        apply(Found({subject: each.head for subject, each in known.items()}))
        await self.commit_fails.wait()
        raise OSError("away")

    async def read(self, *given: Any, **named: Any) -> Any:
        if not self.away:
            return await super().read(*given, **named)
        await self.read_fails.wait()
        raise StoreUnavailable(reason="away")


def test_a_reader_is_not_shown_a_stream_whose_commit_has_failed_while_the_reader_waited(tmp_path: Path) -> None:
    async def scene() -> None:
        store = Failing(open_database(f"sqlite:///{tmp_path / 'store.db'}"))
        world = World(store)
        world.commits.start()
        for name in ("s", "t"):
            await world.streams.create(name, 1, CONFIG)
        await world.note("s", 1)
        store.away = True
        noted = asyncio.create_task(world.note("s", 2))
        while world.commits.under_way(Subject(Kind.STREAM, "s")) is None:
            await asyncio.sleep(0)
        for loaded in world.streams.in_memory():
            loaded.compared_at = -math.inf  # a long time ago
        readers = [asyncio.create_task(world.streams.get(name)) for name in ("s", "t")]
        await asyncio.sleep(0)
        store.commit_fails.set()
        with pytest.raises(StoreUnavailable):
            await noted
        store.read_fails.set()
        with pytest.raises(StoreUnavailable):
            await readers[0]
        assert (await readers[1]).name == "t"  # as it was
        await store.close(5)

    asyncio.run(scene())


def test_what_is_loaded_is_as_new_as_when_that_began(tmp_path: Path) -> None:
    async def scene() -> None:
        controller = await start_controller(f"sqlite:///{tmp_path / 'store.db'}", ManualClock(), "one", by_hand=True)
        await controller.streams.create("s", 1, CONFIG)
        await controller.groups.create("g", GroupSettings(streams=("s",)))
        for item, get in (
            (await controller.streams.get("s"), controller.streams.get),
            (await controller.groups.get("g"), controller.groups.get),
        ):
            item.discard()
            loading = asyncio.create_task(get(item.subject.name))
            for _ in range(3):
                await asyncio.sleep(0)
            began = asyncio.get_running_loop().time()
            assert 0 < (await loading).compared_at <= began
        await controller.stop()

    asyncio.run(scene())


def test_settings_that_two_callers_change_at_once_have_both_changes(tmp_path: Path) -> None:
    async def scene() -> None:
        controller = await start_controller(f"sqlite:///{tmp_path / 'store.db'}", ManualClock(), "one", by_hand=True)
        for name in ("s", "t"):
            await controller.streams.create(name, 1, CONFIG)
        await controller.groups.create("g", GroupSettings(streams=("s",)))
        changes = {"streams": ("s", "t")}, {"reader_timeout_ms": 5_000}
        await asyncio.gather(*(controller.groups.configure("g", each, None) for each in changes))
        settings = (await controller.groups.get("g")).membership.settings
        assert settings == GroupSettings(streams=("s", "t"), reader_timeout_ms=5_000)
        await controller.stop()

    asyncio.run(scene())


def test_many_notes_are_taken_of_a_stream_that_leaves_memory_before_their_turn(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await world.streams.create("s", 1, CONFIG)
        notes = Notes(world.streams, world.commits)
        for turns in range(6):
            given = partial(lambda time, _: ("s", note("w", {"": time})), turns)
            taking = asyncio.create_task(notes.take_all(1, given, lambda _, results: results, lambda error: error))
            for _ in range(turns):
                await asyncio.sleep(0)
            (await world.streams.get("s")).discard()
            assert isinstance((await taking)[0], Noted)

    play(f"sqlite:///{tmp_path / 'store.db'}", scene)


class Unlisted(dict[str, int]):
    """Times that fail where they are compared with the clock: after the note was applied."""

    def values(self) -> Any:
        raise ZeroDivisionError


def note(writer: str, times: dict[str, int]) -> Note:
    return Note(writer=writer, times=times, position={"0": 5})


def register_and_fail(stream: Stream, now: int) -> None:
    stream.register("broken", None, now)
    raise ZeroDivisionError


BROKEN: dict[str, Callable[[Notes, Streams], Awaitable[object]]] = {
    "a note": lambda notes, _: notes.take("s", note("broken", Unlisted({"": 5}))),
    "many notes": lambda notes, _: notes.take_all(
        2, lambda place: ("s", note(f"broken-{place}", Unlisted({"": 5}))), lambda *_: [], lambda _: None
    ),
    "a change": lambda _, streams: streams.change("s", register_and_fail),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_nothing_of_a_call_that_fails_by_a_bug_is_stored_with_a_later_one(
    tmp_path: Path, broken: Callable[[Notes, Streams], Awaitable[object]]
) -> None:
    async def scene(world: World) -> None:
        await world.streams.create("s", 1, CONFIG)
        notes = Notes(world.streams, world.commits)
        calls = notes.take("s", note("before", {"": 5})), broken(notes, world.streams)
        beside, failed = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(failed, ZeroDivisionError)
        assert not isinstance(beside, Exception) or isinstance(beside, StoreUnavailable)
        await notes.take("s", note("later", {"": 5}))
        stored = await world.store.read(load_stream, "s")
        assert stored is not None
        assert set(stored.stream.writers) - {"before"} == {"later"}
        assert ("before" in stored.stream.writers) == (not isinstance(beside, Exception))

    play(f"sqlite:///{tmp_path / 'store.db'}", scene)


def test_what_could_not_be_read_and_was_created_again_is_deleted_also_in_memory(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        corrupt = StoreCorrupt(stream="s", reason="no JSON")
        change = mock.Mock(side_effect=[corrupt, mock.DEFAULT], wraps=world.streams.cache.change)
        await world.streams.create("s", 1, CONFIG)  # since another deletion, which was faster
        with mock.patch.object(world.streams.cache, "change", change):
            await world.streams.delete("s")
        with pytest.raises(UnknownStream):
            await world.note("s", 1)

    play(f"sqlite:///{tmp_path / 'store.db'}", scene)


def test_calls_about_one_name_in_one_turn_see_what_those_before_them_did(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        streams = world.streams
        assert await asyncio.gather(*(streams.create("s", 1, CONFIG) for _ in range(2))) == [True, False]
        deleted, noted, made = await asyncio.gather(
            streams.delete("s"), world.note("s", 1), streams.create("s", 1, CONFIG), return_exceptions=True
        )
        assert (deleted, made) == (None, True) and isinstance(noted, UnknownStream | NoteResult)
        assert (await streams.get("s")).stream.writers.keys() == ({"w"} if isinstance(noted, NoteResult) else set())

    play(f"sqlite:///{tmp_path / 'store.db'}", scene)
