"""The metrics in Prometheus' text format, read and written in slices, so that a scrape does not delay other calls."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from math import inf, isinf
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from controller.controller import Controller
from controller.records.counts import OTHER, Distribution
from controller.status import metric_families
from controller.status.metric_families import FAMILIES, MetricFamily, MetricKind
from controller.status.metrics import GroupMetrics, KeyMetrics, Snapshot, StreamMetrics
from controller.storage.diagnosis import Cause
from strandline.core.writer import WriterState

METRICS_SLICE_SAMPLES: Final = 200  # written as text before other tasks run

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class MetricsText:
    """Writes the metrics of one controller and of its process."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._registry = CollectorRegistry()
        for usual in (ProcessCollector, PlatformCollector, GCCollector):
            usual(registry=self._registry)

    async def text(self) -> bytes:
        """The text of one scrape."""
        samples = _Samples()
        await samples.take_streams(await self._controller.measures.take())
        self._take_process(samples)
        parts = [generate_latest(self._registry)]
        for family in FAMILIES:
            parts += [part async for part in samples.written(family)]
        return b"".join(parts)

    def _take_process(self, samples: _Samples) -> None:
        controller, health = self._controller, self._controller.health
        samples.distribute(metric_families.FLUSH_SECONDS, health.flush_seconds)
        samples.distribute(metric_families.FLUSH_CALLS, health.flush_calls)
        samples.add(metric_families.QUEUE, controller.measures.waiting_calls)
        samples.add(metric_families.QUEUE_LIMIT, controller.measures.waiting_calls_limit)
        samples.add(metric_families.STORE_UP, health.up)
        samples.add(metric_families.STORE_AGE, health.write_age_s)
        samples.add(metric_families.STORE_DAMAGED, health.damage is not None)
        for operation in ("commit", "read", "write"):
            for cause in Cause:
                samples.add(metric_families.STORE_ERRORS, health.errors[operation, cause], operation, cause)
        samples.add(metric_families.WAITING_READERS, controller.reading.waiting)
        samples.add_ms(metric_families.HOST_AHEAD, controller.clock.host_ahead_ms)
        samples.add_ms(metric_families.UNSERVED, controller.clock.unserved_ms)
        samples.add(metric_families.EVENT_CONNECTIONS, controller.following.readers)
        samples.add(metric_families.EVENT_LIMIT, controller.following.limit)
        for status, count in sorted(controller.counts.responses.items()):
            samples.add(metric_families.RESPONSES, count, str(status))
        for code, count in sorted(controller.counts.problems.items()):
            samples.add(metric_families.PROBLEMS, count, code)
        samples.add(metric_families.BUILD, 1, controller.version)


