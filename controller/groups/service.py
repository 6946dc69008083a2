"""Reader groups: their durable positions, and their windows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from heapq import nlargest
from itertools import islice
from typing import Any, Final

from msgspec import structs

from controller.clock import Clock
from controller.cluster.records import Kind
from controller.commit.deletion import Deletion
from controller.commit.group_commit import Committer, Durable
from controller.commit.store import Store, after_commit
from controller.groups.loaded_group import LoadedGroup, settings_of
from controller.groups.membership import Membership, Positions, StreamStart
from controller.groups.stream_views import OwnStreams, StreamQuestion, StreamView, StreamViews
from controller.groups.windows import as_of, combined_of, group_window, left_behind, questions_of
from controller.records.journal import AdminAction, record_refused
from controller.records.operator_log import log_event
from controller.storage.groups import group_streams, load_group, progress_in
from controller.storage.load import deleted_epochs
from controller.storage.tenure import Tenure, Tenures
from controller.streams.cache import LoadingCache
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
    NotOwner,
    Refused,
    StoreCorrupt,
    StoreUndecided,
    StrandlineError,
    StreamAway,
    StreamRecreated,
    TooMany,
    UnknownGroup,
    UnknownStream,
)
from strandline.limits import STREAMS_PER_GROUP
from strandline.names import check_name
from strandline.wire.groups import (
    FromHead,
    FromPositions,
    FromTime,
    GroupLag,
    GroupSettings,
    GroupWindow,
    ReaderAnswer,
    SegmentLag,
    Start,
    settings_of_group,
)

GROUPS_ASKED_AT_ONCE: Final = 8  # anew, for operators; the others after these
METRICS_LAGGING_SEGMENTS: Final = 512  # readable by a group; with more, no segment of it has a lag of its own


class Groups:
    """Every reader group by its name."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        streams: Streams,
        reading: Reads,
        indexing: TimeIndexes,
        tenures: Tenures,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._streams = streams
        self._tenures = tenures
        self._own = OwnStreams(streams, reading, indexing, clock, committer)
        self.views: StreamViews = self._own
        self._cache: LoadingCache[LoadedGroup] = LoadingCache(Kind.GROUP, tenures, self._load)
        self._asking: dict[str, asyncio.Task[None]] = {}  # groups whose window is asked for anew, for operators
        self._turns = asyncio.Semaphore(GROUPS_ASKED_AT_ONCE)

    # -- groups --------------------------------------------------------------------------------------------------

    async def get(self, name: str) -> LoadedGroup:
        """The group; raises UnknownGroup. The caller must not keep it across an `await`."""
        found = self._cache.find_loaded(name) or await self._find(name)
        if found is None:
            raise UnknownGroup(group=name)
        return found

    async def in_turn(self, name: str) -> LoadedGroup:
        """The group, when it is the turn of calls: one may be applied to it, and join, without waiting in between.

        Raises what `get` raises, and Overloaded.
        """
        self._committer.admit()
        return await self._committer.in_turn(name, self.find_loaded, self.get)

    def find_loaded(self, name: str) -> LoadedGroup | None:
        """The group if it is in memory."""
        return self._cache.find_loaded(name)

    async def progress_in(self, name: str, stream: str, identity: str) -> tuple[int, Mapping[str, int]] | None:
        """When a reader of the group was last heard, and how far the group has read each segment of a stream; None if
        it reads an earlier stream of this name. Of a group that is served elsewhere, as the store has it, and as far as
        it is settled: a segment may go back to there. Raises UnknownGroup."""
        try:
            found = await self.get(name)
        except NotOwner:
            stored, heard_at, settled = await self._store.read(progress_in, name, stream)
            if stored != identity:
                return None
            return self._clock.now() if heard_at is None else heard_at, settled
        if found.membership.identities.get(stream) != identity:
            return None
        return found.heard_at, found.membership.read(stream)

    async def durable_views(self, questions: Mapping[str, StreamQuestion]) -> Mapping[str, StreamView]:
        """Views of own streams for a group of another controller. Returns them when all that they tell is durable;
        raises NotOwner for a stream of another controller, too."""
        views, pending = {}, []
        for stream, question in questions.items():
            view = await self._own.view(stream, question)
            pending.append(self._committer.pending(await self._streams.get(stream)))
            views[stream] = structs.replace(view, graph=SegmentGraph(view.graph, open=view.graph.open))
        for commit in pending:
            if commit is not None:
                await commit
        return views

    async def streams_by_name(self, after: str, limit: int) -> Mapping[str, Sequence[str]]:
        """The names that follow `after`, in order, each with the streams that the group reads."""
        return await self._store.read(group_streams, after, limit)

    def in_memory(self) -> list[LoadedGroup]:
        """All loaded groups, in no order."""
        return self._cache.items()

    def hand_over(self, tenures: Collection[Tenure]) -> None:
        """Does nothing: a group is written with each change, and no caller waits within it."""

    def forget(self, tenures: Collection[Tenure]) -> None:
        """Discards all groups under tenures that are about to end."""
        for loaded in self._cache.forget(tenures):
            loaded.discard()

    async def create(self, name: str, settings: GroupSettings, by: str | None = None) -> bool:
        """Creates a group; False if it exists already. Raises GroupExists if its settings differ."""
        check_name("group", name)
        _check(settings)
        starts = await self._starts(settings.start, settings.streams)
        deleted = partial(self._store.read, deleted_epochs, Kind.GROUP, name)
        tenure, found, epochs = await self._cache.find_before_creation(name, self._find, deleted)
        self._committer.admit()
        if found is not None:
            differs = _differences(found.membership.settings, settings)
            if differs:
                exists = GroupExists(group=name, differs=differs)
                if found.journal.refuse(exists, self._clock.now(), by=by, call="created"):
                    self._committer.keep(found)
                    record_refused("group", name, exists, call="created")
                raise exists
            await self._committer.join(found)
            return False
        membership = Membership(name, settings)
        membership.epochs = epochs
        for stream, beginning in starts.items():
            membership.start(stream, beginning)
        membership.touched.group = True
        now = tenure.moment(self._clock.now()).now
        loaded = LoadedGroup(membership, now, tenure, stored_fence=None)
        loaded.journal.act(AdminAction("created", by, settings_of_group(settings)), now)
        self._cache.put(name, loaded)
        await self._committer.join(loaded)
        return True

    async def configure(
        self, name: str, changes: Mapping[str, Any], start: Start | None, by: str | None = None
    ) -> None:
        """Changes settings of a group. Added streams begin at `start`, by default at their heads."""
        while True:
            before = (await self.get(name)).membership.settings
            settings = structs.replace(before, **changes)
            _check(settings)
            added = [stream for stream in settings.streams if stream not in before.streams]
            if start is not None and not added:
                raise InvalidConfig(name="start", value="…", wanted="left out, since no stream is added")
            starts = await self._starts(FromHead() if start is None else start, added)
            watermarks, lost = await self._told(name)
            loaded = await self.in_turn(name)
            if loaded.membership.settings is before:  # else another call changed them meanwhile
                break
        if not _differences(settings, before):
            await self._committer.join(loaded)
            return
        moment = loaded.tenure.moment(self._clock.now())
        if lost is not None and lost not in settings.streams:
            loaded.membership.fence_all(0)  # what they read, and their logs, are of the stream that was deleted
        loaded.configure(settings, starts, watermarks, moment)
        loaded.journal.act(AdminAction("configured", by, _changed(before, settings)), moment.now)
        await self._committer.join(loaded)

    async def _told(self, name: str) -> tuple[Mapping[str, int | None], str | None]:
        """The watermarks that a group was told, which must not go back, and a stream of it that was deleted, if any."""
        try:
            return (await self.window(name)).watermarks, None
        except (UnknownStream, StreamRecreated) as error:  # nothing can be told any more before that stream is removed
            loaded = await self.get(name)
            told = loaded.membership.held if loaded.last_window is None else loaded.last_window.watermarks
            return told, error.stream

    async def delete(self, name: str, by: str | None = None) -> None:
        """Deletes a group with its journal, also if its rows cannot be read. Its loaded streams journal that."""
        try:
            loaded = await self.in_turn(name)
        except StoreCorrupt:
            await self._delete_unread(name, by)
            return
        self._cache.deletions += 1
        loaded.ending = self._committer.join(loaded)
        now = self._clock.now()
        for stream in loaded.membership.settings.streams:
            read = self._streams.find_loaded(stream)  # no stream is loaded for this
            if read is not None:
                read.journal.act(AdminAction("group_deleted", by, {"group": name}), now)
                self._committer.keep(read)
        await loaded.ending
        log_event("group_deleted", group=name, by=by)

    async def _delete_unread(self, name: str, by: str | None) -> None:
        self._committer.admit()
        self._cache.deletions += 1
        tenure = self._tenures.of(Kind.GROUP, name)
        await self._committer.join(Deletion(Kind.GROUP, name, tenure, tenure.moment(self._clock.now()).now))
        log_event("group_deleted", group=name, by=by)

    def stream_deleted(self, stream: str, by: str | None) -> None:
        """Journals the deletion of a stream in the loaded groups that read it: the stream's own journal is gone."""
        now = self._clock.now()
        for loaded in self._cache.items():
            if stream in loaded.membership.settings.streams:
                loaded.journal.act(AdminAction("stream_deleted", by, {"stream": stream}), now)
                self._committer.keep(loaded)

    async def _find(self, name: str) -> LoadedGroup | None:
        check_name("group", name)
        return await self._cache.find(name)

    async def _load(self, name: str, tenure: Tenure) -> LoadedGroup | None:
        stored = await self._store.read(load_group, name)
        if stored is None:
            return None
        tenure.check_latest(Kind.GROUP, name, stored.fence)
        now = tenure.moment(self._clock.now()).now
        with self._store.made_of_rows(group=name):
            loaded = LoadedGroup.loaded(stored, settings_of(stored.settings), tenure, now)
        restored_at = tenure.restored_at(stored.fence)
        if restored_at is not None and not loaded.discarded and self._tenures.serves(tenure):
            loaded.start_over(restored_at, now)
            self._committer.keep(loaded)
        return loaded

    async def _starts(self, start: Start, streams: Iterable[str]) -> dict[str, StreamStart]:
        """Where a group begins in each of these streams."""
        streams = tuple(streams)
        for stream in start.positions if isinstance(start, FromPositions) else ():
            if stream not in streams:
                raise InvalidConfig(name="start", value=stream, wanted=f"streams that begin: {', '.join(streams)}")
        question = StreamQuestion(
            from_head=isinstance(start, FromHead), from_time=start.time if isinstance(start, FromTime) else None
        )
        starts = {}
        for stream, view in (await self.views.ask(dict.fromkeys(streams, question))).items():
            if isinstance(start, FromPositions):
                cut = view.graph.cut(start.positions.get(stream, {}))
            else:
                assert view.start is not None
                cut = view.start
            starts[stream] = StreamStart(cut, view.identity)
        return starts

    @contextmanager
    def _of_group(self, group: str) -> Iterator[None]:
        """Names the group in the error about a stream that was deleted, or created again, since the group began to read
        it, and remembers that."""
        try:
            yield
        except (UnknownStream, StreamRecreated) as error:
            loaded = self._cache.find_loaded(group)
            if loaded is not None:
                loaded.lost_stream = True
            raise type(error)(**{**error.values, "group": group}) from None

    async def _ask(self, group: str, questions: Mapping[str, StreamQuestion]) -> Mapping[str, StreamView]:
        """The views that a group asks for."""
        with self._of_group(group):
            return await self.views.ask(questions)

    async def _graphs(self, members: Membership) -> Mapping[str, SegmentGraph]:
        """The graphs of a group's streams."""
        with self._of_group(members.name):
            return await self.views.graphs(members.identities)

    # -- readers -------------------------------------------------------------------------------------------------

    async def register(self, group: str, reader: str, positions: Positions, by: str | None = None) -> ReaderAnswer:
        """Registers a reader, which takes these segments over."""
        check_name("reader", reader)
        return await self._change(
            group,
            reader,
            positions,
            lambda members, graphs, moment: members.register(reader, positions, graphs, moment),
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
            reports_as=epoch,
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
        views = await self._bounds(members, free, exact=False)
        return lambda place, offset: views[place[0]].bounds.get(place[1]) if place[0] in views else None

    async def _bounds(
        self, members: Membership, places: Iterable[SegmentRef], *, exact: bool
    ) -> Mapping[str, StreamView]:
        """Views with a lower bound of the times of all events of these segments that were not read. A stream that the
        group has left meanwhile is looked at like any other."""
        offsets: dict[str, dict[str, int]] = {}
        for stream, segment in places:
            offsets.setdefault(stream, {})[segment] = members.offsets.get((stream, segment), 0)
        known = members.identities
        return await self._ask(
            members.name,
            {
                stream: StreamQuestion(identity=known.get(stream), bounds=each, exact_bounds=exact)
                for stream, each in offsets.items()
            },
        )

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
        call: Callable[[Membership, Mapping[str, SegmentGraph], Moment], None],
        act: AdminAction | None = None,
        *,
        settled: Positions | None = None,
        reports_as: int | None = None,
    ) -> ReaderAnswer:
        """Applies a call of a reader, and answers when it is durable. `reports_as` is the epoch of a report."""
        while True:
            members = (await self.get(group)).membership
            settings = members.settings
            for name, given in (("positions", positions), ("settled", settled or {})):
                for stream, position in given.items():
                    if stream not in settings.streams:
                        wanted = f"streams of the group: {', '.join(settings.streams)}"
                        raise InvalidConfig(name=name, value=stream, wanted=wanted)
                    check_position(position)
            try:
                graphs = await self._graphs(members)
            except StreamAway:  # for as long as that lasts, a reader that reports lives, though nothing can be stored
                if reports_as is not None:
                    await self._hear(group, reader, reports_as)
                raise
            loaded = await self.in_turn(group)
            if loaded.membership.settings is settings:  # else the streams of the group were changed meanwhile
                break
        moment = loaded.tenure.moment(self._clock.now())
        loaded.heard_at = now = moment.now
        try:
            call(loaded.membership, graphs, moment)
        except Refused as error:
            by = None if act is None else act.by
            refused = loaded.journal.refuse(error, now, by=by, reader=reader)
            if loaded.record_silent(now) or refused:
                self._committer.keep(loaded)
            if refused:
                record_refused("group", group, error, reader=reader)
            raise
        loaded.record_silent(now)
        if act is not None:
            loaded.journal.act(act, now)
        registered = loaded.membership.readers.get(reader)
        epoch, owned = registered.epoch if registered is not None else 0, loaded.membership.owned(reader)
        loaded.record_owned(reader, owned, now)
        share, free = loaded.membership.share(graphs, moment)
        await self._committer.join(loaded)
        window = await self._window_after(group, is_report=reports_as is not None)
        return ReaderAnswer(epoch=epoch, owned=owned, share=share, free=free, window=window)

    async def _hear(self, group: str, reader: str, epoch: int) -> None:
        """Notes that a reader was heard, if the epoch is its own."""
        loaded = await self.get(group)
        moment = loaded.tenure.moment(self._clock.now())
        if loaded.membership.hear(reader, epoch, moment):
            loaded.heard_at = moment.now
            self._committer.keep(loaded)

    async def _window_after(self, group: str, *, is_report: bool) -> GroupWindow:
        """The window after a change that is stored. A report is harmless to repeat, so it raises StreamAway as it is;
        of other calls that would say that nothing was changed."""
        try:
            with after_commit():
                return await self.window(group)
        except StreamAway as error:
            if is_report:
                raise
            raise StoreUndecided(reason=f"it is stored, but the answer could not be read: {error.reason}") from error

    async def window(self, group: str) -> GroupWindow:
        """The window of a group, in each of its streams and over all of them. Answers when the positions that it is
        made of are durable: a watermark of a position that is lost with a failed commit would go back."""
        window, pending = await self._window(group)
        if pending is not None:
            await pending
        return window

    async def window_so_far(self, group: str) -> GroupWindow:
        """The same for operators: it does not wait for the commit of a reader's report, nor for other controllers. It
        asks these for the next time."""
        loaded = await self.get(group)
        told = None if loaded.lost_stream else loaded.last_window
        if told is not None and not self.views.ready(loaded.membership.settings.streams):
            if group not in self._asking:
                self._asking[group] = asyncio.create_task(self._ask_anew(group), name="window of a group")
            return as_of(told, self._clock.now())
        window, _ = await self._window(group)
        return window

    async def _ask_anew(self, group: str) -> None:
        try:
            async with self._turns:
                await self._window(group)
        except StrandlineError:
            return  # a stream that is lost is remembered; of one that is away, operators see what was told last
        finally:
            del self._asking[group]

    async def _window(self, group: str) -> tuple[GroupWindow, Durable | None]:
        """The window, and the commit that makes its positions durable, if they are not."""
        while True:
            loaded = await self.get(group)
            members, settings = loaded.membership, loaded.membership.settings
            moment = loaded.tenure.moment(self._clock.now())
            members.time_out_silent(moment)
            put_back = members.times_put_back
            questions = questions_of(members)
            views = dict(await self._ask(group, questions))
            while further := left_behind(combined := combined_of(members, views), views):
                views |= await self._ask(
                    group, {stream: structs.replace(questions[stream], goes_to=to) for stream, to in further.items()}
                )
            if self._cache.find_loaded(group) is not loaded:
                continue
            if members.settings is settings and members.times_put_back == put_back:
                break
        now, was_held = moment.now, members.held
        was_caught_up, was_backlog = loaded.caught_up, loaded.backlog
        window = group_window(loaded, views, combined, now)
        loaded.last_window, loaded.lost_stream = window, False
        pending = self._committer.pending(loaded)
        loaded.record_silent(now)
        if members.held != was_held:
            members.touched.group = True
            await self._committer.join(loaded)  # a reported watermark never goes back, so it must be durable first
        elif (loaded.caught_up, loaded.backlog) != (was_caught_up, was_backlog) or members.touched:
            members.touched.group = True
            self._committer.keep(loaded)  # no wait: the next call would compute the same
        return window, pending

    async def lag(self, group: str) -> GroupLag:
        """How far a group is behind in time, as a whole and in each readable segment."""
        window = await self.window(group)
        members = (await self.get(group)).membership
        graphs = await self._graphs(members)
        streams: dict[str, dict[str, SegmentLag]] = {stream: {} for stream in graphs}
        readable = list(members.readable(graphs))
        views = await self._bounds(members, readable, exact=True)
        for stream, segment in readable:
            behind = lag(views[stream].bounds.get(segment), views[stream].newest, self._clock.now())
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
