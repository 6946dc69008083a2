"""The one reader of status: all streams, those in trouble first, and all reader groups, or some of them.

All callers within a second share a result. It is computed in slices, and notes are taken between the slices. So a
stream is read once a second, and its cost does not depend on the number of callers.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.clock import Clock
from controller.groups.service import Groups
from controller.limits import (
    STATUS_GROUPS,
    STATUS_LOAD_WAIT_MS,
    STATUS_LOADS,
    STATUS_PAGE_NAMES,
    STATUS_STREAMS,
)
from controller.status.group_members import GroupMembers, group_members
from controller.status.single_flight import SingleFlight, fresh_until
from controller.status.stream_status import (
    GroupStatus,
    StreamDetails,
    StreamStatus,
    Trouble,
    by_trouble,
    details_steps,
    status_steps,
)
from controller.status.writer_status import WriterDetails, writer_details
from controller.streams.loaded_stream import LoadedStream
from controller.streams.registry import Streams
from controller.yielding import Yielding
from strandline.access import EVERYTHING, fits
from strandline.errors import (
    Denied,
    NotOwner,
    StoreCorrupt,
    StoreUnavailable,
    StreamAway,
    StreamLoading,
    UnknownGroup,
    UnknownStream,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsFound:
    """Streams, and for streams without a status the code of a problem, by name."""

    streams: tuple[StreamStatus, ...]
    unread: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview(StreamsFound):
    """All streams and groups at one moment, or those in memory; streams in trouble first."""

    at: int
    groups: tuple[GroupStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The number of streams by trouble, and of everything else."""

    trouble: Mapping[Trouble, int]
    streams: int
    in_memory: int
    sealed: int
    writers: int
    notes: int
    late_notes: int
    refusals: int
    groups: int
    in_backlog: int


@dataclass(frozen=True, slots=True)
class _Kept:
    loaded: weakref.ref[LoadedStream]
    status: StreamStatus
    until: int


