"""The one reader of status: of all streams and reader groups, or of one, for pages, commands, metrics and the API.

How a stream stands is in memory with it, or in its head in the store: none is loaded for this. All who ask within a
second share an answer, so that its cost does not depend on the number of callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from controller.clock import Clock
from controller.groups.service import Groups
from controller.operators.group_members import GroupDetails, GroupRead, group_members
from controller.operators.memo import Memo
from controller.operators.overview import (
    GroupsFound,
    Overview,
    StreamsFound,
    Summary,
    UnreadGroup,
    in_order_of_backlog,
    reading,
    summarize,
)
from controller.operators.stream_status import StreamDetails, by_trouble, status_of, stream_details
from controller.operators.writer_status import WriterDetails, writer_details
from controller.streams.loaded_stream import LoadedStream
from controller.streams.registry import Streams
from controller.streams.standing import standing_of
from strandline.access import EVERYTHING, fits
from strandline.errors import Refused, StoreCorrupt, StoreUnavailable, StreamLoading, UnknownGroup
from strandline.wire.groups import GroupWindow
from strandline.wire.status import GroupStatus, StreamStatus

STATUS_STREAMS: Final = 10_000  # the first by name
STATUS_GROUPS: Final = 1_000  # the first by name
STATUS_PAGE_NAMES: Final = 1_000  # read from the store at a time

_TURN_STREAMS: Final = 50  # that are looked at before other tasks run


class StatusReader:
    """Reads the status of streams and groups, and shares it."""

    def __init__(self, streams: Streams, groups: Groups, clock: Clock) -> None:
        self._streams = streams
        self._groups = groups
        self._clock = clock
        self._names: Sequence[str] = ()  # of all streams, when they were listed last
        self.memo = Memo(clock)

    async def overview(self, *, stored: bool = True) -> Overview:
        """All streams and groups as they were a moment ago, those in the worst trouble first. Raises StoreUnavailable.
        Without `stored`, it does not read the store: what is in memory is shown as it was when that was known, and what
        else is known by name has no status."""
        return await self.memo.get(("overview", stored), partial(self._overview, stored))

    async def summary(self, pattern: str = EVERYTHING, *, stored: bool = True) -> Summary:
        """The same in numbers, of the streams whose names fit a pattern, and of groups that read no others."""
        return await self.memo.get(("summary", pattern, stored), partial(self._summary, pattern, stored))

    # -- streams -------------------------------------------------------------------------------------------------

    async def all_streams(self, *, stored: bool = True) -> StreamsFound:
        """All streams as they were a moment ago, by name. Raises StoreUnavailable. `stored` is as for `overview`."""
        return await self.memo.get(("streams", stored), partial(self._all_streams, stored))

    async def of_streams(self, names: Iterable[str], *, stored: bool = True) -> StreamsFound:
        """These streams, in this order, without those that do not exist. It does not raise if the store is away.
        `stored` is as for `overview`."""
        names, found, unread = list(names), list[StreamStatus](), dict[str, str]()
        if stored:
            with suppress(StoreUnavailable):
                await self._streams.refresh()
        for start in range(0, len(names), STATUS_PAGE_NAMES):
            page = names[start : start + STATUS_PAGE_NAMES]
            others = [each for each in page if self._streams.find_loaded(each) is None]
            standings: Mapping[str, str] = {}
            try:
                if stored:
                    standings = await self._streams.standings(others)
                else:
                    unread |= dict.fromkeys(others, StoreUnavailable.code)
            except StoreUnavailable as error:
                unread |= dict.fromkeys(others, error.code)
            moment = self._clock.moment()
            for number, name in enumerate(page, 1):
                loaded = self._streams.find_loaded(name)
                if loaded is not None:
                    found.append(status_of(name, loaded.standing, self._streams.known_at(loaded, moment)))
                elif name in self._streams.damaged:
                    unread[name] = StoreCorrupt.code
                elif name in standings:
                    try:
                        found.append(status_of(name, standing_of(name, standings[name]), moment))
                    except StoreCorrupt as error:
                        unread[name] = error.code
                if number % _TURN_STREAMS == 0:
                    await asyncio.sleep(0)
                    moment = self._clock.moment()
        return StreamsFound(streams=tuple(found), unread=unread)

    async def of_stream(self, name: str) -> StreamDetails:
        """A stream with its writers as it was a moment ago. Raises UnknownStream and StoreUnavailable."""
        await self._streams.get(name)  # a deleted stream is not shown from a shared result
        return await self.memo.get(("stream", name), partial(self._details, name))

    async def of_now(self, name: str) -> tuple[LoadedStream, StreamStatus]:
        """A stream as it is now, for callers that have to see their own change. Raises UnknownStream and
        StoreUnavailable."""
        loaded = await self._streams.get(name)
        return loaded, self._status(loaded)

    async def of_writer(self, stream: str, writer: str) -> WriterDetails:
        """A writer as it is now. Raises UnknownStream, UnknownWriter and StoreUnavailable."""
        loaded = await self._streams.get(stream)
        return writer_details(loaded, writer, self._streams.known_at(loaded).now)

    # -- groups --------------------------------------------------------------------------------------------------

    async def of_group(self, name: str) -> GroupDetails:
        """A reader group: its status as it was a moment ago, its readers and positions as they are now. Raises
        UnknownGroup and StoreUnavailable."""
        loaded = await self._groups.get(name)  # a deleted group is not shown from a shared result
        read: GroupRead | Refused
        try:
            read = await self._of_group(name)
        except UnknownGroup:
            raise
        except Refused as error:
            read = error
        return GroupDetails(
            settings=loaded.membership.settings,
            read=read,
            members=group_members(loaded.membership, self._clock.now()),
            last_entry=(loaded.created_at, loaded.journal.last_seq),
        )

    async def window_of_group(self, name: str) -> GroupWindow:
        """The window of a reader group as it was a moment ago. Raises UnknownGroup and StoreUnavailable."""
        await self._groups.get(name)  # as above
        return (await self._of_group(name)).window

    async def of_groups(self, streams: Collection[str], names: Collection[str] = ()) -> GroupsFound:
        """The groups that read any of these streams, and those of these names. Raises StoreUnavailable."""
        known = await self.group_names()
        others = [each for each in names if each not in known]  # new ones, and those beyond the bound
        named = await self._groups.streams_of(others) if others else {}
        return await self._read_groups(reading({**known, **named}, streams, names))

    async def group_names(self) -> Mapping[str, Sequence[str]]:
        """The names of all groups that the store has, up to a bound, each with the streams that it reads. Raises
        StoreUnavailable."""
        found = await self.memo.get("groups", lambda: self._groups.streams_by_name("", STATUS_GROUPS))
        return found

    def forget(self) -> None:
        """Makes each answer anew that is asked for next."""
        self.memo.forget()

    # -- what is shared ------------------------------------------------------------------------------------------

    async def _overview(self, stored: bool) -> Overview:
        groups = await self._read_groups(await self.group_names() if stored else {})
        found = await self.all_streams(stored=stored)
        return Overview(
            at=self._clock.now(),
            streams=tuple(await asyncio.to_thread(sorted, found.streams, key=by_trouble)),
            unread=found.unread,
            groups=in_order_of_backlog(groups),
        )

    async def _summary(self, pattern: str, stored: bool) -> Summary:
        found, may_see = await self.overview(stored=stored), partial(fits, pattern)
        streams = tuple([each for each in found.streams if may_see(each.stream)])
        unread = {name: why for name, why in found.unread.items() if may_see(name)}
        return summarize(StreamsFound(streams=streams, unread=unread), found.groups.allowed(may_see))

    def names_known(self) -> list[str]:
        """The names of the streams that are known without the store: those in memory, and those listed last."""
        return sorted({*self._names, *(each.name for each in self._streams.in_memory())})[:STATUS_STREAMS]

    async def _all_streams(self, stored: bool) -> StreamsFound:
        if not stored:
            return await self.of_streams(self.names_known(), stored=False)
        names: list[str] = []
        while len(names) < STATUS_STREAMS:
            page = await self._streams.names(names[-1] if names else "", STATUS_PAGE_NAMES)
            names += page
            if len(page) < STATUS_PAGE_NAMES:
                break
        self._names = tuple(names)
        return await self.of_streams(names)

    def _status(self, loaded: LoadedStream) -> StreamStatus:
        return status_of(loaded.name, loaded.standing, self._streams.known_at(loaded))

    async def _details(self, name: str) -> StreamDetails:
        status = self._status(await self._streams.get(name))
        await asyncio.sleep(0)  # there may be very many writers
        return stream_details(await self._streams.get(name), status)

    async def _read_groups(self, names: Mapping[str, Sequence[str]]) -> GroupsFound:
        found, unread = [], {}
        for name, streams in names.items():
            try:
                found.append((await self._of_group(name)).status)
            except UnknownGroup:
                continue
            except (StreamLoading, StoreCorrupt, Refused) as error:
                unread[name] = UnreadGroup(error.code, streams)
        return GroupsFound(groups=tuple(found), unread=unread)

    async def _of_group(self, name: str) -> GroupRead:
        return await self.memo.get(("group", name), partial(self._read_group, name))

    async def _read_group(self, name: str) -> GroupRead:
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
