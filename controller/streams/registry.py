"""All streams: creates, finds, lists and deletes them; loads each from the store when it is first needed."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from controller.clock import Clock
from controller.cluster.records import Kind
from controller.commit.deletion import Deletion
from controller.commit.group_commit import Committer
from controller.commit.store import Store
from controller.limits import DEFAULT_LIMITS
from controller.records.counts import StreamCounts
from controller.records.journal import REGISTRATIONS, AdminAction, record_refused
from controller.records.operator_log import log_event
from controller.storage.load import deleted_epochs, missing_mark, stream_names
from controller.storage.paged_reads import STEP_ITEMS
from controller.storage.rows import StreamOrigin
from controller.storage.tenure import Tenure, Tenures
from controller.streams.cache import LoadingCache, StillLoading
from controller.streams.loaded_stream import LoadedStream
from controller.streams.loading import Loading
from controller.streams.timers import Timers
from strandline.core.aggregate import Holder
from strandline.core.changes import Registered
from strandline.core.config import StreamConfig
from strandline.core.mark import Mark
from strandline.core.segment import NewSegment, SegmentGraph
from strandline.core.served_time import Moment
from strandline.core.stream import Stream
from strandline.errors import Refused, StoreCorrupt, StreamExists, StreamLoading, UnknownStream
from strandline.names import check_name
from strandline.wire.streams import settings_by_name


class Streams:
    """Every stream by its name. Each is at most once in memory."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        tenures: Tenures,
        *,
        load_wait_ms: int = DEFAULT_LIMITS.load_wait_ms,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._tenures = tenures
        self._cache: LoadingCache[LoadedStream] = LoadingCache(Kind.STREAM, tenures, self._load)
        self._loading = Loading(store)
        self.load_wait_ms = load_wait_ms
        self.timers = Timers(clock, committer.keep, tenures.serves)
        self._holding: set[StreamCounts] = set()
        self._counts: dict[str, tuple[Tenure, StreamCounts]] = {}  # by name, kept while a stream is loaded again
        self.aging: set[str] = set()  # loaded streams with a `mark_retention_ms`

    # -- finding -------------------------------------------------------------------------------------------------

    def find_loaded(self, name: str) -> LoadedStream | None:
        """The stream if it is in memory; never waits. For the hot path."""
        return self._cache.find_loaded(name)

    async def get(self, name: str, *, wait_ms: int | None = None) -> LoadedStream:
        """The stream, loaded if necessary. The caller must not keep it across an `await`.

        Raises UnknownStream, StoreUnavailable, and StreamLoading if loading takes longer than `wait_ms`, or by default
        longer than any call waits.
        """
        loaded = self.find_loaded(name) or await self._find(name, wait_ms)
        if loaded is None:
            raise UnknownStream(stream=name)
        return loaded

    async def in_turn(self, name: str) -> LoadedStream:
        """The stream, when it is the turn of calls: one may be applied to it, and join, without waiting in between.

        Raises what `get` raises, and Overloaded.
        """
        self._committer.admit()
        return await self._committer.in_turn(name, self.find_loaded, self.get)

    def find_in_turn(self, name: str) -> LoadedStream | None:
        """The same without waiting; None if there is something to wait for."""
        if not self._committer.is_turn:
            return None
        self._committer.admit()
        return self.find_loaded(name)

    async def names(self, after: str, limit: int) -> Sequence[str]:
        """The names of durable streams that follow `after`, in order."""
        return await self._store.read(stream_names, after, limit)

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
                if now - held.since < counts.too_long_ms(key, loaded.stream.config.writer_timeout_ms):
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
        return self._cache.items()

    def _counts_of(self, name: str, tenure: Tenure) -> StreamCounts:
        """The counts of a stream under a tenure: a later one goes on from what the store has."""
        found = self._counts.get(name)
        if found is not None and found[0] is tenure:
            return found[1]
        self._forget_counts(name)
        counts = StreamCounts(name, self._holding)
        self._counts[name] = tenure, counts
        return counts

    def _forget_counts(self, name: str) -> None:
        found = self._counts.pop(name, None)
        if found is not None:
            self._holding.discard(found[1])

    async def _find(self, name: str, wait_ms: int | None = None) -> LoadedStream | None:
        check_name("stream", name)
        try:
            return await self._cache.find(name, (self.load_wait_ms if wait_ms is None else wait_ms) / 1000)
        except StillLoading:
            raise StreamLoading(stream=name) from None

    def hand_over(self, tenures: Collection[Tenure]) -> None:
        """Makes the next commit write everything under tenures that are being handed over, and wakes everyone who
        waits for marks."""
        for loaded in self._cache.under(tenures):
            self._settle(loaded)
            loaded.release_readers()

    def forget(self, tenures: Collection[Tenure]) -> None:
        """Discards all streams under tenures that are about to end."""
        for loaded in self._cache.forget(tenures):
            loaded.discard()
            self.aging.discard(loaded.name)
            self._forget_counts(loaded.name)

    async def stop(self) -> None:
        """Cancels all loading."""
        await self._cache.stop()
        await self._loading.stop()

    async def _load(self, name: str, tenure: Tenure) -> LoadedStream | None:
        began = tenure.moment(self._clock.now())
        stored = await self._loading.load(name, tenure.unserved)
        if stored is None:
            return None
        tenure.check_latest(Kind.STREAM, name, stored.fence)
        with self._store.made_of_rows(stream=name):
            loaded = LoadedStream.loaded(stored, tenure, self._watch, self._counts_of(name, tenure))
        moment = tenure.moment(self._clock.now())
        if len(loaded.stream.writers) <= STEP_ITEMS:
            changed = self._bring_up(loaded, stored.fence, began, moment)
        else:
            changed = await self._store.aside(self._bring_up, loaded, stored.fence, began, moment)
        if not loaded.discarded and self._tenures.serves(tenure):
            if changed:
                self._committer.keep(loaded)
            self._watch(loaded)
        return loaded

    def _bring_up(self, loaded: LoadedStream, fence: int, began: Moment, moment: Moment) -> bool:
        """Advances a stream that was just loaded to the present; returns whether that changed it.

        `fence` is the fence of the tenure that wrote it last. No writer could be heard since `began`.
        """
        stream = loaded.stream
        stream.clock = max(stream.clock, loaded.tenure.clock_floor)
        restored_at = loaded.tenure.restored_at(fence)
        if restored_at is not None:
            loaded.start_over(restored_at)
        loaded.resume_holders(moment.now)
        for writer in stream.writers.values():
            writer.forgive(moment.served - began.served, moment.served)
        return bool(stream.advance(moment.now)) or restored_at is not None

    def _watch(self, loaded: LoadedStream) -> None:
        """Updates the timers of a stream, and the set of streams with aging marks."""
        self.timers.watch(loaded)
        if loaded.stream.config.mark_retention_ms is not None:
            self.aging.add(loaded.name)

    def settle(self) -> None:
        """Before an orderly end: makes the next commit write everything, also what may otherwise be written later."""
        for loaded in self._cache.items():
            self._settle(loaded)

    def _settle(self, loaded: LoadedStream) -> None:
        if loaded.settle():
            self._committer.keep(loaded)

    async def check_again(self, loaded: LoadedStream, key: str, seq: int) -> None:
        """Call it if the store lacks a mark that memory knows: returns once memory knows that it was removed.

        Raises StoreCorrupt if it was not removed.
        """
        pending = self._committer.pending(loaded)
        if pending is not None:
            await pending
        loaded = await self.get(loaded.name)
        chain = loaded.chains.get(key)
        if chain is not None and loaded.oldest_seqs[key] <= seq <= chain.last_seq:
            missing = missing_mark(loaded.name, key, seq)
            self._store.unreadable(missing)
            raise missing

    # -- changing ------------------------------------------------------------------------------------------------

    async def change(
        self, name: str, call: Callable[[Stream, int], Any], act: AdminAction | None = None
    ) -> Any:  # what the call returns
        """Applies a call to a stream and returns when it is durable. Journals `act` if the call succeeds."""
        loaded = await self.in_turn(name)
        with self._journalled(loaded, act) as now:
            result = call(loaded.stream, now)
        await self._committer.join(loaded)
        return result

    async def register(
        self,
        name: str,
        writer: str,
        keys: Collection[str] | None,
        by: str | None = None,
        registration: str | None = None,
    ) -> Registered:
        """Registers a writer, and returns when that is durable."""
        loaded = await self.in_turn(name)
        with self._journalled(loaded, None) as now:
            epochs = loaded.stream.epochs
            registered = loaded.stream.register(writer, keys, now, registration)
        if loaded.stream.epochs != epochs:  # else it repeats an earlier registration, which was journaled
            details = {"writer": writer, "epoch": registered.epoch, **_how_late(registered)}
            loaded.journal.tell(REGISTRATIONS, "registered", now, details, by=by)
        await self._committer.join(loaded)
        return replace(registered, life=f"{loaded.origin.identity}-{registered.life}")

    @contextmanager
    def _journalled(self, loaded: LoadedStream, act: AdminAction | None) -> Iterator[int]:
        """Journals what was done, or why it was refused."""
        now = self._clock.now()
        try:
            yield now
        except Refused as error:
            if act is None:
                self.journal_refusal(loaded, error, now, None)
            else:
                self.journal_refusal(loaded, error, now, act.by, call=act.kind)
            raise
        if act is not None:
            loaded.journal.act(act, now)

    def journal_refusal(self, loaded: LoadedStream, error: Refused, now: int, by: str | None, **more: str) -> None:
        """Counts, journals and logs a call that was refused; `more` has the `writer` of a note."""
        loaded.counts.refuse(error.code, more.get("writer"))
        if loaded.journal.refuse(error, now, by=by, **more):
            self._committer.keep(loaded)
            record_refused("stream", loaded.name, error, **more)

    async def drop_segment(self, name: str, segment: str, by: str | None = None) -> None:
        """Removes a segment that the log does not have from an open stream."""
        loaded = await self.in_turn(name)
        with self._journalled(loaded, AdminAction("segment_dropped", by, {"segment": segment})) as now:
            loaded.drop_segment(segment, now)
        await self._committer.join(loaded)

    async def evaluate(self, name: str, key: str) -> tuple[Mark | None, Holder | None, SegmentGraph]:
        """Makes a mark now if possible; otherwise names the writer that holds time back. Returns when it is durable."""
        loaded = await self.in_turn(name)
        now = self._clock.now()
        mark = loaded.stream.evaluate(key, now)
        holder = loaded.stream.held_by(key, now)
        graph = loaded.stream.graph
        await self._committer.join(loaded)
        return mark, holder, graph

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
        check_name("stream", name)
        now = self._tenures.of(Kind.STREAM, name).moment(self._clock.now()).now
        config = StreamConfig(**settings)
        graph = _graph(segments, now)
        ranges = None if graph.open else _ranges(graph)
        origin = StreamOrigin(identity=secrets.token_hex(8), created_at=now, segments=ranges)
        deleted = partial(self._store.read, deleted_epochs, Kind.STREAM, name)
        tenure, found, epochs = await self._cache.find_before_creation(name, self._find, deleted)
        self._committer.admit()
        if found is not None:
            differs = "segments" if found.origin.segments != origin.segments else "time domain"
            if differs == "segments" or found.stream.config.time_domain is not config.time_domain:
                with self._journalled(found, AdminAction("created", by)):
                    raise StreamExists(stream=name, differs=differs)
            await self._committer.join(found)
            return False
        stream = Stream(name, config, graph, now=max(now, tenure.clock_floor), unserved=tenure.unserved)
        stream.epochs = epochs
        counts = self._counts_of(name, tenure)
        loaded = LoadedStream(stream, origin, tenure, stored_fence=None, watch=self._watch, counts=counts)
        loaded.journal.act(AdminAction("created", by, settings_by_name(config)), now)
        self._cache.put(name, loaded)
        await self._committer.join(loaded)
        return True

    async def delete(self, name: str, by: str | None = None) -> None:
        """Deletes a stream with everything about it, including its journal, also if its rows cannot be read."""
        try:
            loaded: LoadedStream | Deletion = await self.in_turn(name)
        except StoreCorrupt:
            tenure = self._tenures.of(Kind.STREAM, name)
            loaded = Deletion(Kind.STREAM, name, tenure, tenure.moment(self._clock.now()).now)
        self._cache.deletions += 1
        ended = self._committer.join(loaded)
        if isinstance(loaded, LoadedStream):
            loaded.ending = ended
        await ended
        self._forget_counts(name)
        log_event("stream_deleted", stream=name, by=by)


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
