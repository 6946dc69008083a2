"""What a scrape of the metrics shows of streams and groups: the status of all, and what this controller counted.

A bounded number of pairs of stream and key stand for themselves, the first by name: a choice that changes with each
scrape makes series that begin and end. The others are one, `_other`, with the greatest of their lags, so that alerts
see them too. No stream is loaded for this: the store has the status of each. Groups are asked for their windows. If the
store is slow, a scrape shows what is in memory; if it is away, the counters of that alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from prometheus_client import Metric
from prometheus_client.registry import Collector

from controller.commit.health import Distribution, StoreHealth
from controller.commit.loop import CommitLoop
from controller.groups.service import Groups
from controller.operators import metric_families as metric
from controller.operators.metric_families import FAMILIES, MetricFamily
from controller.operators.overview import StreamsFound
from controller.operators.status_reader import StatusReader
from controller.settings import METRICS_KEYS
from controller.streams.counts import OTHER, StreamCounts
from controller.streams.registry import Streams
from strandline.core.note import DEFAULT_KEY
from strandline.core.writer import WriterState
from strandline.errors import StoreUnavailable, StrandlineError, UnknownGroup
from strandline.wire.groups import StreamWindow
from strandline.wire.status import KeyStatus, StreamStatus

METRICS_GROUPS: Final = 100  # the first by name

METRICS_KEYS_OF_STREAM: Final = 16  # keys of one stream with labels of their own
METRICS_PENDING_SEGMENTS: Final = 4_096  # of a group's stream; with more, its pending offsets are left out
METRICS_SEGMENT_LAGS: Final = 20  # segments of a group with a lag of their own, those furthest behind
METRICS_STORE_WAIT_MS: Final = 1_000  # how long a scrape waits for the store

_STREAMS_AT_ONCE: Final = 50  # that are looked at before other tasks run

NOTHING_COUNTED: Final = StreamCounts()  # here, of a stream that was never in memory


class Counts:
    """The counts of the process."""

    def __init__(self) -> None:
        self.responses: Counter[int] = Counter()  # by status
        self.problems: Counter[str] = Counter()  # calls that were answered with a problem, by code


class Samples(Collector):
    """The samples of one scrape."""

    def __init__(self, shared: Samples | None = None) -> None:
        """`shared` are samples of other families, which several scrapes have."""
        known = {} if shared is None else shared._found
        self._found: dict[MetricFamily, dict[tuple[str, ...], float]] = {
            each: known.get(each) or {} for each in FAMILIES
        }
        self._distributions: dict[MetricFamily, Distribution] = {}

    def add(self, family: MetricFamily, value: float | None, *labels: str) -> None:
        """Adds a value, unless it is None. Of values with the same labels, the sum or the greatest counts."""
        if value is not None:
            found = self._found[family]
            before = found.get(labels)
            found[labels] = value if before is None else before + value if family.adds_up else max(before, value)

    def add_ms(self, family: MetricFamily, value: int | None, *labels: str) -> None:
        """Adds milliseconds, as seconds."""
        self.add(family, None if value is None else value / 1000, *labels)

    def distribute(self, family: MetricFamily, distribution: Distribution) -> None:
        self._distributions[family] = distribution

    def collect(self) -> Iterator[Metric]:
        for family, found in self._found.items():
            distribution = self._distributions.get(family)
            yield family.of_samples(found) if distribution is None else family.of_distribution(distribution)


class Metrics:
    """Takes samples of what the other services have."""

    def __init__(
        self, streams: Streams, groups: Groups, status: StatusReader, commits: CommitLoop, health: StoreHealth
    ) -> None:
        self.keys = METRICS_KEYS  # how many pairs of a stream and a key stand for themselves; the settings may say it
        self._streams = streams
        self._groups = groups
        self._status = status
        self._commits = commits
        self._health = health

    @property
    def waiting_calls(self) -> int:
        return self._commits.waiting

    @property
    def waiting_calls_limit(self) -> int:
        return self._commits.limit

    async def take(self) -> Samples:
        """The samples of all streams and groups, as far as the store answers in time. Scrapes share them."""
        return await self._status.memo.get("metrics", self._take)

    async def _take(self) -> Samples:
        samples = Samples()
        (found, complete), _ = await asyncio.gather(self._all_streams(), self._take_groups(samples))
        await self._take_streams(found.streams, samples)
        samples.add(metric.COMPLETE, complete)
        return samples

    async def _all_streams(self) -> tuple[StreamsFound, bool]:
        """All streams, or those in memory if the store is slow or away, and whether they are all."""
        try:
            async with asyncio.timeout(METRICS_STORE_WAIT_MS / 1000):  # what is waited for goes on, for the next scrape
                found = await self._status.all_streams()
        except (TimeoutError, StrandlineError):  # the store is slow or away, or has a name that is none
            return await self._status.all_streams(stored=False), False
        return found, StoreUnavailable.code not in found.unread.values()

    async def _take_streams(self, streams: Iterable[StreamStatus], samples: Samples) -> None:
        room, summed_up = self.keys, 0
        for number, status in enumerate(streams, 1):
            counts = self._streams.counted(status.stream) or NOTHING_COUNTED
            keys = min(len(status.keys), METRICS_KEYS_OF_STREAM + 1)
            is_named = keys <= room
            if is_named:
                room -= keys
            else:
                summed_up += 1
            _add_stream(status, counts, samples, is_named=is_named, is_known=self._health.up)
            if number % _STREAMS_AT_ONCE == 0:
                await asyncio.sleep(0)
        samples.add(metric.STREAMS, len(self._streams.in_memory()))
        samples.add(metric.STREAMS_SUMMED, summed_up)

    # -- groups --------------------------------------------------------------------------------------------------

    async def _take_groups(self, samples: Samples) -> None:
        with suppress(TimeoutError, StrandlineError):  # the next scrape tries again
            async with asyncio.timeout(METRICS_STORE_WAIT_MS / 1000):
                for name in await self._groups.streams_by_name("", METRICS_GROUPS):
                    try:
                        await self._take_group(name, samples)
                    except UnknownGroup:
                        continue  # it is gone by now
                    except StoreUnavailable:
                        raise
                    except StrandlineError:
                        samples.add(metric.GROUP_READABLE, 0, name)

    async def _take_group(self, name: str, samples: Samples) -> None:
        group = await self._status.window_of_group(name)
        segment_lags = await self._groups.segment_lags(name, METRICS_SEGMENT_LAGS)
        samples.add(metric.GROUP_READABLE, 1, name)
        samples.add_ms(metric.GROUP_LAG, group.lag_ms, name)
        samples.add(metric.GROUP_BACKLOG, group.backlog, name)
        for stream, window in group.streams.items():
            samples.add_ms(metric.GROUP_STREAM_LAG, window.lag_ms, name, stream)
            samples.add_ms(metric.GROUP_BEHIND, window.behind_ms, name, stream)
            samples.add(metric.GROUP_PENDING, self._pending(stream, window), name, stream)
        for (stream, segment), lag_ms in segment_lags.items():
            samples.add_ms(metric.GROUP_SEGMENT_LAG, lag_ms, name, stream, segment)

    def _pending(self, name: str, window: StreamWindow) -> int | None:
        loaded = self._streams.find_loaded(name)
        if loaded is None or len(window.position) > METRICS_PENDING_SEGMENTS:
            return None
        chain = loaded.chains.get(DEFAULT_KEY)
        if chain is None or chain.last is None or len(chain.last.cut.offsets) > METRICS_PENDING_SEGMENTS:
            return None
        position = loaded.stream.graph.cut(dict(window.position))
        return sum(max(0, offset - position.offset(segment)) for segment, offset in chain.last.cut.items())


def _add_stream(
    stream: StreamStatus, counts: StreamCounts, samples: Samples, *, is_named: bool, is_known: bool
) -> None:
    """Counters, and gauges if what the stream is in `is_known`: not while the store is away."""
    name, now = stream.stream if is_named else OTHER, stream.seen_at
    samples.add(metric.NOTES, counts.totals.notes, name)
    samples.add(metric.LATE_NOTES, counts.totals.late_notes, name)
    if is_known and stream.last_heard_at is not None:
        samples.add_ms(metric.IDLE, max(0, now - stream.last_heard_at), name)
    for code, count in counts.totals.refusals.items():
        samples.add(metric.REFUSALS, count, name, code)
    for place, key in enumerate(stream.keys.values()):
        is_named_key = is_named and place < METRICS_KEYS_OF_STREAM
        labels = name, key.key if is_named_key else OTHER
        _count_key(key, stream, counts, samples, labels)
        if is_known:
            _add_key(key, stream, samples, labels)


def _count_key(
    key: KeyStatus, stream: StreamStatus, counts: StreamCounts, samples: Samples, labels: tuple[str, str]
) -> None:
    held = counts.held.get(key.key)
    samples.add(metric.MARKS, key.mark_seq, *labels)
    samples.add(metric.INCOMPLETE, counts.incomplete_marks.get(key.key, 0), *labels)
    for writer, held_ms in ({} if held is None else held.counted(stream.seen_at)).items():
        if held_ms or writer == OTHER:
            samples.add_ms(metric.HELD, held_ms, *labels, writer if labels[1] != OTHER else OTHER)


def _add_key(key: KeyStatus, stream: StreamStatus, samples: Samples, labels: tuple[str, str]) -> None:
    now, holder = stream.seen_at, key.held_by
    samples.add_ms(metric.WATERMARK_LAG, key.lag_ms, *labels)
    samples.add_ms(metric.EVENT_TIME_LAG, key.event_time_lag_ms, *labels)
    if key.marked_at is not None and not stream.sealed:
        samples.add_ms(metric.MARK_AGE, max(0, now - key.marked_at), *labels)
    lasted_ms = 0 if key.state_since is None else max(0, now - key.state_since)
    samples.add_ms(metric.STATE, lasted_ms, *labels, key.state.value)
    for each in key.ahead:
        writer, refused = each.writer if labels[1] != OTHER else OTHER, "yes" if each.refused else "no"
        samples.add_ms(metric.AHEAD, each.ahead_ms, *labels, writer, refused)
    for state in WriterState:
        samples.add(metric.WRITERS, key.writers.get(state, 0), *labels, state)
    if holder is not None and key.held_since is not None:
        writer = (holder.writer or "") if labels[1] != OTHER else OTHER
        samples.add_ms(metric.HELD_NOW, now - key.held_since, *labels, writer, holder.state)
        samples.add_ms(metric.RELEASE, holder.released_in_ms, *labels, writer)
