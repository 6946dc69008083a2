"""Reader groups: their durable positions, and their windows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from heapq import nlargest
from itertools import islice
from typing import Any, Final, NamedTuple

from msgspec import structs

from controller.clock import Clock
from controller.commit.cache import Cache
from controller.commit.freshness import NEVER_FRESH_S, Freshness
from controller.commit.journal import AdminAction
from controller.commit.loop import CommitLoop, Locked
from controller.commit.store import Store, after_commit
from controller.groups.loaded_group import LoadedGroup
from controller.groups.membership import Membership, Positions, StreamStart
from controller.groups.places import GroupPlace, Places
from controller.groups.windows import combined_of, group_window, is_told_already, left_behind, reads_of
from controller.operator_log import log_event
from controller.storage.groups import group_streams, groups_with, load_group, streams_of_groups
from controller.storage.subjects import Kind, Subject
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from controller.streams.time_index import TimeIndexes
from strandline.core.note import DEFAULT_KEY, check_position
from strandline.core.order import SegmentRef, lag
from strandline.core.segment import SegmentGraph
from strandline.core.served_time import Moment
from strandline.core.time_index import bound_at
from strandline.errors import (
    GroupExists,
    InvalidConfig,
    Refused,
    StrandlineError,
    StreamRecreated,
    TooMany,
    UnknownStream,
)
from strandline.limits import STREAMS_PER_GROUP
from strandline.names import check_name
from strandline.wire.groups import (
    FromHead,
    FromPositions,
    GroupLag,
    GroupSettings,
    GroupWindow,
    ReaderAnswer,
    SegmentLag,
    Start,
    settings_of_group,
)

METRICS_LAGGING_SEGMENTS: Final = 512  # readable by a group; with more, no segment of it has a lag of its own


class ReaderShare(NamedTuple):
    """What a reader is answered, besides the window."""

    epoch: int
    owned: Positions
    share: int
    free: int


class Groups:
    """Every reader group by its name."""

    def __init__(
        self,
        store: Store,
        commits: CommitLoop,
        clock: Clock,
        streams: Streams,
        reading: Reads,
        indexing: TimeIndexes,
        freshness: Freshness,
    ) -> None:
        self._store = store
        self._commits = commits
        self._clock = clock
        self._streams = streams
        self._freshness = freshness
        self.places = Places(streams, reading, indexing, clock)
        self._cache: Cache[LoadedGroup] = Cache(Kind.GROUP, self._load, commits, freshness)

    # -- groups --------------------------------------------------------------------------------------------------

    async def get(self, name: str) -> LoadedGroup:
        """The group as it is now in the store, and with it its streams; raises UnknownGroup. The caller must not keep
        it across an `await`."""
        found, subject = self._cache.find_loaded(name), Subject(Kind.GROUP, name)
        if found is not None and not self._freshness.is_fresh(found, NEVER_FRESH_S):
            streams = [Subject(Kind.STREAM, each) for each in found.membership.settings.streams]
            await self._freshness.compare([subject, *streams])
        while (under_way := self._commits.under_way(subject)) is not None:
            await asyncio.wait([under_way])  # what it changes is not durable yet
        return await self._cache.get(name)

    def find_loaded(self, name: str) -> LoadedGroup | None:
        """The group if it is in memory."""
        return self._cache.find_loaded(name)

    async def progress_in(self, name: str, stream: str, identity: str) -> tuple[int, Mapping[str, int]] | None:
        """When a reader of the group was last heard, and how far the group has read each segment of a stream; None if
        it reads an earlier stream of this name. Raises UnknownGroup."""
        found = await self.get(name)
        if found.membership.identities.get(stream) != identity:
            return None
        return found.heard_at, found.membership.read(stream)

    async def streams_by_name(self, after: str, limit: int) -> Mapping[str, Sequence[str]]:
        """The names that follow `after`, in order, each with the streams that the group reads."""
        return await self._store.read(group_streams, after, limit)

    async def streams_of(self, names: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Those groups that there are of these names, each with the streams that it reads."""
        return await self._store.read(streams_of_groups, names)

    def in_memory(self) -> list[LoadedGroup]:
        """All loaded groups, in no order."""
        return self._cache.items()

    async def create(self, name: str, settings: GroupSettings, by: str | None = None) -> bool:
        """Creates a group; False if it exists already. Raises GroupExists if its settings differ."""
        check_name("group", name)
        _check(settings)
        starts = await self._starts(settings.start, settings.streams)

        def step(found: LoadedGroup | None, epochs: int, locked: Locked) -> tuple[LoadedGroup, bool]:
            if found is not None:
                differs = _differences(found.membership.settings, settings)
                if differs:
                    exists = GroupExists(group=name, differs=differs)
                    if found.journal.refuse(exists, locked.now, by=by, call="created"):
                        locked.change(found)
                    raise exists
                return found, False
            membership = Membership(name, settings)
            membership.epochs = epochs
            for stream, beginning in starts.items():
                membership.start(stream, beginning)
            membership.touched.group = True
            loaded = LoadedGroup(membership, locked.now)
            loaded.journal.act(AdminAction("created", by, settings_of_group(settings)), locked.now)
            locked.change(loaded)
            return loaded, True

        return await self._cache.create(name, step)

    async def configure(
        self, name: str, changes: Mapping[str, Any], start: Start | None, by: str | None = None
    ) -> None:
        """Changes settings of a group. Added streams begin at `start`, by default at their heads."""

        def step(
            before: GroupSettings,
            settings: GroupSettings,
            starts: Mapping[str, StreamStart],
            told: tuple[Mapping[str, int | None], str | None],
            loaded: LoadedGroup,
            locked: Locked,
        ) -> bool:
            """False if another call changed the settings meanwhile."""
            if loaded.membership.settings != before:
                return False
            watermarks, lost = told
            if _differences(settings, before):
                if lost is not None and lost not in settings.streams:
                    loaded.membership.fence_all(0)  # what they read, and their logs, are of the stream that was deleted
                loaded.configure(settings, starts, watermarks, self._clock.moment())
                loaded.journal.act(AdminAction("configured", by, _changed(before, settings)), locked.now)
                locked.change(loaded)
            return True

        is_done = False
        while not is_done:
            before = (await self.get(name)).membership.settings
            settings = structs.replace(before, **changes)
            _check(settings)
            added = [stream for stream in settings.streams if stream not in before.streams]
            if start is not None and not added:
                raise InvalidConfig(name="start", value="…", wanted="left out, since no stream is added")
            starts = await self._starts(FromHead() if start is None else start, added)
            told = await self._told(name)
            is_done = await self._cache.change(name, partial(step, before, settings, starts, told))

    async def _told(self, name: str) -> tuple[Mapping[str, int | None], str | None]:
        """The watermarks that a group was told, which must not go back, and a stream of it that was deleted, if any."""
        try:
            return (await self.window(name)).watermarks, None
        except (UnknownStream, StreamRecreated) as error:  # nothing can be told any more before that stream is removed
            loaded = await self.get(name)
            told = loaded.membership.held if loaded.last_window is None else loaded.last_window.watermarks
            return told, error.stream

    async def delete(self, name: str, by: str | None = None) -> None:
        """Deletes a group with its journal, also if its rows cannot be read. Its streams journal that."""
        deleted = await self._cache.delete(name)
        for stream in () if deleted is None else deleted.membership.settings.streams:
            with suppress(StrandlineError):  # it was deleted too, or cannot be read, or the store is away
                await self._streams.journal(stream, AdminAction("group_deleted", by, {"group": name}))
        log_event("group_deleted", group=name, by=by)

    async def stream_deleted(self, stream: str, by: str | None) -> None:
        """Journals the deletion of a stream in the groups that read it: the stream's own journal is gone."""

        def step(loaded: LoadedGroup, locked: Locked) -> None:
            loaded.journal.act(AdminAction("stream_deleted", by, {"stream": stream}), locked.now)
            locked.change(loaded)

        for name in await self._store.read(groups_with, stream):
            with suppress(StrandlineError):  # it was deleted too, or cannot be read, or the store is away
                await self._cache.change(name, step)

    async def _load(self, name: str) -> LoadedGroup | None:
        began = asyncio.get_running_loop().time()
        stored = await self._store.read(load_group, name)
        if stored is None:
            return None
        with self._store.made_of_rows(group=name):
            loaded = LoadedGroup.loaded(stored)
        loaded.compared_at = began
        return loaded

    async def _starts(self, start: Start, streams: Iterable[str]) -> dict[str, StreamStart]:
        """Where a group begins in each of these streams."""
        streams = tuple(streams)
        for stream in start.positions if isinstance(start, FromPositions) else ():
            if stream not in streams:
                raise InvalidConfig(name="start", value=stream, wanted=f"streams that begin: {', '.join(streams)}")
        return {stream: await self.places.start(stream, start) for stream in streams}

    @contextmanager
    def _of_group(self, group: str) -> Iterator[None]:
        """Names the group in the error about a stream that was deleted, or created again, since the group began to read
        it."""
        try:
            yield
        except (UnknownStream, StreamRecreated) as error:
            raise type(error)(**{**error.values, "group": group}) from None

    async def _graphs(self, members: Membership) -> Mapping[str, SegmentGraph]:
        """The graphs of a group's streams."""
        with self._of_group(members.name):
            return await self.places.graphs(members.identities)

    # -- readers -------------------------------------------------------------------------------------------------

    async def register(
        self,
        group: str,
        reader: str,
        positions: Positions,
        by: str | None = None,
        registration: str | None = None,
    ) -> ReaderAnswer:
        """Registers a reader, which takes these segments over."""
        check_name("reader", reader)
        if registration is not None:
            check_name("registration", registration)
        return await self._change(
            group,
            reader,
            positions,
            lambda members, graphs, moment: members.register(reader, positions, graphs, moment, registration),
            AdminAction("reader_registered", by, {"reader": reader}),
        )

    async def report(
        self, group: str, reader: str, epoch: int, positions: Positions, settled: Positions | None = None
    ) -> ReaderAnswer:
        return await self._change(
            group,
            reader,
            positions,
            lambda members, graphs, moment: members.report(reader, epoch, positions, graphs, moment, settled),
            settled=settled,
        )

    async def acquire(self, group: str, reader: str, epoch: int, most: int) -> ReaderAnswer:
        bound = await self._bounds_of_free(group)
        return await self._change(
            group,
            reader,
            {},
            lambda members, graphs, moment: members.acquire(reader, epoch, most, graphs, bound, moment),
        )

    async def _bounds_of_free(self, group: str) -> Callable[[SegmentRef, int], int | None]:
        """A lower bound of the times of all later events of a free segment, from the marks in memory."""
        graphs = await self._graphs((await self.get(group)).membership)
        members = (await self.get(group)).membership
        free = [place for place in members.readable(graphs) if place not in members.owners]
        found = await self._bounds(members, free, exact=False)
        return lambda place, offset: found[place[0]][1].get(place[1]) if place[0] in found else None

    async def _bounds(
        self, members: Membership, places: Iterable[SegmentRef], *, exact: bool
    ) -> Mapping[str, tuple[int | None, Mapping[str, int | None]]]:
        """By stream, the time of the newest mark, and a lower bound of the times of all events of these segments that
        were not read. A stream that the group has left meanwhile is looked at like any other."""
        offsets: dict[str, dict[str, int]] = {}
        for stream, segment in places:
            offsets.setdefault(stream, {})[segment] = members.offsets.get((stream, segment), 0)
        known = dict(members.identities)
        with self._of_group(members.name):
            return {
                stream: await self.places.bounds(stream, known.get(stream), each, exact=exact)
                for stream, each in offsets.items()
            }

    async def release(
        self, group: str, reader: str, epoch: int, positions: Positions, settled: Positions | None = None
    ) -> ReaderAnswer:
        return await self._change(
            group,
            reader,
            positions,
            lambda members, graphs, moment: members.release(reader, epoch, positions, graphs, moment, settled),
            settled=settled,
        )

    async def offline(self, group: str, reader: str, positions: Positions, by: str | None = None) -> GroupWindow:
        answer = await self._change(
            group,
            reader,
            positions,
            lambda members, graphs, moment: members.offline(reader, positions, graphs, moment),
            AdminAction("reader_offline", by, {"reader": reader}),
        )
        return answer.window

    async def _change(
        self,
        group: str,
        reader: str,
        positions: Positions,
        call: Callable[[Membership, Mapping[str, SegmentGraph], Moment], bool | None],
        act: AdminAction | None = None,
        *,
        settled: Positions | None = None,
    ) -> ReaderAnswer:
        """Applies a call of a reader, and answers when it is durable. Journals `act`, unless the call returns that it
        repeats an earlier one."""

        def step(
            settings: GroupSettings, graphs: Mapping[str, SegmentGraph], loaded: LoadedGroup, locked: Locked
        ) -> ReaderShare | None:
            """None if the streams of the group were changed meanwhile."""
            members = loaded.membership
            if members.settings != settings:
                return None
            moment = self._clock.moment()
            loaded.heard_at = now = moment.now
            try:
                repeated = call(members, graphs, moment)
            except Refused as error:
                by = None if act is None else act.by
                refused = loaded.journal.refuse(error, now, by=by, reader=reader)
                if loaded.record_silent(now) or refused:
                    locked.change(loaded)
                raise
            locked.change(loaded)
            loaded.record_silent(now)
            if act is not None and not repeated:
                loaded.journal.act(act, now)
            registered, owned = members.readers.get(reader), members.owned(reader)
            loaded.record_owned(reader, owned, now)
            epoch = registered.epoch if registered is not None else 0
            return ReaderShare(epoch, owned, *members.share(graphs, moment))

        answered: ReaderShare | None = None
        while answered is None:
            members = (await self.get(group)).membership
            settings = members.settings
            for name, given in (("positions", positions), ("settled", settled or {})):
                for stream, position in given.items():
                    if stream not in settings.streams:
                        wanted = f"streams of the group: {', '.join(settings.streams)}"
                        raise InvalidConfig(name=name, value=stream, wanted=wanted)
                    check_position(position)
            graphs = await self._graphs(members)
            answered = await self._cache.change(group, partial(step, settings, graphs))
        with after_commit():
            return ReaderAnswer(**answered._asdict(), window=await self.window(group))

    async def window(self, group: str) -> GroupWindow:
        """The window of a group, in each of its streams and over all of them.

        What it is made of is durable, and so is a watermark that the streams no longer show: neither goes back,
        whichever controller is asked next.
        """

        def step(
            asked: LoadedGroup, is_same: Callable[[], bool], places: Mapping[str, GroupPlace], now: int,
            loaded: LoadedGroup, locked: Locked,
        ) -> GroupWindow | None:  # fmt: skip
            """None if the group was changed meanwhile."""
            if loaded is not asked or not is_same():
                return None
            combined = combined_of(loaded.membership, places)
            loaded.last_window = group_window(loaded, combined, now)
            loaded.membership.touched.group = True
            locked.change(loaded)
            return loaded.last_window

        window: GroupWindow | None = None
        while window is None:
            loaded = await self.get(group)
            members, moment = loaded.membership, self._clock.moment()
            if members.has_silent(moment):
                await self._time_out_silent(group)
                continue
            is_same = partial(self._is_same, loaded, members.settings, members.times_put_back)
            reads = reads_of(members)
            with self._of_group(group):
                places = {stream: await self.places.place(stream, read) for stream, read in reads.items()}
                while further := left_behind(combined := combined_of(members, places)):
                    for stream, goes_to in further.items():
                        places[stream] = await self.places.place(stream, reads[stream], goes_to)
            if not is_same():
                continue
            if is_told_already(loaded, combined, moment.now):
                loaded.last_window = window = group_window(loaded, combined, moment.now)
            else:
                window = await self._cache.change(group, partial(step, loaded, is_same, places, moment.now))
        return window

    def _is_same(self, loaded: LoadedGroup, settings: GroupSettings, put_back: int) -> bool:
        """Whether a group still reads the same streams, and no position of it went back meanwhile."""
        members = loaded.membership
        is_loaded = self._cache.find_loaded(members.name) is loaded
        return is_loaded and members.settings == settings and members.times_put_back == put_back

    async def _time_out_silent(self, group: str) -> None:
        """Frees the segments of silent readers."""

        def step(loaded: LoadedGroup, locked: Locked) -> None:
            moment = self._clock.moment()
            loaded.membership.time_out_silent(moment)
            loaded.record_silent(moment.now)
            locked.change(loaded)

        await self._cache.change(group, step)

    async def lag(self, group: str) -> GroupLag:
        """How far a group is behind in time, as a whole and in each readable segment."""
        window = await self.window(group)
        members = (await self.get(group)).membership
        graphs = await self._graphs(members)
        streams: dict[str, dict[str, SegmentLag]] = {stream: {} for stream in graphs}
        readable = list(members.readable(graphs))
        bounds = await self._bounds(members, readable, exact=True)
        for stream, segment in readable:
            newest, of_stream = bounds[stream]
            behind = lag(of_stream.get(segment), newest, self._clock.now())
            streams[stream][segment] = SegmentLag(
                offset=members.offsets.get((stream, segment), 0),
                reader=members.owners.get((stream, segment)),
                lag_ms=behind.lag_ms,
                behind_ms=behind.behind_ms,
            )
        return GroupLag(lag_ms=window.lag_ms, streams=streams)

    async def segment_lags(self, group: str, most: int) -> dict[SegmentRef, int]:
        """How far a group is behind the clock in the segments furthest behind, by the marks in memory. Empty if a group
        can read very many segments."""
        loaded = await self.get(group)
        streams = {name: self._streams.find_loaded(name) for name in loaded.membership.settings.streams}
        graphs = {name: found.stream.graph for name, found in streams.items() if found is not None}
        now = self._clock.now()
        lags: dict[SegmentRef, int] = {}
        places = list(islice(loaded.membership.readable(graphs), METRICS_LAGGING_SEGMENTS + 1))
        for place in places if len(places) <= METRICS_LAGGING_SEGMENTS else ():
            behind = lag(self._bound(place, loaded.membership.offsets.get(place, 0)), None, now).lag_ms
            if behind is not None:
                lags[place] = behind
        return dict(nlargest(most, lags.items(), key=lambda each: each[1]))

    def _bound(self, place: SegmentRef, offset: int) -> int | None:
        """A lower bound of the times of all later events of a segment, from the marks in memory."""
        loaded = self._streams.find_loaded(place[0])
        chain = loaded.chains.get(DEFAULT_KEY) if loaded is not None else None
        return None if chain is None else bound_at(chain, place[1], offset)


def _differences(one: GroupSettings, other: GroupSettings) -> tuple[str, ...]:
    """The settings that differ. The order of the streams does not matter."""
    return tuple(
        name
        for name in GroupSettings.__struct_fields__
        if _comparable(getattr(one, name)) != _comparable(getattr(other, name))
    )


def _comparable(value: object) -> object:
    return set(value) if isinstance(value, tuple) else value


def _changed(before: GroupSettings, after: GroupSettings) -> dict[str, Any]:
    """The changed settings, for the journal."""
    wire = settings_of_group(after)
    return {name: wire[name] for name in _differences(before, after)}


def _check(settings: GroupSettings) -> None:
    if not settings.streams:
        raise InvalidConfig(name="streams", value=[], wanted="the names of one stream or more")
    if len(settings.streams) > STREAMS_PER_GROUP:
        raise TooMany(what="streams in a group", count=len(settings.streams), limit=STREAMS_PER_GROUP)
    if len(set(settings.streams)) < len(settings.streams):
        raise InvalidConfig(name="streams", value=list(settings.streams), wanted="each stream once")
