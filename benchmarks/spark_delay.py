"""How long after its end a window closes in Spark, and which part of that time goes where.

    python -m benchmarks.spark_delay [--seconds 28]

A writer appends JSON events with the time of the clock to a topic ten times a second, and notes once a second; the
stream makes a mark once a second; and a query starts a batch once a second. So four steps wait for a second each, at
most. It runs for the source `strandline` on Kafka, and then for `attach` on Spark's own connector. For each second of
the events it takes the times at which a window that ends then would have gone through the steps of `STEPS`. Spark
starts its batches at whole seconds, so the writer begins anew at each quarter of one.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from benchmarks.figures import Figure, Report, arguments, median, number, run
from benchmarks.spark_exactness import Stage
from benchmarks.spark_throughput import (
    ATTACHED,
    NUMBERS,
    SEGMENTS,
    SOURCE,
    FilledTopic,
    event,
    stage_with_kafka,
    took_ms,
)
from spark_integration.listener import ReportListener, epoch_ms, listen, watermark_of
from spark_integration.positions import KafkaPositions
from strandline.client import calls
from strandline.core.config import StreamConfig
from strandline.logs.kafka import KafkaLog
from tests.spark.queries import Query

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

    from strandline.wire.streams import WireMark
    from tests.kafka import Kafka

EACH_SECOND: Final = StreamConfig(mark_interval_ms=1_000, max_ahead_ms=None, writer_timeout_ms=None)
SHORT_FETCHES: Final = {"kafka.fetch.max.wait.ms": "20"}  # as docs/spark.md advises
WRITES_S: Final = 0.1
WARM_UP_S: Final = 3
QUARTERS: Final = 4  # of a second
AFTER_MS: Final = 2_000  # what is written after a window's end, so that a note of a later time is made
PLANNING: Final = ("latestOffset", "getBatch", "walCommit", "queryPlanning")
STEPS: Final = {
    "note": "from the end of the window until a note of a later time is answered",
    "mark": "until the controller makes a mark of a later time",
    "reading": "with `attach`: until a batch ends that has read what lies below the mark",
    "listener": "with `attach`: until our listener has heard of that batch",
    "trigger": "until the batch begins that brings the mark",
    "planning": "until that batch is planned",
    "batch": "until it ends",
    "closing": "until the batch after it ends, which emits the window",
}

TRIGGER: Final = "1 second"
POLL_S: Final = 0.1
DEADLINE_S: Final = 120

Value = TypeVar("Value")


def began_ms(report: StreamingQueryProgress) -> int:
    return epoch_ms(report.timestamp)


def wait_for(happened: Callable[[], bool], what: str) -> None:
    deadline, quiet = time.monotonic() + DEADLINE_S, threading.Event()
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {DEADLINE_S} s: {what}")
        quiet.wait(POLL_S)


@dataclass(frozen=True, slots=True)
class ReportedBatch:
    """What a batch's report tells, and when our listener heard of it."""

    begun_ms: float
    planned_ms: float
    ended_ms: float
    reported_ms: float
    mark: int | None
    watermark: int | None
    read: Mapping[str, int] | None  # the connector's position; None with our source, whose mark is true for its batch

    @classmethod
    def of(cls, report: StreamingQueryProgress, topic: str, reported_ms: float) -> ReportedBatch:
        begun_ms = began_ms(report)
        planning_ms = sum(report.durationMs.get(each, 0) for each in PLANNING)
        offsets = [json.loads(source.endOffset or "null") for source in report.sources]
        marks = [each["mark"] for each in offsets if isinstance(each, dict) and "mark" in each]
        positions = [KafkaPositions(topic)(source, n) for n, source in enumerate(report.sources)]
        return cls(
            begun_ms=begun_ms,
            planned_ms=begun_ms + planning_ms,
            ended_ms=begun_ms + took_ms(report),
            reported_ms=reported_ms,
            mark=next(iter(marks), None),
            watermark=watermark_of(report),
            read=next((each for each in positions if each is not None), None),
        )


def steps(
    end_ms: int, notes: Iterable[tuple[int, float]], marks: Iterable[WireMark], batches: Sequence[ReportedBatch]
) -> dict[str, float] | None:
    """How long each step took for a window that ends then; None if it is not closed. `notes` have a time each, and when
    they were answered. A step that was over before the one ahead of it took no time."""
    noted_ms = first(answered_ms for noted, answered_ms in notes if noted > end_ms)
    mark = first(each for each in marks if each.time > end_ms)
    bringing = first(each for each in batches if each.mark is not None and each.mark > end_ms)
    closing = first(each for each in batches if each.watermark is not None and each.watermark >= end_ms)
    if noted_ms is None or mark is None or bringing is None or closing is None:
        return None
    moments = {"note": noted_ms, "mark": mark.created_at}
    reading = first(
        each
        for each in batches
        if each.read is not None and all(each.read.get(name, 0) >= offset for name, offset in mark.cut.items())
    )
    if reading is not None:
        moments |= {"reading": reading.ended_ms, "listener": reading.reported_ms}
    moments |= {"trigger": bringing.begun_ms, "planning": bringing.planned_ms, "batch": bringing.ended_ms}
    moments |= {"closing": closing.ended_ms}
    took, before_ms = dict[str, float](), float(end_ms)
    for name, moment_ms in moments.items():
        took[name] = max(0.0, moment_ms - before_ms)
        before_ms = max(before_ms, moment_ms)
    return took