class StatusReader:
    """Reads the status of streams and groups, and shares it."""

    def __init__(self, streams: Streams, groups: Groups, clock: Clock, stopwatch: Callable[[], float]) -> None:
        self._streams = streams
        self._groups = groups
        self._clock = clock
        self._stopwatch = stopwatch
        self._kept: dict[str, _Kept] = {}
        self._walking = asyncio.Lock()  # two callers at once do not read the same writers twice
        self._overviews = SingleFlight(self._look_at_all, clock, stopwatch)
        self._summaries = SingleFlight(self._sum_up, clock, stopwatch)
        self._in_memory = SingleFlight(self._look_at_loaded, clock, stopwatch)
        self._details = SingleFlight(self._look_closely, clock, stopwatch)
        self._group_names = SingleFlight(self._list_groups, clock, stopwatch)
        self._of_groups = SingleFlight(self._look_at_group, clock, stopwatch, most=STATUS_GROUPS)

    # -- what is asked for ---------------------------------------------------------------------------------------

    async def overview(self, *, stored: bool = True) -> Overview:
        """All streams and groups as they were a moment ago. Raises StoreUnavailable. Without `stored`, it returns only
        what is in memory and does not read the store."""
        return await self._overviews.get(stored)

    async def summary(self, pattern: str = EVERYTHING, *, stored: bool = True) -> Summary:
        """The same in numbers, of the streams whose names fit a pattern, and of groups that read no others."""
        return await self._summaries.get((pattern, stored))

    async def in_memory(self) -> Mapping[str, StreamStatus]:
        """All streams in memory, sorted by name. It never reads the store."""
        return await self._in_memory.get(None)

    async def of_streams(self, names: Iterable[str]) -> StreamsFound:
        """These streams, in this order, without those that do not exist. It does not raise if the store is away."""
        return await self._read(names, self.slices(), must_read=False)

    async def of_now(self, name: str) -> tuple[LoadedStream, StreamStatus]:
        """A stream as it is now, for callers that have to see their own change. Raises UnknownStream and
        StoreUnavailable."""
        while True:
            loaded = await self._streams.get(name)
            status = await self.slices().drive(status_steps(loaded, self._clock.now()))
            if self._streams.find_loaded(name) is loaded:  # else it was discarded meanwhile
                return loaded, status

    async def of_stream(self, name: str) -> StreamDetails:
        """A stream with its writers as it was a moment ago. Raises UnknownStream and StoreUnavailable."""
        await self._streams.get(name)  # a deleted stream is not shown from a shared result
        return await self._details.get(name)

    async def of_writer(self, stream: str, writer: str) -> WriterDetails:
        """A writer as it is now. Raises UnknownStream, UnknownWriter and StoreUnavailable."""
        return writer_details(await self._streams.get(stream), writer, self._clock.now())

    async def of_group(self, name: str) -> GroupStatus:
        """A reader group as it was a moment ago. Raises UnknownGroup and StoreUnavailable."""
        await self._groups.get(name)
        return await self._of_groups.get(name)

    async def of_members(self, group: str) -> GroupMembers:
        """The readers and positions of a group as they are now. Raises UnknownGroup and StoreUnavailable."""
        return group_members((await self._groups.get(group)).membership, self._clock.now())

    async def streams_of(self, group: str) -> tuple[str, ...]:
        """The names of the streams that a group reads. Raises UnknownGroup and StoreUnavailable."""
        return (await self._groups.get(group)).membership.settings.streams

    async def of_groups(self, streams: Collection[str]) -> list[GroupStatus]:
        """The groups that read any of these streams, by name. Raises StoreUnavailable."""
        wanted = set(streams)
        names = await self._group_names.get(None)
        return await self._look_at_groups([name for name, read in names.items() if not wanted.isdisjoint(read)])

    def slices(self) -> Yielding:
        """Slices for further work on a result."""
        return Yielding(self._stopwatch)

    def forget(self) -> None:
        """Drops all shared results, so that the next call computes new ones."""
        self._kept.clear()
        for each in (self._overviews, self._summaries, self._in_memory, self._details, self._group_names):
            each.forget()
        self._of_groups.forget()

    # -- streams -------------------------------------------------------------------------------------------------

    async def _look_at_all(self, stored: bool, slices: Yielding) -> Overview:
        names = await self._names() if stored else sorted(each.name for each in self._streams.in_memory())
        found = await self._read(names, slices, must_read=True)
        ranked = []
        for each in found.streams:
            ranked.append((by_trouble(each), each))
            await slices.turn()
        ranked.sort(key=_rank)
        await slices.turn()
        groups = await self._look_at_groups(await self._group_names.get(None)) if stored else []
        groups.sort(key=lambda each: (not each.window.backlog, -(each.window.lag_ms or 0), each.name))
        self._drop_unused()
        return Overview(
            at=self._clock.now(),
            streams=tuple([each for _, each in ranked]),
            groups=tuple(groups),
            unread=found.unread,
        )

    async def _look_at_loaded(self, _: None, slices: Yielding) -> Mapping[str, StreamStatus]:
        found = {}
        for loaded in sorted(self._streams.in_memory(), key=lambda each: each.name):
            found[loaded.name] = await self._status(loaded, slices)
        self._drop_unused()
        return found

    async def _names(self) -> list[str]:
        names: list[str] = []
        while len(names) < STATUS_STREAMS:
            page = await self._streams.names(names[-1] if names else "", STATUS_PAGE_NAMES)
            names += page
            if len(page) < STATUS_PAGE_NAMES:
                break
        return names

    async def _read(self, names: Iterable[str], slices: Yielding, *, must_read: bool) -> StreamsFound:
        found: list[StreamStatus] = []
        unread: dict[str, str] = {}
        loads, not_loaded = STATUS_LOADS, StreamLoading.code
        for name in names:
            loaded = self._streams.find_loaded(name)
            if loaded is None and not loads:
                unread[name] = not_loaded
            elif loaded is None:
                loads -= 1
                try:
                    loaded = await self._streams.get(name, wait_ms=STATUS_LOAD_WAIT_MS)
                except UnknownStream:
                    continue
                except (StreamLoading, StoreCorrupt) as error:
                    unread[name] = error.code
                except NotOwner as error:
                    loads, unread[name] = loads + 1, error.code  # nothing was loaded
                except StoreUnavailable as error:
                    if must_read:
                        raise
                    loads, unread[name], not_loaded = (
                        0,
                        error.code,
                        error.code,
                    )  # the store would fail for the others too
            if loaded is not None:
                found.append(await self._status(loaded, slices))
        return StreamsFound(streams=tuple(found), unread=unread)

    async def _status(self, loaded: LoadedStream, slices: Yielding) -> StreamStatus:
        status = self._fresh(loaded)
        if status is not None:
            await slices.turn()
            return status
        async with self._walking:
            status = self._fresh(loaded)
            if status is None:
                began, worked_ms = self._clock.now(), slices.worked_ms
                status = await slices.drive(status_steps(loaded, began))
                self._keep(loaded, status, slices.worked_ms - worked_ms)
        await slices.turn()
        return status

    async def _look_closely(self, name: str, slices: Yielding) -> StreamDetails:
        loaded = await self._streams.get(name)
        async with self._walking:
            details = await slices.drive(details_steps(loaded, self._clock.now()))
        self._keep(loaded, details.stream, slices.worked_ms)
        return details

    def _fresh(self, loaded: LoadedStream) -> StreamStatus | None:
        kept = self._kept.get(loaded.name)
        if kept is None or kept.loaded() is not loaded or self._clock.now() >= kept.until:
            return None
        return kept.status

    def _keep(self, loaded: LoadedStream, status: StreamStatus, worked_ms: float) -> None:
        self._kept[loaded.name] = _Kept(weakref.ref(loaded), status, fresh_until(status.seen_at, worked_ms))

    def _drop_unused(self) -> None:
        """Forgets streams that are no longer in memory."""
        self._kept = {name: kept for name, kept in self._kept.items() if kept.loaded() is not None}

    # -- groups --------------------------------------------------------------------------------------------------

    async def _list_groups(self, _: None, __: Yielding) -> Mapping[str, Sequence[str]]:
        return await self._groups.streams_by_name("", STATUS_GROUPS)

    async def _look_at_groups(self, names: Iterable[str]) -> list[GroupStatus]:
        found = []
        for name in names:
            try:
                found.append(await self._of_groups.get(name))
            except (UnknownGroup, UnknownStream, StreamLoading, StoreCorrupt, NotOwner, StreamAway, Denied):
                continue  # it, or one of its streams, was deleted, is not loaded yet, is damaged, or is not served here
        return found

    async def _look_at_group(self, name: str, _: Yielding) -> GroupStatus:
        window = await self._groups.window_so_far(name)
        membership = (await self._groups.get(name)).membership
        return GroupStatus(
            name=name,
            seen_at=self._clock.now(),
            readers=len(membership.readers),
            threshold_ms=membership.settings.backlog_threshold_ms,
            window=window,
        )

    # -- numbers -------------------------------------------------------------------------------------------------

    async def _sum_up(self, asked: tuple[str, bool], slices: Yielding) -> Summary:
        pattern, stored = asked
        overview = await self.overview(stored=stored)
        found: StreamsFound = overview
        if pattern != EVERYTHING:
            streams = tuple([each for each in overview.streams if fits(pattern, each.name)])
            await slices.turn()
            unread = {name: why for name, why in overview.unread.items() if fits(pattern, name)}
            found = StreamsFound(streams=streams, unread=unread)
        groups = [each for each in overview.groups if all(fits(pattern, name) for name in each.window.streams)]
        return await summarize(found, groups, slices)


async def summarize(found: StreamsFound, groups: Collection[GroupStatus], slices: Yielding) -> Summary:
    """Streams and groups in numbers."""
    trouble: Counter[Trouble] = Counter()
    sealed = writers = notes = late_notes = refusals = 0
    for each in found.streams:
        trouble[each.trouble] += 1
        sealed += each.sealed
        writers += each.writer_count
        notes += each.notes
        late_notes += each.late_notes
        refusals += sum(each.refusals.values())
        await slices.turn()
    return Summary(
        trouble=trouble,
        streams=len(found.streams) + len(found.unread),
        in_memory=len(found.streams),
        sealed=sealed,
        writers=writers,
        notes=notes,
        late_notes=late_notes,
        refusals=refusals,
        groups=len(groups),
        in_backlog=sum(each.window.backlog for each in groups),
    )


def _rank(each: tuple[tuple[bool, int, int, str], StreamStatus]) -> tuple[bool, int, int, str]:
    return each[0]
