"""All streams: creates, finds, lists and deletes them; loads each from the store when it is first needed."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from controller.clock import Clock
from controller.commit.cache import Cache
from controller.commit.freshness import NEVER_FRESH_S, Freshness
from controller.commit.journal import AdminAction, Topic
from controller.commit.loop import CommitLoop, Locked, Result
from controller.commit.store import Store
from controller.limits import DEFAULT_LIMITS
from controller.operator_log import log_event
from controller.storage.heads import due_streams, standings
from controller.storage.load import missing_mark, stream_names
from controller.storage.rows import StreamOrigin
from controller.storage.subjects import Kind
from controller.streams.counts import StreamCounts
from controller.streams.loaded_stream import LoadedStream
from controller.streams.loading import Loading
from controller.streams.standing import NOTHING_COUNTED
from controller.streams.timers import Timers
from strandline.core.aggregate import Holder
from strandline.core.changes import Registered
from strandline.core.config import StreamConfig
from strandline.core.mark import Mark
from strandline.core.segment import NewSegment, SegmentGraph
from strandline.core.served_time import Moment
from strandline.core.stream import Stream
from strandline.errors import (
    Refused,
    StoreCorrupt,
    StoreUnavailable,
    StrandlineError,
    StreamExists,
    TimeTooFarAhead,
)
from strandline.wire.streams import MarksPage, marks_page, settings_by_name

EXACT_MS: Final = 1_000  # a deadline further ahead may be too early: its stream is then woken for nothing
REST_MARGIN_MS: Final = 3_000  # from a commit that ends a stream's rest until no other controller shows it at rest
KEPT_S: Final = 600.0  # in memory after the last call
KEPT_DUE_MS: Final = 60_000  # a stream stays in memory if time changes it within so long
DAMAGED_ASIDE_S: Final = 60.0  # until a stream that cannot be read is tried again, if nobody calls it
KNOWN_MS: Final = 1_000  # how old what is in memory may be to be shown as of now
WORKED_TOGETHER: Final = 48  # streams that nobody calls, loaded or written at a time
DUE_LATE_MS: Final = 500  # from a moment at which time changes a stream until controllers that do not have it look


class Streams:
    """Every stream by its name. Each is at most once in memory."""

    def __init__(
        self,
        store: Store,
        commits: CommitLoop,
        clock: Clock,
        freshness: Freshness,
        *,
        load_wait_ms: int = DEFAULT_LIMITS.load_wait_ms,
    ) -> None:
        self._store = store
        self._commits = commits
        self._clock = clock
        self._freshness = freshness
        self._rest_margin_ms = REST_MARGIN_MS if store.is_shared else 0
        self.cache: Cache[LoadedStream] = Cache(Kind.STREAM, self._load, commits, freshness, load_wait_ms)
        # The stream if it is in memory; never waits. For the hot path.
        self.find_loaded: Final[Callable[[str], LoadedStream | None]] = self.cache.find_loaded
        self._loading = Loading(store, clock.unserved)
        self.timers = Timers(clock, lambda name: self.cache.change_soon(name, _advance))
        self._holding: set[StreamCounts] = set()
        self._counts: dict[str, StreamCounts] = {}  # by name, kept while a stream is loaded again
        self.damaged: dict[str, float] = {}  # streams whose rows could not be read, and when that was tried last

    # -- finding -------------------------------------------------------------------------------------------------

    async def get(self, name: str, *, wait_ms: int | None = None, now: bool = False) -> LoadedStream:
        """The stream as it was a tenth of a second ago or later, or as it is `now`; loaded if necessary. The caller
        must not keep it across an `await`, nor change it.

        Raises UnknownStream, StoreUnavailable, and StreamLoading if loading takes longer than `wait_ms`, or by default
        longer than any call waits.
        """
        asked_at = asyncio.get_running_loop().time()
        loaded = await self.cache.get(name, wait_ms)  # which may have begun before this call
        if loaded.compared_at >= asked_at or self._freshness.is_fresh(loaded, NEVER_FRESH_S if now else None):
            return loaded
        try:
            await self._freshness.compare([loaded.subject])
        except StoreUnavailable:
            found = self.find_loaded(name)
            if now or found is None:  # it may have been discarded meanwhile
                raise
            return found  # as it was, which is true
        return await self.cache.get(name, wait_ms)

    async def names(self, after: str, limit: int) -> Sequence[str]:
        """The names of durable streams that follow `after`, in order."""
        return await self._store.read(stream_names, after, limit)

    async def standings(self, names: Sequence[str]) -> Mapping[str, str]:
        """How those of these streams stand that exist, as the store has it."""
        return await self._store.read(standings, names) if names else {}

    def record_held(self) -> None:
        """Logs each writer that has held time back for too long, once."""
        now = self._clock.now()
        for counts in list(self._holding):
            present = {key: held for key, held in counts.held.items() if held.holder is not None}
            if not present:
                self._holding.discard(counts)
            loaded = self.find_loaded(counts.name)
            for key, held in present.items():
                if loaded is None or held.logged:
                    continue
                cadence = loaded.standing.spans.cadence(key)
                if now - held.since < cadence.too_long_ms(loaded.stream.config.writer_timeout_ms):
                    continue
                held.logged = True
                holder = loaded.stream.held_by(key, now)
                log_event(
                    "time_held",
                    logging.WARNING,
                    stream=counts.name,
                    key=key,
                    writer=held.holder,
                    state=held.state,
                    held_ms=now - held.since,
                    time=None if holder is None else holder.time,
                    released_in_ms=None if holder is None else holder.released_in_ms,
                )

    def in_memory(self) -> list[LoadedStream]:
        """All loaded streams, in no order."""
        return self.cache.items()

    def counted(self, name: str) -> StreamCounts | None:
        """What this controller has counted of a stream, which need not be in memory any more."""
        return self._counts.get(name)

    def _counts_of(self, name: str) -> StreamCounts:
        found = self._counts.get(name)
        if found is None:
            found = self._counts[name] = StreamCounts(name, self._holding)
        return found

    def _forget_counts(self, name: str) -> None:
        found = self._counts.pop(name, None)
        if found is not None:
            self._holding.discard(found)

    async def stop(self) -> None:
        """Cancels all loading."""
        await self.cache.stop()
        await self._loading.stop()

    async def _load(self, name: str) -> LoadedStream | None:
        began = asyncio.get_running_loop().time()
        try:
            stored = await self._loading.load(name)
            if stored is None:
                return None
            with self._store.made_of_rows(stream=name):
                loaded = LoadedStream.loaded(stored, self.timers.watch, self._counts_of(name))
        except StoreCorrupt:
            self.damaged[name] = began
            raise
        self.damaged.pop(name, None)
        loaded.compared_at = began
        loaded.stream.rest_margin_ms = self._rest_margin_ms
        loaded.find_deadline()
        self.timers.watch(loaded)
        return loaded

    async def advance_due(self) -> None:
        """Does what time alone has brought about in streams that no controller has in memory. Those that cannot be read
        are set aside for a while: the status names them."""
        before, retried = self._clock.now() - DUE_LATE_MS, asyncio.get_running_loop().time() - DAMAGED_ASIDE_S
        due = await self._store.read(due_streams, before)
        while due:
            names = [name for _, name in due if self.damaged.get(name, retried) <= retried]
            await _each(lambda name: self.cache.change(name, _advance), names)
            due = await self._store.read(due_streams, before, due[-1])

    async def let_go(self) -> None:
        """Frees the memory of streams that nobody has called for a while, once the store has all of them. Those that
        are due soon stay, and those with marks that are too old soon."""
        before, soon = asyncio.get_running_loop().time() - KEPT_S, self._clock.now() + KEPT_DUE_MS
        for loaded in self.cache.items():
            is_due = loaded.deadline is not None and loaded.deadline <= soon
            if loaded.used_at > before or is_due or loaded.has_old_marks:  # nobody waits for so long without a call
                continue
            if loaded.settle() or loaded.journal:
                self.write_soon(loaded)
            elif not loaded.waits_to_write:
                self.cache.let_go(loaded)
        self.timers.drop_replaced()

    async def refresh(self) -> None:
        """Makes everything in memory as new as the store is now. Raises StoreUnavailable."""
        old = [each.subject for each in self.cache.items() if not self._freshness.is_fresh(each)]
        if old:
            await self._freshness.compare(old)

    def known_at(self, loaded: LoadedStream, moment: Moment | None = None) -> Moment:
        """When a stream was as it is in memory: now, which is a `moment`, as long as the store is there. A controller
        that does not know what others have stored since, or that nobody can reach a store through, must not take that
        for silence."""
        found = self._clock.moment() if moment is None else moment
        now, unserved = found.now, self._clock.unserved
        age_ms = self._freshness.age_s(loaded) * 1000  # without end for a stream that was created here just now
        if age_ms > KNOWN_MS:
            now = max(loaded.stream.clock, round(max(0.0, now - age_ms)))
        elif unserved.until is not None and unserved.is_away(now):
            now = max(loaded.stream.clock, unserved.until)
        else:
            return found
        return Moment(now, unserved.served(now))

    def store_counts(self) -> None:
        """Has written what was counted and not written yet, such as refusals that were too many for the journal."""
        for loaded in self.cache.items():
            if loaded.tally.totals != NOTHING_COUNTED:
                self.write_soon(loaded)

    def write_soon(self, loaded: LoadedStream) -> None:
        """Has what was prepared outside of a step written, such as entries of the journal: once, however often it is
        called until then."""

        def write(found: LoadedStream, locked: Locked) -> None:
            found.waits_to_write = False
            locked.change(found)

        def ended(_: object) -> None:
            loaded.waits_to_write = False

        if not loaded.waits_to_write:
            loaded.waits_to_write = True
            self.cache.change_soon(loaded.name, write).add_done_callback(ended)

    async def refresh_awaited(self) -> None:
        """Looks whether others have made marks for which somebody waits here."""
        awaited = [each.subject for each in self.cache.items() if each.is_awaited]
        if awaited:
            await self._freshness.compare(awaited)

    def settle(self) -> None:
        """Before an orderly end: has everything written, also what may otherwise be written later."""
        for loaded in self.cache.items():
            if loaded.settle():
                self.write_soon(loaded)

    async def check_again(self, loaded: LoadedStream, key: str, seq: int) -> None:
        """Call it if the store lacks a mark that memory knows: returns once memory knows that it was removed.

        Raises StoreCorrupt if it was not removed.
        """
        await self._commits.over(loaded.subject)
        if self._store.is_shared:
            loaded.discard()  # another controller may have removed it
        loaded = await self.get(loaded.name)
        chain = loaded.chains.get(key)
        if chain is not None and loaded.oldest_seqs[key] <= seq <= chain.last_seq:
            missing = missing_mark(loaded.name, key, seq)
            self._store.unreadable(missing)
            raise missing

    # -- changing ------------------------------------------------------------------------------------------------

    def alter(
        self, name: str, step: Callable[[LoadedStream, int], Result], act: AdminAction | None = None
    ) -> Awaitable[Result]:
        """Takes a step with a stream at a moment, and returns its result when all that it changed is durable. Journals
        `act`, or why the step was refused."""

        def take(loaded: LoadedStream, locked: Locked) -> Result:
            try:
                result = step(loaded, locked.now)
            except Refused as error:
                by, more = (None, {}) if act is None else (act.by, {"call": act.kind})
                if refuse(loaded, error, locked.now, by, **more):
                    locked.change(loaded)
                raise
            if act is not None:
                loaded.journal.act(act, locked.now)
            locked.change(loaded)
            return result

        return self.cache.change(name, take)

    def change(
        self, name: str, call: Callable[[Stream, int], Result], act: AdminAction | None = None
    ) -> Awaitable[Result]:
        """The same with the stream itself."""
        return self.alter(name, lambda loaded, now: call(loaded.stream, now), act)

    async def change_marks(
        self, name: str, call: Callable[[Stream, int], Sequence[Mark]], act: AdminAction | None = None
    ) -> MarksPage:
        """The same of a call that makes marks. Returns them as the stream is then."""

        def step(loaded: LoadedStream, now: int) -> MarksPage:
            marks = call(loaded.stream, now)
            return marks_page(marks, loaded.stream.graph, loaded.origin.identity)

        return await self.alter(name, step, act)

    async def journal(self, name: str, act: AdminAction) -> None:
        """Adds to the journal of a stream."""
        await self.alter(name, lambda loaded, now: loaded.journal.act(act, now))

    async def register(
        self,
        name: str,
        writer: str,
        keys: Collection[str] | None,
        by: str | None = None,
        registration: str | None = None,
    ) -> Registered:
        """Registers a writer, and returns when that is durable."""

        def step(loaded: LoadedStream, now: int) -> Registered:
            epochs = loaded.stream.epochs
            registered = loaded.stream.register(writer, keys, now, registration)
            if loaded.stream.epochs != epochs:  # else it repeats an earlier registration, which was journaled
                details = {"writer": writer, "epoch": registered.epoch, **_how_late(registered)}
                loaded.journal.record(Topic.REGISTRATIONS, "registered", now, details, by=by)
            return replace(registered, life=f"{loaded.origin.identity}-{registered.life}")

        return await self.alter(name, step)

    def journal_refusal(self, name: str, error: StrandlineError, by: str | None) -> None:
        """Journals a call that was refused before it reached the stream: an invalid note, or a call for a writer that
        the token does not allow. Does not load the stream for that."""
        loaded = self.find_loaded(name)
        if loaded is not None and isinstance(error, Refused) and refuse(loaded, error, self._clock.now(), by):
            self.write_soon(loaded)

    async def drop_segment(self, name: str, segment: str, by: str | None = None) -> None:
        """Removes a segment that the log does not have from an open stream."""
        act = AdminAction("segment_dropped", by, {"segment": segment})
        await self.alter(name, lambda loaded, now: loaded.drop_segment(segment, now), act)

    async def evaluate(self, name: str, key: str) -> tuple[Mark | None, Holder | None, SegmentGraph]:
        """Makes a mark now if possible; otherwise names the writer that holds time back. Returns when it is durable."""
        return await self.change(
            name, lambda stream, now: (stream.evaluate(key, now), stream.held_by(key, now), stream.graph)
        )

    async def create(
        self,
        name: str,
        segments: int | Sequence[NewSegment] | None,
        settings: Mapping[str, Any],
        by: str | None = None,
    ) -> bool:
        """Creates a stream; False if it exists with the same original segments and time domain.

        `segments` is None for an open stream. Raises StreamExists if they differ, InvalidConfig, InvalidScale.
        """
        config = StreamConfig(**settings)
        _graph(segments, 0)  # raises for segments that cannot be

        def step(found: LoadedStream | None, epochs: int, locked: Locked) -> tuple[LoadedStream, bool]:
            graph = _graph(segments, locked.now)
            ranges = None if graph.open else _ranges(graph)
            if found is not None:
                differs = "segments" if found.origin.segments != ranges else "time domain"
                if differs == "segments" or found.stream.config.time_domain is not config.time_domain:
                    exists = StreamExists(stream=name, differs=differs)
                    if refuse(found, exists, locked.now, by, call="created"):
                        locked.change(found)
                    raise exists
                return found, False
            origin = StreamOrigin(identity=secrets.token_hex(8), created_at=locked.now, segments=ranges)
            stream = Stream(name, config, graph, now=locked.now, unserved=self._clock.unserved)
            stream.epochs, stream.rest_margin_ms = epochs, self._rest_margin_ms
            watch, counts = self.timers.watch, self._counts_of(name)
            loaded = LoadedStream(stream, origin, watch=watch, counts=counts)
            loaded.journal.act(AdminAction("created", by, settings_by_name(config)), locked.now)
            locked.change(loaded)
            return loaded, True

        return await self.cache.create(name, step)

    async def delete(self, name: str, by: str | None = None) -> None:
        """Deletes a stream with everything about it, including its journal, also if its rows cannot be read."""
        await self.cache.delete(name)
        self._forget_counts(name)
        log_event("stream_deleted", stream=name, by=by)


def refuse(loaded: LoadedStream, error: Refused, now: int, by: str | None, **more: str) -> bool:
    """Counts, journals and logs a call that was refused; `more` has the `writer` of a note. Returns whether that is to
    be written now."""
    loaded.tally.refusals[error.code] += 1
    is_new = isinstance(error, TimeTooFarAhead) and "writer" in more and loaded.refuse_ahead(more["writer"], error)
    return is_new | loaded.journal.refuse(error, now, by=by, **more)


def _advance(loaded: LoadedStream, locked: Locked) -> None:
    """Does what time alone has brought about in a stream. Whoever has it in memory may have done so before."""
    loaded.stream.advance(locked.now)
    loaded.stream.next_wake(exact_before=locked.now + EXACT_MS)  # looks up the deadlines that are due until then
    if loaded.stream.is_changed or loaded.moves_wake:
        locked.change(loaded)


async def _each(work: Callable[[str], Awaitable[None]], names: Sequence[str]) -> None:
    """Does the same for many streams, some at a time: some are loaded while others are written. Where it fails, the
    stream was deleted meanwhile, cannot be read, or the next look tries again."""
    left = iter(names)

    async def some() -> None:
        for name in left:
            with suppress(StrandlineError):
                await work(name)

    async with asyncio.TaskGroup() as together:
        for _ in range(WORKED_TOGETHER):
            together.create_task(some())


def _graph(segments: int | Sequence[NewSegment] | None, now: int) -> SegmentGraph:
    match segments:
        case None:
            return SegmentGraph(open=True)
        case int():
            return SegmentGraph.equal_shares(segments, now)
        case _:
            return SegmentGraph.of_ranges(segments, now)


def _ranges(graph: SegmentGraph) -> tuple[tuple[str, float, float], ...]:
    """The original segments as ranges: 2 segments are the same as two explicit halves."""
    return tuple(
        sorted((each.id, each.low, each.high) for each in graph if each.low is not None and each.high is not None)
    )


def _how_late(registered: Registered) -> dict[str, object]:
    """The key in which time has passed furthest beyond what a writer noted before it came back, with both times."""
    passed = [
        (floor - time, {"key": key, "time": time, "mark_time": floor})
        for key, time in registered.noted.items()
        if (floor := registered.floors.get(key)) is not None and floor > time
    ]
    return max(passed, key=lambda each: each[0])[1] if passed else {}
