"""Whatever was loaded under a tenure is served and written under that one alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.clock import Clock
from controller.cluster.records import Kind
from controller.commit.group_commit import Committer, Durable
from controller.commit.health import StoreHealth
from controller.commit.store import Store, after_commit
from controller.groups.service import Groups
from controller.joint.shard_record import NoLease
from controller.storage.database import Database, open_database
from controller.storage.save import Claim
from controller.storage.session import StoreConnection
from controller.storage.tenure import Tenure, not_served
from controller.streams.cache import LoadingCache
from controller.streams.loaded_stream import LoadedStream
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from controller.streams.time_index import TimeIndexes
from strandline.core.note import Note
from strandline.core.served_time import Unserved
from strandline.errors import NotOwner, StoreUnavailable, StoreUndecided, StreamLoading, UnknownStream
from strandline.testing import ManualClock
from strandline.wire.groups import GroupSettings
from tests.served import NOON
from tests.storage.loads import load_stream
from tests.terms import FIRST

pytestmark = pytest.mark.full

CONFIG = {"mark_interval_ms": 0, "max_ahead_ms": None}


class Shards:
    """Shards of one store, each with a tenure of its own or none. The last letter of a name is its shard."""

    def __init__(self, *shards: str) -> None:
        self._fences = 0
        self._present: dict[str, Tenure] = {}
        for shard in shards:
            self.take(shard)

    def take(self, shard: str) -> Tenure:
        self._fences += 1
        return self.begin_tenure(shard, self._fences)

    def begin_tenure(self, shard: str, fence: int) -> Tenure:
        tenure = self._present[shard] = Tenure(fence, "test", NOON, Unserved(), shard=int(shard))
        return tenure

    def lose(self, shard: str) -> None:
        tenure = self._present.pop(shard, None)
        if tenure is not None:
            tenure.over = True

    def has(self, shard: str) -> bool:
        return shard in self._present

    def of(self, kind: Kind, name: str) -> Tenure:
        tenure = self._present.get(name[-1])
        if tenure is None or tenure.closing:
            raise not_served(kind, name)
        return tenure

    def serves(self, tenure: Tenure) -> bool:
        return not tenure.over and not tenure.closing

    async def ready(self) -> None: ...

    def begin(self) -> Shards:
        if not self._present:
            raise NoLease
        return self

    def check(self, connection: StoreConnection, claims: Sequence[Claim]) -> None:
        for claim in claims:
            assert self._present[claim.name[-1]] is claim.tenure

    def finish(self, connection: StoreConnection) -> None: ...

    def succeed(self) -> None: ...

    def fail(self, error: Exception) -> None: ...

    def stop(self) -> bool:
        return True


class World:
    """The streams and groups of a real store."""

    def __init__(self, database: Database, shards: Shards) -> None:
        self.shards = shards
        self.clock = ManualClock(NOON)
        clock = self.clock_of_streams = Clock(self.clock, by_hand=True)
        self.store = Store(database, FIRST)
        self.health = StoreHealth(perf_counter)
        self.committer = Committer(self.store.commit, shards, health=self.health)
        self.streams = Streams(self.store, self.committer, clock, shards)
        reading, indexing = Reads(self.streams, self.store, clock), TimeIndexes(self.streams, self.store)
        self.groups = Groups(self.store, self.committer, clock, self.streams, reading, indexing, shards)

    async def note(self, stream: str, time: int) -> Durable:
        """Applies a note; the returned future is done when it is durable."""
        loaded = await self.streams.get(stream)
        loaded.stream.note(Note(writer="w", times={"": time}, position={"0": time}), NOON)
        return self.committer.join(loaded)

    async def time(self, stream: str) -> int | None:
        writer = (await self.streams.get(stream)).stream.writers.get("w")
        return None if writer is None else writer.key_states[""].time

    async def fence(self, stream: str) -> int:
        """Of the tenure that wrote the stream last."""
        stored = await self.store.read(load_stream, stream)
        assert stored is not None
        return stored.fence


def play(url: str, scene: Callable[[World], Awaitable[None]]) -> None:
    async def whole() -> None:
        world = World(open_database(url), Shards("0", "1"))
        world.committer.start()
        await scene(world)
        await world.committer.stop(5)
        await world.store.close(2)

    asyncio.run(whole())


def test_a_stream_whose_tenure_is_over_is_not_served(store_url: str) -> None:
    async def scene(world: World) -> None:
        for stream in ("a0", "b1"):
            await world.streams.create(stream, 1, CONFIG)
        world.shards.lose("0")

        assert world.streams.find_loaded("a0") is None
        with pytest.raises(NotOwner, match="no controller takes calls for stream 'a0' just now"):
            await world.streams.get("a0")
        with pytest.raises(NotOwner):
            await world.streams.create("c0", 1, CONFIG)
        assert [loaded.name for loaded in world.streams.in_memory()] == ["b1"]

    play(store_url, scene)


def test_a_stream_is_loaded_again_under_the_next_tenure(store_url: str) -> None:
    async def scene(world: World) -> None:
        await world.streams.create("a0", 1, CONFIG)
        before = await world.streams.get("a0")
        await (await world.note("a0", 5))
        world.shards.lose("0")
        tenure = world.shards.take("0")

        after = await world.streams.get("a0")
        assert after is not before and after.tenure is tenure
        assert await world.time("a0") == 5
        await (await world.note("a0", 6))
        assert await world.fence("a0") == tenure.fence

    play(store_url, scene)


def test_what_changed_under_a_tenure_that_is_over_is_not_written(store_url: str) -> None:
    async def scene(world: World) -> None:
        for stream in ("a0", "b1"):
            await world.streams.create(stream, 1, CONFIG)
        first, beside = await world.note("a0", 5), await world.note("b1", 5)
        assert first is beside
        world.shards.lose("0")
        world.shards.take("0")

        with pytest.raises(StoreUnavailable, match="no longer serves what was to be written"):
            await first
        assert (await world.time("a0"), await world.time("b1")) == (None, None)
        await (await world.note("a0", 6))

    play(store_url, scene)


def test_a_read_of_a_stream_that_is_deleted_meanwhile_fails_no_call_of_others(store_url: str) -> None:
    async def scene(world: World) -> None:
        for stream in ("a0", "b1"):
            await world.streams.create(stream, 1, CONFIG)
        loaded = await world.streams.get("a0")
        await world.streams.delete("a0")
        reading = asyncio.create_task(world.streams.check_again(loaded, "", 1))  # its marks were not found
        await asyncio.sleep(0)

        await (await world.note("b1", 5))
        with pytest.raises(UnknownStream):
            await reading

    play(store_url, scene)


def test_a_waiting_reader_finds_the_stream_again_when_a_tenure_ends(store_url: str) -> None:
    """Whoever ends a tenure discards what is in memory under it, which wakes those who wait."""

    async def scene(world: World) -> None:
        await world.streams.create("a0", 1, CONFIG)
        loaded = await world.streams.get("a0")
        mark = loaded.next_mark("")
        for each in world.streams.in_memory():
            each.discard()
        world.shards.lose("0")
        await mark
        assert loaded.chains == {} and world.streams.find_loaded("a0") is None

    play(store_url, scene)


def test_a_beat_of_a_controller_that_serves_nothing_is_no_failure_of_the_store(store_url: str) -> None:
    async def scene(world: World) -> None:
        world.shards.lose("0")
        world.shards.lose("1")
        with pytest.raises(StoreUnavailable, match="no lease"):
            await world.committer.beat()
        assert world.health.up and not world.health.errors
        world.shards.take("0")

    play(store_url, scene)


def test_what_is_being_handed_over_is_not_found_but_still_written(store_url: str) -> None:
    async def scene(world: World) -> None:
        await world.streams.create("a0", 1, CONFIG)
        done = await world.note("a0", 5)
        tenure = world.shards.of(Kind.STREAM, "a0")
        tenure.closing = True

        assert world.streams.find_loaded("a0") is None and world.streams.in_memory() == []
        with pytest.raises(NotOwner):
            await world.streams.get("a0")
        await done
        world.streams.forget({tenure})
        world.shards.lose("0")
        world.shards.take("0")
        assert await world.time("a0") == 5

    play(store_url, scene)


def test_waiting_readers_are_woken_when_their_stream_is_handed_over(store_url: str) -> None:
    async def scene(world: World) -> None:
        for stream in ("a0", "b1"):
            await world.streams.create(stream, 1, CONFIG)
        marks = [(await world.streams.get(stream)).next_mark("") for stream in ("a0", "b1")]
        world.streams.hand_over({world.shards.of(Kind.STREAM, "a0")})
        assert [mark.done() for mark in marks] == [True, False]

    play(store_url, scene)


def test_time_changes_nothing_that_is_being_handed_over(store_url: str) -> None:
    async def scene(world: World) -> None:
        await world.streams.create("a0", 1, {**CONFIG, "mark_interval_ms": 1_000})
        await (await world.note("a0", 5))
        loaded = await world.streams.get("a0")
        assert loaded.wake is not None
        world.shards.of(Kind.STREAM, "a0").closing = True
        world.clock.now += 60_000
        world.streams.timers.run_due()
        assert world.committer.pending(loaded) is None

    play(store_url, scene)


def test_a_group_has_the_tenure_of_its_own_name(store_url: str) -> None:
    async def scene(world: World) -> None:
        await world.streams.create("a0", 1, CONFIG)
        await world.groups.create("g1", GroupSettings(streams=("a0",)))
        epoch = (await world.groups.register("g1", "r", {"a0": {"0": 3}})).epoch
        world.shards.lose("1")

        assert world.groups.find_loaded("g1") is None and world.streams.find_loaded("a0") is not None
        with pytest.raises(NotOwner, match="no controller takes calls for reader group 'g1' just now"):
            await world.groups.get("g1")
        tenure = world.shards.take("1")
        assert (await world.groups.get("g1")).tenure is tenure
        assert (await world.groups.report("g1", "r", epoch, {"a0": {"0": 4}})).owned == {"a0": {"0": 4}}

    play(store_url, scene)


def test_what_a_later_tenure_wrote_is_not_served_under_an_earlier_one(store_url: str) -> None:
    """A host that slept does not know that it has lost its shard: what it loads now would have an old fence."""

    async def scene(world: World) -> None:
        await world.streams.create("a0", 1, CONFIG)
        await world.groups.create("g0", GroupSettings(streams=("a0",)))
        later = world.shards.of(Kind.STREAM, "a0").fence
        world.shards.lose("0")
        world.shards.begin_tenure("0", later - 1)
        with pytest.raises(NotOwner, match=f"stream 'a0' .* written with fence {later} .* took it with {later - 1}"):
            await world.streams.get("a0")
        with pytest.raises(NotOwner, match=f"reader group 'g0' .* written with fence {later} "):
            await world.groups.get("g0")
        world.shards.lose("0")
        world.shards.take("0")
        await world.streams.get("a0")
        await world.groups.get("g0")

    play(store_url, scene)


def test_a_tenure_that_ends_after_a_change_leaves_the_answer_undecided() -> None:
    with pytest.raises(StoreUndecided, match="it is stored"), after_commit():
        raise not_served(Kind.STREAM, "a0")


def test_what_is_stored_is_not_refused_because_its_stream_is_loading_again() -> None:
    with pytest.raises(StoreUndecided, match=r"it is stored, .* still being loaded"), after_commit():
        raise StreamLoading(stream="s")


def test_what_is_loaded_while_its_tenure_ends_does_not_count() -> None:
    async def scene() -> None:
        shards, loads = Shards("0"), list[Tenure]()

        async def load(_name: str, tenure: Tenure) -> None:
            loads.append(tenure)
            if len(loads) == 1:
                shards.lose("0")
                shards.take("0")
            elif len(loads) == 3:
                shards.lose("0")

        cache: LoadingCache[LoadedStream] = LoadingCache(Kind.STREAM, shards, load)
        assert await cache.find("a0") is None and len(loads) == 2 and loads[0] is not loads[1]
        with pytest.raises(NotOwner):
            await cache.find("a0")

    asyncio.run(scene())


@dataclass(eq=False)
class Item:
    """What the store has, as it was loaded."""

    tenure: Tenure
    discarded: bool = False
    ending: asyncio.Future[None] | None = None


CHANGES = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["discard", "forget", "take"])), max_size=6)


@given(changes=CHANGES, reads=st.lists(st.integers(0, 4), max_size=4))
# It was loaded, and is forgotten before the caller has its turn.
@example(changes=[(0, "discard"), (2, "forget")], reads=[0, 0])
# What it was to replace is forgotten while it is loaded.
@example(changes=[(0, "discard"), (1, "forget"), (0, "take")], reads=[0, 3])
def test_what_the_store_has_is_never_said_to_be_missing(changes: list[tuple[int, str]], reads: list[int]) -> None:
    """Whatever happens while it is loaded: it is found, or the caller hears that nobody serves it just now."""

    async def scene() -> None:
        shards, turns = Shards("0"), list(reads)

        async def load(_name: str, tenure: Tenure) -> Item:
            for _ in range(turns.pop(0) if turns else 0):
                await asyncio.sleep(0)
            return Item(tenure)

        async def change() -> None:
            for turns_before, what in changes:
                for _ in range(turns_before):
                    await asyncio.sleep(0)
                if what == "discard":
                    for item in cache.items():
                        item.discarded = True
                elif what == "forget" and shards.has("0"):
                    cache.forget([shards.of(Kind.STREAM, "a0")])
                    shards.lose("0")
                elif what == "take" and not shards.has("0"):
                    shards.take("0")

        async def ask() -> None:
            try:
                found = await cache.find("a0")
            except NotOwner:
                return
            assert found is not None

        cache: LoadingCache[Item] = LoadingCache(Kind.STREAM, shards, load)
        await ask()
        await asyncio.gather(change(), *(ask() for _ in range(3)))

    asyncio.run(scene())


STREAMS = ("a0", "b0", "c1")
STEPS = st.tuples(st.sampled_from(["note", "note", "lose", "take", "note and lose"]), st.sampled_from(STREAMS))


@given(steps=st.lists(STEPS, max_size=25))
def test_tenures_come_and_go_and_the_store_has_what_was_answered(steps: Sequence[tuple[str, str]]) -> None:
    async def scene(world: World) -> None:
        durable: dict[str, int | None] = dict.fromkeys(STREAMS)
        for stream in durable:
            await world.streams.create(stream, 1, CONFIG)
        for time, (step, stream) in enumerate(steps, 1):
            if step == "take" and not world.shards.has(stream[-1]):
                world.shards.take(stream[-1])
            elif step == "lose":
                world.shards.lose(stream[-1])
            elif step.startswith("note"):
                try:
                    done = await world.note(stream, time)
                    if step == "note and lose":
                        world.shards.lose(stream[-1])
                    await done
                except NotOwner:
                    assert not world.shards.has(stream[-1])
                except StoreUnavailable:
                    assert step == "note and lose"
                else:
                    assert step == "note"
                    assert await world.fence(stream) == world.shards.of(Kind.STREAM, stream).fence
                    durable[stream] = time
        for shard in ("0", "1"):
            world.shards.lose(shard)
            world.shards.take(shard)
        assert {stream: await world.time(stream) for stream in durable} == durable

    with TemporaryDirectory() as folder:
        play(str(Path(folder) / "store.db"), scene)