class _One(Collector):
    """A metric by itself, to be written."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


class _Samples:
    """Samples by family, each with its labels' values."""

    def __init__(self) -> None:
        self._found: defaultdict[MetricFamily, list[tuple[str, dict[str, str], float]]] = defaultdict(list)
        self._since = 0

    def add(self, family: MetricFamily, value: float | None, *labels: str) -> None:
        """Adds a value, unless it is None."""
        if value is not None:
            self._found[family].append((family.name, dict(zip(family.labels, labels, strict=True)), float(value)))
            self._since += 1

    def add_ms(self, family: MetricFamily, value: int | None, *labels: str) -> None:
        """Adds milliseconds, as seconds."""
        self.add(family, None if value is None else value / 1000, *labels)

    def distribute(self, family: MetricFamily, distribution: Distribution) -> None:
        found, below = self._found[family], 0
        for bound, count in zip([*distribution.bounds, inf], distribution.counts, strict=True):
            below += count
            at_most = "+Inf" if isinf(bound) else repr(float(bound))
            found.append((f"{family.name}_bucket", {"le": at_most}, float(below)))
        found.append((f"{family.name}_count", {}, float(below)))
        found.append((f"{family.name}_sum", {}, distribution.total))

    async def take_streams(self, snapshot: Snapshot) -> None:
        for name, stream in snapshot.streams.items():
            self._take_stream(name, stream)
            for key, measures in stream.keys.items():
                self._take_key(name, key, measures)
                await self._pause()
        for name, group in snapshot.groups.items():
            self._take_group(name, group)
            await self._pause()
        self.add(metric_families.STREAMS, snapshot.in_memory)
        self.add(metric_families.STREAMS_SUMMED, snapshot.summed_up)
        self.add(metric_families.COMPLETE, snapshot.complete)

    async def _pause(self) -> None:
        if self._since >= METRICS_SLICE_SAMPLES:
            self._since = 0
            await asyncio.sleep(0)

    def _take_stream(self, name: str, stream: StreamMetrics) -> None:
        self.add(metric_families.NOTES, stream.notes, name)
        self.add(metric_families.LATE_NOTES, stream.late_notes, name)
        self.add_ms(metric_families.IDLE, stream.idle_ms, name)
        for code, count in sorted(stream.refusals.items()):
            self.add(metric_families.REFUSALS, count, name, code)

    def _take_key(self, name: str, key: str, measures: KeyMetrics) -> None:
        self.add_ms(metric_families.WATERMARK_LAG, measures.watermark_lag_ms, name, key)
        self.add_ms(metric_families.EVENT_TIME_LAG, measures.event_time_lag_ms, name, key)
        self.add_ms(metric_families.MARK_AGE, measures.mark_age_ms, name, key)
        for condition, lasted_ms in sorted(measures.states.items()):
            self.add_ms(metric_families.STATE, lasted_ms, name, key, condition)
        self.add(metric_families.MARKS, measures.marks, name, key)
        self.add(metric_families.INCOMPLETE, measures.incomplete_marks, name, key)
        for state in WriterState:
            self.add(metric_families.WRITERS, measures.writers[state], name, key, state)
        for writer, held_ms in sorted(measures.held_ms.items()):
            if held_ms or writer == OTHER:
                self.add_ms(metric_families.HELD, held_ms, name, key, writer)
        holding = measures.holding
        if holding is not None:
            self.add_ms(metric_families.HELD_NOW, holding.held_ms, name, key, holding.writer, holding.state)
            self.add_ms(metric_families.RELEASE, holding.released_in_ms, name, key, holding.writer)

    def _take_group(self, name: str, group: GroupMetrics | None) -> None:
        self.add(metric_families.GROUP_READABLE, group is not None, name)
        if group is None:
            return
        self.add_ms(metric_families.GROUP_LAG, group.window.lag_ms, name)
        self.add(metric_families.GROUP_BACKLOG, group.window.backlog, name)
        for stream, window in group.window.streams.items():
            self.add_ms(metric_families.GROUP_STREAM_LAG, window.lag_ms, name, stream)
            self.add_ms(metric_families.GROUP_BEHIND, window.behind_ms, name, stream)
            self.add(metric_families.GROUP_PENDING, group.pending.get(stream), name, stream)
        for (stream, segment), lag_ms in group.segment_lags.items():
            self.add_ms(metric_families.GROUP_SEGMENT_LAG, lag_ms, name, stream, segment)

    async def written(self, family: MetricFamily) -> AsyncIterator[bytes]:
        """A family as text, piece by piece. The heading is in the first piece, alone if there are no samples."""
        found = self._found[family]
        for first in range(0, max(1, len(found)), METRICS_SLICE_SAMPLES):
            text = generate_latest(_One(_metric(family, found[first : first + METRICS_SLICE_SAMPLES])))
            yield text if not first else text.split(b"\n", 2)[2]
            if len(found) > METRICS_SLICE_SAMPLES:
                await asyncio.sleep(0)


def _metric(family: MetricFamily, samples: Iterable[tuple[str, dict[str, str], float]]) -> Metric:
    name = family.name.removesuffix("_total") if family.kind is MetricKind.COUNTER else family.name
    metric = Metric(name, family.help, family.kind)
    for each, labels, value in samples:
        metric.add_sample(each, labels, value)
    return metric
