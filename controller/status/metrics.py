"""What a scrape of the metrics shows: the status of all streams, and what this controller counted.

A bounded number of pairs of stream and key stand for themselves, the first by name: a choice that changes with each
scrape makes series that begin and end. The others are one, `_other`, with the greatest of their lags, so that alerts
see them too. No stream is loaded for this: the store has the status of each. Groups are asked for their windows. If the
store is slow or away, a scrape shows what is in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from controller.commit.group_commit import Committer
from controller.groups.service import Groups
from controller.records.counts import OTHER, StreamCounts
from controller.settings import METRICS_KEYS
from controller.slices import Slices
from controller.status.condition import greatest
from controller.status.status_reader import CountedStatus, StatusReader
from controller.streams.registry import Streams
from strandline.core.note import DEFAULT_KEY
from strandline.core.order import SegmentRef
from strandline.errors import StoreUnavailable, StrandlineError, UnknownGroup
from strandline.wire.groups import GroupWindow, StreamWindow
from strandline.wire.status import KeyStatus, StreamStatus

METRICS_GROUPS: Final = 100  # the first by name

METRICS_KEYS_OF_STREAM: Final = 16  # keys of one stream with labels of their own
METRICS_PENDING_SEGMENTS: Final = 4_096  # of a group's stream; with more, its pending offsets are left out
METRICS_SEGMENT_LAGS: Final = 20  # segments of a group with a lag of their own, those furthest behind
METRICS_STORE_WAIT_MS: Final = 1_000  # how long a scrape waits for the store
METRICS_FRESH_MS: Final = 500  # scrapes closer together get the same answer

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Holding:
    """The writer that holds time back now, for how long already, and for how long at most."""

    writer: str
    state: str
    held_ms: int
    released_in_ms: int | None


@dataclass(slots=True)
class KeyMetrics:
    """One key of a stream, or several summed up: then lags and ages are the greatest, and nobody is named."""

    watermark_lag_ms: int | None = None
    event_time_lag_ms: int | None = None
    mark_age_ms: int | None = None
    marks: int = 0
    incomplete_marks: int = 0
    writers: Counter[str] = field(default_factory=Counter)  # by state
    held_ms: Counter[str] = field(default_factory=Counter)  # by writer
    holding: Holding | None = None
    states: dict[str, int] = field(default_factory=dict)  # for how long, 0 if that is not known

    @classmethod
    def of(cls, key: KeyStatus, stream: StreamStatus, counts: StreamCounts) -> KeyMetrics:
        now, marked_at, holder, held = stream.seen_at, key.marked_at, key.held_by, counts.held.get(key.key)
        holding = None
        if holder is not None and key.held_since is not None:
            holding = Holding(holder.writer or "", holder.state, now - key.held_since, holder.released_in_ms)
        return cls(
            watermark_lag_ms=key.lag_ms,
            event_time_lag_ms=key.event_time_lag_ms,
            mark_age_ms=None if stream.sealed or marked_at is None else max(0, now - marked_at),
            marks=key.mark_seq,
            incomplete_marks=counts.incomplete_marks.get(key.key, 0),
            writers=Counter(key.writers),
            held_ms=Counter() if held is None else Counter(held.counted(now)),
            holding=holding,
            states={key.state.value: 0 if key.state_since is None else max(0, now - key.state_since)},
        )

    def absorb(self, other: KeyMetrics) -> None:
        self.watermark_lag_ms = greatest(self.watermark_lag_ms, other.watermark_lag_ms)
        self.event_time_lag_ms = greatest(self.event_time_lag_ms, other.event_time_lag_ms)
        self.mark_age_ms = greatest(self.mark_age_ms, other.mark_age_ms)
        self.marks += other.marks
        self.incomplete_marks += other.incomplete_marks
        self.writers.update(other.writers)
        self.held_ms[OTHER] += other.held_ms.total()
        for state, lasted_ms in other.states.items():
            self.states[state] = max(lasted_ms, self.states.get(state, 0))
        found = other.holding
        if found is not None and (self.holding is None or found.held_ms > self.holding.held_ms):
            self.holding = Holding(OTHER, found.state, found.held_ms, found.released_in_ms)


@dataclass(slots=True)
class StreamMetrics:
    """A stream, or several summed up."""

    notes: int = 0
    late_notes: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    idle_ms: int | None = None
    keys: dict[str, KeyMetrics] = field(default_factory=dict)

    @classmethod
    def of(cls, found: CountedStatus) -> StreamMetrics:
        stream, counts = found
        return cls(
            notes=counts.notes,
            late_notes=counts.late_notes,
            refusals=Counter(counts.refusals),
            idle_ms=None if stream.last_heard_at is None else max(0, stream.seen_at - stream.last_heard_at),
            keys={name: KeyMetrics.of(key, stream, counts) for name, key in stream.keys.items()},
        )

    def absorb(self, other: StreamMetrics) -> None:
        self.notes += other.notes
        self.late_notes += other.late_notes
        self.refusals.update(other.refusals)
        self.idle_ms = greatest(self.idle_ms, other.idle_ms)
        together = self.keys.setdefault(OTHER, KeyMetrics())
        for measures in other.keys.values():
            together.absorb(measures)


@dataclass(slots=True)
class GroupMetrics:
    """A reader group, its window, by stream how many offsets below the newest mark it has not read, and how far it is
    behind the clock in the segments that are furthest behind."""

    window: GroupWindow
    pending: dict[str, int]
    segment_lags: dict[SegmentRef, int]


@dataclass(slots=True)
class Snapshot:
    """Everything that one scrape shows, except the plain counts."""

    streams: dict[str, StreamMetrics] = field(default_factory=dict)
    groups: dict[str, GroupMetrics | None] = field(default_factory=dict)  # None for one that cannot be read
    in_memory: int = 0
    summed_up: int = 0
    complete: bool = False


class Metrics:
    """Takes snapshots of what the other services have."""

    def __init__(self, streams: Streams, groups: Groups, status: StatusReader, committer: Committer) -> None:
        self.keys = METRICS_KEYS  # how many pairs of a stream and a key stand for themselves; the settings may say it
        self._streams = streams
        self._groups = groups
        self._status = status
        self._committer = committer
        self._taking: asyncio.Task[Snapshot] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._taken: tuple[float, Snapshot] | None = None
        self._measured: dict[str, GroupMetrics | None] = {}  # groups, as far as the store was asked

    @property
    def waiting_calls(self) -> int:
        return self._committer.waiting

    @property
    def waiting_calls_limit(self) -> int:
        return self._committer.limit

    async def take(self) -> Snapshot:
        """A snapshot; who asks while one is being taken, or right after, gets the same."""
        now = asyncio.get_running_loop().time()
        if self._taken is not None and (now - self._taken[0]) * 1000 < METRICS_FRESH_MS:
            return self._taken[1]
        if self._taking is None:
            self._taking = asyncio.create_task(self._take(), name="measures")
            self._taking.add_done_callback(self._over)
        return await asyncio.shield(self._taking)

    def forget(self) -> None:
        """The next one is taken again, however soon it is asked for."""
        self._taken = None

    def stop(self) -> None:
        for task in (self._taking, self._asking):
            if task is not None:
                task.cancel()

    def _over(self, _: object) -> None:
        self._taking = None

    async def _take(self) -> Snapshot:
        if self._asking is None or self._asking.done():
            self._measured = {}
            self._asking = asyncio.create_task(self._ask_store(), name="measures-store")
        stored = asyncio.create_task(self._status.counted(stored=True))
        await asyncio.wait([self._asking, stored], timeout=METRICS_STORE_WAIT_MS / 1000)
        complete = stored.done() and stored.exception() is None
        if not complete:  # the store is slow or away
            stored.cancel()
        found = stored.result() if complete else await self._status.counted(stored=False)
        snapshot = await self._snapshot(found, self._status.slices())
        snapshot.complete = complete
        snapshot.groups = dict(self._measured) if self._asking.done() else {}
        self._taken = (asyncio.get_running_loop().time(), snapshot)
        return snapshot

    async def _snapshot(self, found: Mapping[str, CountedStatus], slices: Slices) -> Snapshot:
        snapshot = Snapshot(in_memory=len(self._streams.in_memory()))
        room = self.keys
        for name, counted in found.items():
            measures = StreamMetrics.of(counted)
            keys = min(len(measures.keys), METRICS_KEYS_OF_STREAM + 1)
            if room < keys:
                snapshot.summed_up += 1
                snapshot.streams.setdefault(OTHER, StreamMetrics()).absorb(measures)
            else:
                room -= keys
                _sum_up_keys(measures)
                snapshot.streams[name] = measures
            await slices.turn()
        return snapshot

    # -- what the store has to tell ------------------------------------------------------------------------------

    async def _ask_store(self) -> None:
        """Asks groups for their windows."""
        try:
            for name in await self._groups.streams_by_name("", METRICS_GROUPS):
                try:
                    self._measured[name] = await self._group(name)
                except (UnknownGroup, StoreUnavailable):
                    continue  # it is gone by now, or the store is away
                except StrandlineError:
                    self._measured[name] = None
        except StrandlineError:
            return  # the store is away: counted where it failed, and the next scrape tries again
        except Exception:
            log.exception("reader groups could not be measured")

    async def _group(self, name: str) -> GroupMetrics:
        window = await self._status.window_of_group(name)
        pending = {stream: self._pending(stream, each) for stream, each in window.streams.items()}
        counts = {stream: count for stream, count in pending.items() if count is not None}
        return GroupMetrics(window, counts, await self._groups.segment_lags(name, METRICS_SEGMENT_LAGS))

    def _pending(self, name: str, window: StreamWindow) -> int | None:
        loaded = self._streams.find_loaded(name)
        if loaded is None or len(window.position) > METRICS_PENDING_SEGMENTS:
            return None
        chain = loaded.chains.get(DEFAULT_KEY)
        if chain is None or chain.last is None or len(chain.last.cut.offsets) > METRICS_PENDING_SEGMENTS:
            return None
        position = loaded.stream.graph.cut(dict(window.position))
        return sum(max(0, offset - position.offset(segment)) for segment, offset in chain.last.cut.items())


def _sum_up_keys(measures: StreamMetrics) -> None:
    """Leaves a stream so many keys as may stand for themselves, and the rest as one."""
    if len(measures.keys) <= METRICS_KEYS_OF_STREAM:
        return
    others = KeyMetrics()
    for key in list(islice(measures.keys, METRICS_KEYS_OF_STREAM, None)):
        others.absorb(measures.keys.pop(key))
    measures.keys[OTHER] = others
