"""What a group is told of its streams, put together as one window."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import pytest

from controller.groups.places import GroupPlace, Places, StreamRead
from strandline.core.note import NO_TIMES
from strandline.core.segment import SegmentGraph
from strandline.errors import StoreUndecided
from strandline.wire.groups import GroupSettings
from tests.controller.world import CONFIG, World, play


class Interrupted(Places):
    """Places in the controller's own streams; something happens once, after all places in `of` were found, or the
    graphs were."""

    def __init__(self, own: Places, happens: Callable[[], Awaitable[object]], of: str | None = None) -> None:
        self.__dict__ |= own.__dict__
        self._of = of
        self._happens = [happens]

    async def graphs(self, identities: Mapping[str, str]) -> Mapping[str, SegmentGraph]:
        found = await super().graphs(identities)
        if self._of is None:
            await self._happen()
        return found

    async def place(self, stream: str, read: StreamRead, goes_to: Mapping[str, int] = NO_TIMES) -> GroupPlace:
        found = await super().place(stream, read, goes_to)
        if stream == self._of:
            await self._happen()
        return found

    async def _happen(self) -> None:
        while self._happens:
            await self._happens.pop()()


def test_a_window_is_asked_for_again_if_the_group_went_back(store_url: str) -> None:
    async def scene(world: World) -> None:
        await world.streams.create("s1", 1, CONFIG)
        await world.note("s1", 5)
        await world.groups.create("g0", GroupSettings(streams=("s1",)))
        await world.groups.register("g0", "r", {"s1": {"0": 5}})
        own = world.groups.places
        world.groups.places = Interrupted(own, lambda: world.groups.offline("g0", "r", {"s1": {"0": 0}}), "s1")
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

        groups.places = Interrupted(groups.places, remove)
        if acquires:
            assert (await groups.acquire("g0", "r", epoch, 9)).owned == {"s1": {"0": 0}}
        else:
            assert (await groups.lag("g0")).streams["s1"].keys() == {"0"}

    play(store_url, scene)


def test_a_report_that_is_durable_is_not_refused_if_a_stream_is_deleted_before_the_answer(store_url: str) -> None:
    async def scene(world: World) -> None:
        for stream in ("s1", "t1"):
            await world.streams.create(stream, 1, CONFIG)
        await world.groups.create("g0", GroupSettings(streams=("s1", "t1")))
        epoch = (await world.groups.register("g0", "r", {})).epoch

        async def delete() -> None:
            await world.streams.delete("t1")

        world.groups.places = Interrupted(world.groups.places, delete)
        with pytest.raises(StoreUndecided, match=r"it is stored, but the answer could not be read: .*'t1'"):
            await world.groups.report("g0", "r", epoch, {})

    play(store_url, scene)


def test_a_writer_that_comes_back_while_a_group_asks_holds_it_back(store_url: str) -> None:
    async def scene(world: World) -> None:
        for stream, time in (("s1", 5), ("t1", 9)):
            await world.streams.create(stream, 1, CONFIG)
            await world.note(stream, time)
        await world.groups.create("g0", GroupSettings(streams=("s1", "t1")))
        await world.groups.register("g0", "r", {"s1": {"0": 5}, "t1": {"0": 9}})
        await world.streams.change("s1", lambda stream, now: stream.idle("w", None, now))

        async def come_back() -> None:
            await world.streams.register("s1", "w", None)

        world.groups.places = Interrupted(world.groups.places, come_back, "t1")
        assert (await world.groups.window("g0")).watermarks == {"": 5}
        assert (await world.streams.get("s1")).stream.passed == {}

    play(store_url, scene)