def first(found: Iterable[Value]) -> Value | None:
    return next(iter(found), None)


@dataclass(slots=True)
class ClockWriter:
    """A writer whose events have the time of the clock."""

    topic: FilledTopic
    notes: list[tuple[int, float]] = field(default_factory=list)  # their times, and when they were answered

    def write(self, seconds: float) -> None:
        quiet, until, due = threading.Event(), time.monotonic() + seconds, 0.0
        log = KafkaLog.connect(self.topic.kafka.servers, self.topic.name)
        while time.monotonic() < until:
            now_ms = time.time_ns() // 1_000_000
            log.append(event(now_ms, each, each) for each in range(SEGMENTS))
            if time.monotonic() >= due:
                due = time.monotonic() + 1
                self.topic.note(now_ms, log.flush())
                self.notes.append((now_ms, time.time() * 1000))
            quiet.wait(WRITES_S)
        log.close()


class ReportTimes(ReportListener):
    """When it heard of each batch."""

    def __init__(self) -> None:
        self.at_ms: dict[int, float] = {}

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  # Spark's name
        self.at_ms[event.progress.batchId] = time.time() * 1000


def delays(stage: Stage, kafka: Kafka, path: str, seconds: int) -> list[dict[str, float]]:
    """What each step took for each second that was written, once the query is steady."""
    topic = FilledTopic.create(stage, kafka, EACH_SECOND, **SHORT_FETCHES)
    live, reports = ClockWriter(topic), ReportTimes()
    counts = topic.attached() if path == ATTACHED else topic.by_source()
    writer = counts.writeStream.outputMode("append").format("noop").trigger(processingTime=TRIGGER)
    checkpoint = stage.folder / f"checkpoint-{next(NUMBERS)}"
    with ExitStack() as opened:
        listening = listen(stage.spark, reports)
        opened.callback(listening.close)
        query = Query(writer.option("checkpointLocation", str(checkpoint)).start)
        opened.callback(query.stop)

        def closed(time_ms: int) -> bool:
            query.go_on()
            return any((watermark_of(each) or 0) >= time_ms for each in query.progress())

        live.write(WARM_UP_S)
        wait_for(lambda: closed(1), "the first mark has come")
        ends = list[int]()
        for quarter in range(QUARTERS):
            time.sleep((quarter / QUARTERS - time.time()) % 1)
            begun_ms = time.time_ns() // 1_000_000
            live.write(seconds / QUARTERS)
            ends += range(begun_ms, begun_ms + 1_000 * seconds // QUARTERS - AFTER_MS, 1_000)
        wait_for(lambda: closed(ends[-1]), "all is closed")
        wait_for(lambda: all(each.batchId in reports.at_ms for each in query.progress()), "all is heard")
        batches = [ReportedBatch.of(each, topic.name, reports.at_ms[each.batchId]) for each in query.progress()]
    marks = stage.connection.run(calls.marks(topic.name)).marks
    return [found for end_ms in ends if (found := steps(end_ms, live.notes, marks, batches))]


def figures(path: str, found: Sequence[Mapping[str, float]]) -> Iterator[Figure]:
    """The medians of the steps, beside that of the whole delay."""
    whole_ms = median(sum(each.values()) for each in found)
    names = [name for name in STEPS if name in found[0]]
    medians = {name: median(each[name] for each in found) for name in names}
    print(
        f"{path:28}{number(whole_ms):>8} ms: " + ", ".join(f"{n} {number(ms)}" for n, ms in medians.items()), flush=True
    )
    for name, step_ms in medians.items():
        yield Figure.of(f"delay of a window in Spark, {path}: {name}", step_ms, "all of it", whole_ms, "ms")


def measure(options: argparse.Namespace) -> Report:
    report = Report()
    with ExitStack() as opened:
        found = stage_with_kafka(opened, report)
        if found is None:
            return report
        stage, kafka = found
        for path in (SOURCE, ATTACHED):
            report.figures.extend(figures(path, delays(stage, kafka, path, options.seconds)))
    return report


def main() -> None:
    run(measure, arguments(__doc__, seconds=28).parse_args())


if __name__ == "__main__":
    main()
