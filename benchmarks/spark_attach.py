"""Whether `attach` on Spark's Kafka connector falls behind with many queries.

    python -m benchmarks.spark_attach [--seconds 12]

1, 6 and 20 attached queries read a topic that a writer appends to. It prints how long after the end of a batch our
listener hears of it, and how many batches each query takes, after everything was read and a last note was made, until
its windows are closed. Beside it, how late a listener hears that is added to Spark in the usual way.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from benchmarks.figures import Figure, Report, arguments, median, number, percentile, run
from benchmarks.spark_exactness import Stage
from benchmarks.spark_throughput import NUMBERS, SEGMENTS, START_MS, FilledTopic, event, stage_with_kafka, took_ms
from spark_integration import detach
from spark_integration.listener import ReportListener, epoch_ms, listen, watermark_of
from strandline.logs.kafka import KafkaLog
from tests.spark.queries import all_progress

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

    from tests.kafka import Kafka

COUNTS: Final = (1, 6, 20)  # of queries
USUAL_COUNT: Final = 6  # with a listener that is added in the usual way
WRITES_S: Final = 0.1
TRIGGER: Final = "1 second"
POLL_S: Final = 0.1
DEADLINE_S: Final = 120


def began_ms(report: StreamingQueryProgress) -> int:
    return epoch_ms(report.timestamp)


class ReportLags(StreamingQueryListener):
    """How long after the end of each batch with rows it heard of it, in order."""

    def __init__(self) -> None:
        self.lags_ms: list[float] = []

    def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802  # Spark's name

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  # Spark's name
        ended_ms = began_ms(event.progress) + took_ms(event.progress)
        if event.progress.numInputRows:
            self.lags_ms.append(max(0.0, time.time() * 1000 - ended_ms))

    def onQueryIdle(self, event: Any) -> None: ...  # noqa: N802  # Spark's name

    def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802  # Spark's name


class OurReportLags(ReportLags, ReportListener):
    """The same, in our way and not in the one that is usual in pyspark."""


class Live:
    """A writer that appends to a topic a few events at a time, and notes."""

    def __init__(self, topic: FilledTopic) -> None:
        self._topic, self._log = topic, KafkaLog.connect(topic.kafka.servers, topic.name)
        self.now_ms = START_MS

    def write(self, seconds: float) -> None:
        until, quiet = time.monotonic() + seconds, threading.Event()
        while time.monotonic() < until:
            self._log.append(event(self.now_ms + n, n, n % SEGMENTS) for n in range(100))
            self.now_ms += 100
            self.note(self.now_ms)
            quiet.wait(WRITES_S)

    def note(self, moment_ms: int) -> None:
        self._topic.note(moment_ms, self._log.flush())

    def close(self) -> None:
        self._log.close()


def closed(query: StreamingQuery, since_ms: float, target_ms: int) -> int | None:
    """How many batches that began since then it took until windows up to a time were closed; None: they are open."""
    later = [each for each in all_progress(query) if began_ms(each) >= since_ms]
    passed = (n for n, each in enumerate(later, start=1) if (watermark_of(each) or 0) >= target_ms - 1)
    return next(passed, None)


def wait_for(happened: Callable[[], bool], what: str) -> None:
    deadline, quiet = time.monotonic() + DEADLINE_S, threading.Event()
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {DEADLINE_S} s: {what}")
        quiet.wait(POLL_S)


@dataclass(frozen=True, slots=True)
class Together:
    """What many queries at a time came to."""

    lags_ms: list[float]
    batches_to_close: list[int]


def together(topic: FilledTopic, number_of_queries: int, seconds: int, *, usual: bool = False) -> Together:
    spark, folder = topic.stage.spark, topic.stage.folder
    reports, live = ReportLags() if usual else OurReportLags(), Live(topic)
    queries = list[Any]()
    with ExitStack() as opened:
        opened.callback(live.close)
        live.write(WRITES_S)
        for _ in range(number_of_queries):
            query = topic.plain() if usual else topic.attached()
            writer = query.writeStream.outputMode("append").format("noop").trigger(processingTime=TRIGGER)
            running = writer.option("checkpointLocation", str(folder / f"checkpoint-{next(NUMBERS)}")).start()
            opened.callback(running.stop)
            queries.append(running)
        wait_for(lambda: all(each.lastProgress is not None for each in queries), "the first batch of each query")
        with closing(listen(spark, reports)):
            live.write(seconds)
            lags_ms = list(reports.lags_ms)
        for each in queries:
            each.processAllAvailable()
        if usual:
            return Together(lags_ms, [])
        wait_for(lambda: all(closed(each, 0, live.now_ms) for each in queries), "everything is read and reported")
        final_ms = live.now_ms + 60_000
        live.note(final_ms)
        since_ms = time.time() * 1000
        wait_for(
            lambda: all(closed(each, since_ms, final_ms) for each in queries), "the windows close after the last note"
        )
        return Together(lags_ms, [closed(each, since_ms, final_ms) or 0 for each in queries])


def queries(stage: Stage, kafka: Kafka, options: argparse.Namespace) -> Iterator[Figure]:
    print(f"{'queries':26}{'lag p50':>9}{'p99':>9}{'first half':>12}{'second half':>13}  batches to close", flush=True)
    lags = dict[int, float]()
    usual = together(FilledTopic.create(stage, kafka), USUAL_COUNT, options.seconds, usual=True)
    show(f"{USUAL_COUNT}, a usual listener", usual)
    for each in COUNTS:
        found = together(FilledTopic.create(stage, kafka), each, options.seconds)
        detach(stage.spark)
        show(str(each), found)
        lags[each] = percentile(found.lags_ms, 99)
    beside = f"pyspark's own listener, {USUAL_COUNT} queries"
    for each, lag_ms in lags.items():
        name = f"from a batch's end in Spark to our listener, {each} {'query' if each == 1 else 'queries'}, p99"
        yield Figure.of(name, lag_ms, beside, percentile(usual.lags_ms, 99), "ms")


def show(name: str, found: Together) -> None:
    half = len(found.lags_ms) // 2
    values = [percentile(found.lags_ms, 50), percentile(found.lags_ms, 99)]
    values += [median(found.lags_ms[:half]), median(found.lags_ms[half:])]
    p50, p99, first, second = map(number, values)
    to_close = f"at most {max(found.batches_to_close)}" if found.batches_to_close else ""
    print(f"{name:26}{p50:>9}{p99:>9}{first:>12}{second:>13}  {to_close}", flush=True)


def measure(options: argparse.Namespace) -> Report:
    report = Report()
    with ExitStack() as opened:
        found = stage_with_kafka(opened, report)
        if found is not None:
            report.figures.extend(queries(*found, options))
    return report


def main() -> None:
    run(measure, arguments(__doc__, seconds=12).parse_args())


if __name__ == "__main__":
    main()
