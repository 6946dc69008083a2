"""What an operator looks at: every stream in a line, those in trouble first, and every reader group; or one of them.

Looks are shared by all who ask within a second, and made in slices between which notes are taken: however many pages
are open, it costs the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from controller.clock import Clock
from controller.groups.service import Groups
from controller.limits import LOOK_GROUPS, LOOK_LOAD_WAIT_MS, LOOK_LOADS, LOOK_PAGE_NAMES, LOOK_STREAMS
from controller.status.single_flight import SingleFlight
from controller.status.stream_status import GroupStatus, StreamDetails, StreamStatus, by_trouble, details_of, status_of
from controller.streams.loaded_stream import LoadedStream
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from controller.yielding import Yielding
from strandline.core.note import DEFAULT_KEY
from strandline.errors import StoreCorrupt, StreamLoading, UnknownGroup, UnknownStream


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Everything, as of one moment: `unread` streams have not been looked at yet, there being so many."""

    at: int
    streams: tuple[StreamStatus, ...]
    groups: tuple[GroupStatus, ...]
    unread: int


class StatusReader:
    """Looks at everything, or at one thing."""

    def __init__(
        self, streams: Streams, groups: Groups, reading: Reads, clock: Clock, stopwatch: Callable[[], float]
    ) -> None:
        self._streams = streams
        self._groups = groups
        self._reading = reading
        self._clock = clock
        self._whole: SingleFlight[None, Overview] = SingleFlight(self._look, clock, stopwatch)
        self._details: SingleFlight[str, StreamDetails] = SingleFlight(self._look_closely, clock, stopwatch)
        self._of_groups: SingleFlight[str, GroupStatus] = SingleFlight(self._group_status, clock, stopwatch)

    async def look(self) -> Overview:
        """Everything as it was a moment ago. Raises StoreUnavailable."""
        return await self._whole.get(None)

    async def of_stream(self, name: str) -> StreamDetails:
        """A stream as it was a moment ago. Raises UnknownStream and StoreUnavailable."""
        await self._streams.get(name)  # one that is gone is not shown from before
        return await self._details.get(name)

    async def of_group(self, name: str) -> GroupStatus:
        """A reader group as it was a moment ago. Raises UnknownGroup and StoreUnavailable."""
        await self._groups.get(name)
        return await self._of_groups.get(name)

    async def _look(self, _: None, slices: Yielding) -> Overview:
        names = await self._names()
        seen, loads = [], LOOK_LOADS
        for name in names:
            loaded = self._streams.find_loaded(name)
            if loaded is None and loads:
                loads -= 1
                try:
                    loaded = await self._streams.get(name, wait_ms=LOOK_LOAD_WAIT_MS)
                except (UnknownStream, StoreCorrupt):
                    continue
                except StreamLoading:
                    pass  # it counts as unread until it is there
            if loaded is not None:
                seen.append(await status_of(loaded, self._resting(loaded), self._clock.now(), slices))
            await slices.turn()
        ranked = [(by_trouble(each), each) for each in seen]
        await slices.turn()
        ranked.sort(key=_rank)
        await slices.turn()
        groups = await self._group_statuses(slices)
        at, streams = self._clock.now(), tuple(each for _, each in ranked)
        return Overview(at=at, streams=streams, groups=groups, unread=len(names) - len(seen))

    async def _names(self) -> list[str]:
        names: list[str] = []
        while len(names) < LOOK_STREAMS:
            page = await self._streams.names(names[-1] if names else "", LOOK_PAGE_NAMES)
            names += page
            if len(page) < LOOK_PAGE_NAMES:
                break
        return names

    async def _group_statuses(self, slices: Yielding) -> tuple[GroupStatus, ...]:
        looks = []
        for name in await self._groups.streams_by_name("", LOOK_GROUPS):
            try:
                looks.append(await self._group_status(name, slices))
            except (UnknownGroup, UnknownStream, StreamLoading, StoreCorrupt):
                continue  # it was deleted, or a stream of its was, or that is not there yet, or is damaged
            await slices.turn()
        looks.sort(key=lambda each: (not each.window.backlog, -(each.window.lag_ms or 0), each.name))
        return tuple(looks)

    async def _group_status(self, name: str, _: Yielding) -> GroupStatus:
        window = await self._groups.window(name)
        membership = (await self._groups.get(name)).membership
        return GroupStatus(
            name=name,
            seen_at=self._clock.now(),
            readers=len(membership.readers),
            threshold_ms=membership.settings.backlog_threshold_ms,
            window=window,
        )

    async def _look_closely(self, name: str, slices: Yielding) -> StreamDetails:
        loaded = await self._streams.get(name)
        return await details_of(loaded, self._resting(loaded), self._clock.now(), slices)

    def _resting(self, loaded: LoadedStream) -> dict[str, int | None]:
        return {DEFAULT_KEY: self._reading.resting_time(loaded, DEFAULT_KEY)}


def _rank(each: tuple[tuple[bool, int, int, str], StreamStatus]) -> tuple[bool, int, int, str]:
    return each[0]
