"""The one reader of status: all streams, those in trouble first, and all reader groups, or some of them.

All callers within a second share a result. It is computed in slices, and notes are taken between the slices. So a
stream is read once a second, and its cost does not depend on the number of callers.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from controller.clock import Clock
from controller.groups.service import Groups
from controller.records.counts import StreamCounts
from controller.slices import Slices
from controller.status.group_members import GroupDetails, GroupRead, group_members
from controller.status.overview import (
    GroupsFound,
    Overview,
    StreamsFound,
    Summary,
    UnreadGroup,
    in_order_of_backlog,
    in_order_of_trouble,
    reading,
    summarize,
)
from controller.status.single_flight import SingleFlight, fresh_until
from controller.status.stream_status import StreamDetails, details_steps, status_of_stored, status_steps
from controller.status.writer_status import WriterDetails, writer_details
from controller.streams.loaded_stream import LoadedStream
from controller.streams.registry import Streams
from strandline.access import EVERYTHING, fits
from strandline.errors import (
    Refused,
    StoreCorrupt,
    StoreUnavailable,
    StreamLoading,
    UnknownGroup,
)
from strandline.wire.groups import GroupWindow
from strandline.wire.status import GroupStatus, StreamStatus

NOTHING_COUNTED: Final = StreamCounts()  # here, of a stream that is not in memory
STATUS_STREAMS: Final = 10_000  # the first by name
STATUS_GROUPS: Final = 1_000  # the first by name

STATUS_PAGE_NAMES: Final = 1_000  # read from the store at a time


@dataclass(frozen=True, slots=True)
class _Cached:
    loaded: weakref.ref[LoadedStream]
    status: StreamStatus
    until: int


class CountedStatus(NamedTuple):
    """A stream, and what this controller counted of it itself, which goes on."""

    status: StreamStatus
    counts: StreamCounts


class StatusReader:
    """Reads the status of streams and groups, and shares it."""

    def __init__(
        self, streams: Streams, groups: Groups, clock: Clock, stopwatch: Callable[[], float] = time.thread_time
    ) -> None:
        """`stopwatch`: as for `SingleFlight`."""
        self._streams = streams
        self._groups = groups
        self._clock = clock
        self._stopwatch = stopwatch
        self._cached: dict[str, _Cached] = {}
        self._groups_known: Set[str] = frozenset()  # names of reader groups, when the store was last asked
        self._walking = asyncio.Lock()  # two callers at once do not read the same writers twice
        self._overviews = SingleFlight(self._read_all, clock, stopwatch)
        self._summaries = SingleFlight(self._sum_up, clock, stopwatch)
        self._counted = SingleFlight(self._read_counted, clock, stopwatch)
        self._details = SingleFlight(self._read_details, clock, stopwatch)
        self._group_names = SingleFlight(self._list_groups, clock, stopwatch)
        self._of_groups = SingleFlight(self._read_group, clock, stopwatch, most=STATUS_GROUPS)

    # -- what is asked for ---------------------------------------------------------------------------------------

    async def overview(self, *, stored: bool = True) -> Overview:
        """All streams and groups as they were a moment ago. Raises StoreUnavailable. Without `stored`, it returns only
        what is in memory and does not read the store."""
        return await self._overviews.get(stored)

    async def summary(self, pattern: str = EVERYTHING, *, stored: bool = True) -> Summary:
        """The same in numbers, of the streams whose names fit a pattern, and of groups that read no others."""
        return await self._summaries.get((pattern, stored))

    async def counted(self, *, stored: bool) -> Mapping[str, CountedStatus]:
        """All streams by name, with what this controller counted of each. Without `stored`, those in memory."""
        return await self._counted.get(stored)

    async def of_streams(self, names: Iterable[str]) -> StreamsFound:
        """These streams, in this order, without those that do not exist. It does not raise if the store is away."""
        return await self._read(names, self.slices(), must_read=False)

    async def of_now(self, name: str) -> tuple[LoadedStream, StreamStatus]:
        """A stream as it is now, for callers that have to see their own change. Raises UnknownStream and
        StoreUnavailable."""
        while True:
            loaded = await self._streams.get(name)
            status = await self.slices().drive(status_steps(loaded, self._clock.now(), self._groups_known))
            if self._streams.find_loaded(name) is loaded:  # else it was discarded meanwhile
                return loaded, status

    async def of_stream(self, name: str) -> StreamDetails:
        """A stream with its writers as it was a moment ago. Raises UnknownStream and StoreUnavailable."""
        await self._streams.get(name)  # a deleted stream is not shown from a shared result
        return await self._details.get(name)

    async def of_writer(self, stream: str, writer: str) -> WriterDetails:
        """A writer as it is now. Raises UnknownStream, UnknownWriter and StoreUnavailable."""
        return writer_details(await self._streams.get(stream), writer, self._clock.now())

    async def of_group(self, name: str) -> GroupDetails:
        """A reader group: its status as it was a moment ago, its readers and positions as they are now. Raises
        UnknownGroup and StoreUnavailable."""
        loaded = await self._groups.get(name)  # a deleted group is not shown from a shared result
        try:
            read: GroupRead | Refused = await self._of_groups.get(name)
        except UnknownGroup:
            raise
        except Refused as error:
            read = error
        members = group_members(loaded.membership, self._clock.now())
        return GroupDetails(
            settings=loaded.membership.settings,
            read=read,
            members=members,
            last_entry=(loaded.created_at, loaded.journal.last_seq),
        )

    async def window_of_group(self, name: str) -> GroupWindow:
        """The window of a reader group as it was a moment ago. Raises UnknownGroup and StoreUnavailable."""
        await self._groups.get(name)  # as above
        return (await self._of_groups.get(name)).window

    async def group_names(self) -> Mapping[str, Sequence[str]]:
        """The names of all groups that the store has, up to a bound, each with the streams that it reads. Raises
        StoreUnavailable."""
        return await self._group_names.get(None)

    async def of_groups(self, streams: Collection[str], names: Collection[str] = ()) -> GroupsFound:
        """The groups that read any of these streams, and those of these names. Raises StoreUnavailable."""
        return await self._read_groups(reading(await self.group_names(), streams, names))

    def slices(self) -> Slices:
        """Slices for further work on a result."""
        return Slices(self._stopwatch)

    def forget(self) -> None:
        """Drops all shared results, so that the next call computes new ones."""
        self._cached.clear()
        for each in (self._overviews, self._summaries, self._counted, self._details, self._group_names):
            each.forget()
        self._of_groups.forget()

    # -- streams -------------------------------------------------------------------------------------------------

    async def _read_all(self, stored: bool, slices: Slices) -> Overview:
        names = await self.names() if stored else sorted(each.name for each in self._streams.in_memory())
        named = await self.group_names() if stored else {}
        found = await self._read(names, slices, must_read=True)
        streams = await in_order_of_trouble(found.streams, slices)
        groups = await self._read_groups(named)
        return Overview(
            at=self._clock.now(),
            streams=streams,
            unread=found.unread,
            groups=in_order_of_backlog(groups),
        )

    async def _read_counted(self, stored: bool, slices: Slices) -> Mapping[str, CountedStatus]:
        loaded = {each.name: each.counts for each in self._streams.in_memory()}
        names = await self.names() if stored else sorted(loaded)
        found = await self._read(names, slices, must_read=False)
        return {each.stream: CountedStatus(each, loaded.get(each.stream, NOTHING_COUNTED)) for each in found.streams}

    async def names(self) -> list[str]:
        """The names of all streams that the store has, up to a bound. Raises StoreUnavailable."""
        names: list[str] = []
        while len(names) < STATUS_STREAMS:
            page = await self._streams.names(names[-1] if names else "", STATUS_PAGE_NAMES)
            names += page
            if len(page) < STATUS_PAGE_NAMES:
                break
        return names

    async def _read(self, names: Iterable[str], slices: Slices, *, must_read: bool) -> StreamsFound:
        found: list[StreamStatus] = []
        unread: dict[str, str] = {}
        names = list(names)
        try:
            await self._streams.refresh()
        except StoreUnavailable:
            if must_read:
                raise
        for start in range(0, len(names), STATUS_PAGE_NAMES):
            page = names[start : start + STATUS_PAGE_NAMES]
            others = [each for each in page if self._streams.find_loaded(each) is None]
            try:
                stored = await self._streams.statuses(others)
            except StoreUnavailable as error:
                if must_read:
                    raise
                stored, unread = {}, unread | dict.fromkeys(others, error.code)
            for name in page:
                loaded = self._streams.find_loaded(name)
                if loaded is not None:
                    found.append(await self._status(loaded, slices))
                elif name in self._streams.damaged:
                    unread[name] = StoreCorrupt.code
                elif name in stored:
                    try:
                        found.append(status_of_stored(stored[name], *self._clock.moment()))
                    except ValueError:
                        unread[name] = StoreCorrupt.code
                    await slices.turn()
        return StreamsFound(streams=tuple(found), unread=unread)

    async def _status(self, loaded: LoadedStream, slices: Slices) -> StreamStatus:
        status = self._fresh(loaded, self._clock.now())
        if status is None:
            async with self._walking:
                now = self._clock.now()
                status = self._fresh(loaded, now)
                if status is None:
                    worked_ms = slices.worked_ms
                    status = await slices.drive(status_steps(loaded, now, self._groups_known))
                    self._keep(loaded, status, slices.worked_ms - worked_ms)
        await slices.turn()
        return status

    async def _read_details(self, name: str, slices: Slices) -> StreamDetails:
        loaded = await self._streams.get(name)
        async with self._walking:
            details = await slices.drive(details_steps(loaded, self._clock.now(), self._groups_known))
        self._keep(loaded, details.stream, slices.worked_ms)
        return details

    def _fresh(self, loaded: LoadedStream, now: int) -> StreamStatus | None:
        cached = self._cached.get(loaded.name)
        if cached is None or cached.loaded() is not loaded or now >= cached.until:
            return None
        return cached.status

    def _keep(self, loaded: LoadedStream, status: StreamStatus, worked_ms: float) -> None:
        name = loaded.name
        held = weakref.ref(loaded, lambda _: self._cached.pop(name, None))  # gone when the stream leaves the memory
        self._cached[name] = _Cached(held, status, fresh_until(status.seen_at, worked_ms))

    # -- groups --------------------------------------------------------------------------------------------------

    async def _list_groups(self, _: None, __: Slices) -> Mapping[str, Sequence[str]]:
        found = await self._groups.streams_by_name("", STATUS_GROUPS)
        self._groups_known = found.keys()
        return found

    async def _read_groups(self, names: Mapping[str, Sequence[str]]) -> GroupsFound:
        found, unread = [], {}
        for name, streams in names.items():
            try:
                found.append((await self._of_groups.get(name)).status)
            except UnknownGroup:
                continue
            except (StreamLoading, StoreCorrupt, Refused) as error:
                unread[name] = UnreadGroup(error.code, streams)
        return GroupsFound(groups=tuple(found), unread=unread)

    async def _read_group(self, name: str, _: Slices) -> GroupRead:
        window = await self._groups.window(name)
        membership = (await self._groups.get(name)).membership
        status = GroupStatus(
            group=name,
            seen_at=self._clock.now(),
            streams=tuple(window.streams),
            readers=len(membership.readers),
            lag_ms=window.lag_ms,
            backlog=window.backlog,
            backlog_threshold_ms=membership.settings.backlog_threshold_ms,
            watermarks=window.watermarks,
            held_by=window.held_by,
            complete=window.complete,
            idle=window.idle,
            bounds={stream: each.keys for stream, each in window.streams.items()},
        )
        return GroupRead(status, window)

    # -- numbers -------------------------------------------------------------------------------------------------

    async def _sum_up(self, asked: tuple[str, bool], slices: Slices) -> Summary:
        pattern, stored = asked
        overview = await self.overview(stored=stored)
        found: StreamsFound = overview
        if pattern != EVERYTHING:
            streams = tuple([each for each in overview.streams if fits(pattern, each.stream)])
            await slices.turn()
            unread = {name: why for name, why in overview.unread.items() if fits(pattern, name)}
            found = StreamsFound(streams=streams, unread=unread)
        return await summarize(found, overview.groups.allowed(partial(fits, pattern)), slices)
