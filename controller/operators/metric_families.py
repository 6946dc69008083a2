"""The metrics by name: what each is, its labels, and what it is called in FLIP-33 where it has a name there.

FLIP-33 names what sources and sinks of Flink report; milliseconds there are seconds here, as Prometheus wants it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate
from math import inf
from typing import Final

from prometheus_client import Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

from controller.commit.health import Distribution


class MetricKind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric with its labels; `name` is what queries call it. Where several streams or keys are one, its values
    are added up, or the greatest of them counts."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    adds_up: bool = False

    def of_samples(self, values: Mapping[tuple[str, ...], float]) -> Metric:
        """The family with these values, by their labels."""
        family = CounterMetricFamily if self.kind is MetricKind.COUNTER else GaugeMetricFamily
        metric = family(self.name, self.help, labels=self.labels)
        for labels, value in values.items():
            metric.add_metric(labels, value)
        return metric

    def of_distribution(self, found: Distribution) -> Metric:
        """A histogram."""
        bounds = map(floatToGoString, (*found.bounds, inf))
        buckets = list(zip(bounds, accumulate(found.counts), strict=True))
        return HistogramMetricFamily(self.name, self.help, buckets=buckets, sum_value=found.total)


def _gauge(name: str, help: str, *labels: str) -> MetricFamily:
    return MetricFamily(f"strandline_{name}", MetricKind.GAUGE, help, labels)


def _counter(name: str, help: str, *labels: str) -> MetricFamily:
    return MetricFamily(f"strandline_{name}_total", MetricKind.COUNTER, help, labels, adds_up=True)


# -- streams; "_other" stands for all that have no labels of their own

WATERMARK_LAG = _gauge(
    "stream_watermark_lag_seconds",
    "How far the last mark, or at rest the time that readers get, is behind the clock (FLIP-33: watermarkLag). "
    "Absent without either, for times that are not milliseconds since 1970, and once the stream is sealed.",
    "stream",
    "key",
)
EVENT_TIME_LAG = _gauge(
    "stream_event_time_lag_seconds",
    "How far the greatest noted time is behind the clock (FLIP-33: currentEmitEventTimeLag, of the writers). Absent as "
    "the watermark's lag is.",
    "stream",
    "key",
)
MARK_AGE = _gauge(
    "stream_mark_age_seconds", "How long ago the last mark was made; absent once sealed.", "stream", "key"
)
IDLE = _gauge("stream_idle_seconds", "How long no writer has called (FLIP-33: sourceIdleTime, by calls).", "stream")
STATE = _gauge(
    "stream_state_seconds",
    "For how long the stream has been in its present state, 0 if that is not known: sealed, fine, idle, no_writers, "
    "incomplete, ahead, held, stuck or stalled. With the last five, the stream is in trouble; with the last three, its "
    "time stands still. Other states are absent.",
    "stream",
    "key",
    "state",
)
AHEAD = _gauge(
    "stream_ahead_seconds",
    "How far a writer's time is ahead of the clock, or the note that was refused last, from five minutes on. With "
    'refused="no", time goes there once no other writer holds it back; with "yes", the writer does not move.',
    "stream",
    "key",
    "writer",
    "refused",
)
MARKS = _counter("stream_marks", "Marks ever made; it goes on over a restart.", "stream", "key")
INCOMPLETE = _counter(
    "stream_incomplete_marks", "Marks that left a writer out, made by this controller.", "stream", "key"
)
NOTES = _counter("stream_notes", "Notes taken (FLIP-33: numRecordsIn, of notes).", "stream")
LATE_NOTES = _counter(
    "stream_late_notes", "Notes of writers that did not fully count: what they wrote may be late.", "stream"
)
REFUSALS = _counter(
    "stream_refusals", "Calls refused, by the problem's code (FLIP-33: numRecordsInErrors).", "stream", "code"
)
WRITERS = replace(
    _gauge("stream_writers", "Writers by state; one with several keys is counted in each.", "stream", "key", "state"),
    adds_up=True,
)
HELD = _counter(
    "stream_held_seconds",
    "How long a writer held time back while others had noted later times. Only the worst writers are named; the writer "
    'is empty where fewer than min_writers had noted, and "_other" stands for the rest.',
    "stream",
    "key",
    "writer",
)
HELD_NOW = _gauge(
    "stream_held_now_seconds",
    "For how long the present holder has held time back; absent while time has not stood still for too long.",
    "stream",
    "key",
    "writer",
    "state",
)
RELEASE = _gauge(
    "stream_release_seconds",
    "Time until the present holder times out if it stays silent; absent if it never does.",
    "stream",
    "key",
    "writer",
)

# -- reader groups

GROUP_LAG = _gauge(
    "group_lag_seconds", "How far the group's watermark is behind the clock (FLIP-33: watermarkLag).", "group"
)
GROUP_BACKLOG = _gauge(
    "group_backlog", "Whether the group works off a backlog (FLIP-309: isProcessingBacklog).", "group"
)
GROUP_READABLE = _gauge(
    "group_readable",
    "Whether the group has a window, and so these other metrics; 0 for instance where one of its streams was deleted.",
    "group",
)
GROUP_STREAM_LAG = _gauge(
    "group_stream_lag_seconds", "How far the group's bound in one stream is behind the clock.", "group", "stream"
)
GROUP_BEHIND = _gauge(
    "group_behind_seconds", "How far the group's bound is behind the stream's newest mark.", "group", "stream"
)
GROUP_SEGMENT_LAG = _gauge(
    "group_segment_lag_seconds",
    "How far the group's place in one segment is behind the clock; of a group's segments, those furthest behind.",
    "group",
    "stream",
    "segment",
)
GROUP_PENDING = _gauge(
    "group_pending_offsets",
    "Offsets below the newest mark's cut that the group has not read (FLIP-33: pendingRecords).",
    "group",
    "stream",
)

# -- the process

FLUSH_SECONDS = MetricFamily(
    "strandline_flush_seconds", MetricKind.HISTOGRAM, "How long the store took to make a batch of calls durable."
)
FLUSH_CALLS = MetricFamily("strandline_flush_calls", MetricKind.HISTOGRAM, "How many calls became durable together.")
QUEUE = _gauge("queue_calls", "Calls that wait for the next commit.")
QUEUE_LIMIT = _gauge("queue_limit_calls", "So many may wait; beyond it calls are turned away as overloaded.")
STORE_UP = _gauge("store_up", "Whether the last commit went well.")
STORE_AGE = _gauge(
    "store_write_age_seconds",
    "How long ago a commit last went well: each second one is made, whether or not there is anything to write.",
)
STORE_DAMAGED = _gauge("store_damaged", "Whether the database reports that it is damaged.")
STORE_ERRORS = _counter("store_errors", "Commits, reads and other writes that failed, by cause.", "operation", "cause")
WAITING_READERS = _gauge("waiting_readers", "Readers that wait for a next mark (long poll).")
EVENT_CONNECTIONS = _gauge("event_connections", "Readers that follow marks as server-sent events.")
EVENT_LIMIT = _gauge("event_connections_limit", "So many may.")
RESPONSES = _counter("responses", "Requests answered, by status.", "status")
PROBLEMS = _counter("problems", "Requests answered with a problem, by its code.", "code")
CONTROLLERS = _gauge(
    "controller_state_seconds",
    "For how long each controller of the store is serving or away, as this one sees it: one is away if it has not "
    "recorded that it serves for five seconds. Absent while the store is away.",
    "controller",
    "state",
)
HOST_AHEAD = _gauge(
    "clock_host_ahead_seconds",
    "0; below that, by how much the clock that the controller's follows is behind it: somebody has set it back.",
)
UNSERVED = _counter(
    "unserved_seconds", "Time in which no controller served, since the store was made: it counts as nobody's silence."
)
STREAMS = _gauge("streams", "Streams in memory.")
STREAMS_SUMMED = _gauge("streams_summed_up", 'How many stand under the stream "_other".')
COMPLETE = _gauge("streams_complete", "Whether the status of every stream of the store was read for this scrape.")
BUILD = _gauge("build_info", "1, with the version.", "version")

FAMILIES: Final = tuple(each for each in list(globals().values()) if isinstance(each, MetricFamily))
