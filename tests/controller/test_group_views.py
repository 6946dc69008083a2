"""What a group is told of its streams: put together as one window, durable, and of this tenure alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import pytest

from controller.groups.loaded_group import LoadedGroup
from controller.groups.membership import Membership
from controller.groups.stream_views import GroupPlace, GroupStanding, StreamQuestion, StreamView, StreamViews
from controller.groups.windows import as_of, combined_of, group_window
from controller.storage.tenure import Tenure
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.served_time import Unserved
from strandline.core.window import TimeWindow
from strandline.errors import NotOwner, StoreUnavailable, StoreUndecided, StreamAway
from strandline.wire.groups import GroupSettings, GroupWindow
from tests.controller.test_tenures import CONFIG, World, play
from tests.served import NOON


def told(*streams: tuple[int | None, GroupStanding]) -> GroupWindow:
    """The window of a group whose streams, a, b and so on, have these lower bounds and standings."""
    views = {
        name: StreamView(
            identity=name,
            graph=SegmentGraph.equal_shares(1, NOON),
            fence=1,
            newest=NOON,
            place=GroupPlace({"0": 1}, {"": TimeWindow(lower, None)}, standing),
        )
        for name, (lower, standing) in zip("abc", streams, strict=False)
    }
    membership = Membership("g", GroupSettings(streams=tuple(views)))
    tenure = Tenure(1, "test", NOON, Unserved())
    loaded = LoadedGroup(membership, NOON, tenure, stored_fence=None)
    return group_window(loaded, views, combined_of(membership, views), NOON)


COUNTED, IDLE, SET_ASIDE, ENDED = GroupStanding


def test_streams_that_count_give_the_watermark() -> None:
    found = told((100, COUNTED), (200, COUNTED), (50, IDLE))
    assert (found.watermarks, found.held_by, found.idle, found.complete) == ({"": 100}, {"": "a"}, ("c",), True)
    assert told((None, COUNTED), (200, COUNTED)).watermarks == {"": None}


def test_a_stream_that_was_set_aside_makes_the_window_incomplete() -> None:
    found = told((100, COUNTED), (200, SET_ASIDE))
    assert [found.complete, *(each.complete for each in found.streams.values())] == [False, True, False]
    assert not found.streams["b"].keys[""].complete
    assert told((100, COUNTED), (200, ENDED)).complete


def test_a_window_of_before_lags_further_behind_the_clock() -> None:
    later = as_of(told((100, COUNTED)), NOON + 5)
    assert later.lag_ms == later.streams["a"].lag_ms == NOON + 5 - 100
    assert as_of(told((None, COUNTED)), NOON).lag_ms is None


class Interrupted:
    """Views of the controller's own streams; something happens once while they are asked, or their graphs are."""

    def __init__(self, own: StreamViews, happens: Callable[[], Awaitable[object]], *, of_graphs: bool = False) -> None:
        self._own = own
        self._of_graphs = of_graphs
        self._happens = [happens]

    def ready(self, streams: Iterable[str]) -> bool:
        return True

    async def graphs(self, identities: Mapping[str, str]) -> Mapping[str, SegmentGraph]:
        found = await self._own.graphs(identities)
        if self._of_graphs:
            await self._happen()
        return found

    async def ask(self, questions: Mapping[str, StreamQuestion]) -> Mapping[str, StreamView]:
        found = await self._own.ask(questions)
        if not self._of_graphs:
            await self._happen()
        return found

    async def _happen(self) -> None:
        while self._happens:
            await self._happens.pop()()


async def read_to_5(world: World) -> None:
    """The group g0 has read the stream s1 up to its mark at 5."""
    await world.streams.create("s1", 1, CONFIG)
    await (await world.note("s1", 5))
    await world.groups.create("g0", GroupSettings(streams=("s1",)))
    await world.groups.register("g0", "r", {"s1": {"0": 5}})


def test_a_window_is_asked_for_again_if_the_group_went_back(store_url: str) -> None:
    async def scene(world: World) -> None:
        await read_to_5(world)
        own = world.groups.views
        world.groups.views = Interrupted(own, lambda: world.groups.offline("g0", "r", {"s1": {"0": 0}}))
        assert (await world.groups.window("g0")).watermarks == {"": None}

    play(store_url, scene)


@pytest.mark.parametrize("acquires", [True, False])
def test_a_stream_that_is_removed_while_a_group_asks_is_no_fault(store_url: str, acquires: bool) -> None:
    async def scene(world: World) -> None:
        groups = world.groups
        for stream in ("s1", "t1"):
            await world.streams.create(stream, 1, CONFIG)
        await groups.create("g0", GroupSettings(streams=("s1", "t1")))
        epoch = (await groups.register("g0", "r", {})).epoch

        async def remove() -> None:
            await groups.configure("g0", {"streams": ("s1",)}, None)

        own = groups.views
        groups.views = Interrupted(own, remove, of_graphs=True)
        if acquires:
            assert (await groups.acquire("g0", "r", epoch, 9)).owned == {"s1": {"0": 0}}
        else:
            assert (await groups.lag("g0")).streams["s1"].keys() == {"0"}

    play(store_url, scene)


def test_a_group_that_is_lost_while_it_asks_answers_nothing(store_url: str) -> None:
    async def scene(world: World) -> None:
        await read_to_5(world)

        async def lose() -> None:
            world.shards.lose("0")

        world.groups.views = Interrupted(world.groups.views, lose)
        with pytest.raises(NotOwner):
            await world.groups.window("g0")

    play(store_url, scene)


def test_a_change_says_that_it_is_stored_if_its_window_cannot_be_read(store_url: str) -> None:
    async def scene(world: World) -> None:
        await read_to_5(world)

        async def go_away() -> None:
            raise StreamAway(stream="s1", reason="its controller does not answer")

        own = world.groups.views
        world.groups.views = Interrupted(own, go_away)
        with pytest.raises(StoreUndecided, match="it is stored, but the answer could not be read"):
            await world.groups.register("g0", "r", {"s1": {"0": 5}})
        epoch = (await world.groups.get("g0")).membership.readers["r"].epoch
        world.groups.views = Interrupted(own, go_away)
        with pytest.raises(StreamAway):  # a report may be repeated
            await world.groups.report("g0", "r", epoch, {"s1": {"0": 5}})

    play(store_url, scene)


def test_a_writer_that_comes_back_while_a_group_asks_holds_it_back(store_url: str) -> None:
    async def scene(world: World) -> None:
        for stream, time in (("s1", 5), ("t1", 9)):
            await world.streams.create(stream, 1, CONFIG)
            await (await world.note(stream, time))
        await world.groups.create("g0", GroupSettings(streams=("s1", "t1")))
        await world.groups.register("g0", "r", {"s1": {"0": 5}, "t1": {"0": 9}})
        idle = await world.streams.get("s1")
        idle.stream.idle("w", None, NOON)
        await world.committer.join(idle)

        async def come_back() -> None:
            (await world.streams.get("s1")).stream.register("w", None, NOON)

        own = world.groups.views
        world.groups.views = Interrupted(own, come_back)
        assert (await world.groups.window("g0")).watermarks == {"": 5}
        assert (await world.streams.get("s1")).stream.passed == {}

    play(store_url, scene)


def test_another_controller_is_told_what_is_durable(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await world.streams.create("s1", None, CONFIG)
        loaded = await world.streams.get("s1")
        loaded.stream.note(Note(writer="w", times={"": 5}, position={"new": 5}), NOON)
        commit = world.committer.join(loaded)
        views = await world.groups.durable_views({"s1": StreamQuestion(read={})})
        assert commit.done()
        assert [each.id for each in views["s1"].graph] == ["new"]
        assert views["s1"].graph is not loaded.stream.graph

    play(f"sqlite:///{tmp_path / 'store.db'}", scene)


def test_what_never_becomes_durable_is_not_told(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await world.streams.create("s1", None, CONFIG)
        noted = await world.note("s1", 5)
        asking = asyncio.create_task(world.groups.durable_views({"s1": StreamQuestion()}))
        await asyncio.sleep(0)
        world.shards.lose("1")
        with pytest.raises(StoreUnavailable):
            await asking
        assert noted.exception() is not None

    play(f"sqlite:///{tmp_path / 'store.db'}", scene)


def test_an_owner_of_before_tells_nothing(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await world.streams.create("s1", 1, CONFIG)
        fence = (await world.streams.get("s1")).tenure.fence
        question = StreamQuestion(fence=fence)
        assert (await world.groups.durable_views({"s1": question}))["s1"].fence == fence
        with pytest.raises(NotOwner, match="a later owner"):
            await world.groups.durable_views({"s1": StreamQuestion(fence=fence + 1)})
        world.shards.lose("1")
        with pytest.raises(NotOwner):
            await world.groups.durable_views({"s1": question})

    play(f"sqlite:///{tmp_path / 'store.db'}", scene)


def test_marks_are_kept_for_what_anothers_group_has_settled(store_url: str) -> None:
    async def scene(world: World) -> None:
        await read_to_5(world)
        await world.groups.report("g0", "r", 1, {"s1": {"0": 8}}, {"s1": {"0": 6}})
        identity = (await world.streams.get("s1")).origin.identity
        here = await world.groups.progress_in("g0", "s1", identity)
        world.shards.lose("0")
        assert here == (NOON, {"0": 8})
        assert await world.groups.progress_in("g0", "s1", identity) == (NOON, {"0": 6})
        assert await world.groups.progress_in("g0", "s1", "another") is None

    play(store_url, scene)
