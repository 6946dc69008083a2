"""What `attach` adds to a query on Spark's Kafka connector, and whether it falls behind with many queries.

    python -m benchmarks.spark_attach [--rows 1500000] [--rounds 3] [--small 2000] [--seconds 12] [--only PART]

`batches`: the same query, counts of windows of ten seconds, reads a topic from its beginning in `BATCHES` batches, with
`withWatermark` and with `attach`, in turns. It prints how fast steady batches are, how long a query takes outside of
its batches, how many batches it needs, and how long batches of `--small` rows take, which shows what a batch costs.
Beside them, `withWatermark` with a Python source that has no rows: Spark starts a Python for it, as for the marks. The
first round is not counted.

`queries`: 1, 6 and 20 attached queries read a topic that a writer appends to. It prints how long after the end of a
batch our listener hears of it, and how many batches each query takes, after everything was read and a last note was
made, until its windows are closed. Beside it, how late a listener hears that is added to Spark in the usual way.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from benchmarks.empty_source import EmptySource
from benchmarks.figures import Figure, Report, arguments, median, number, percentile, run
from benchmarks.spark_exactness import Stage
from benchmarks.spark_throughput import SEGMENTS, START_MS, timed, windows
from spark_integration import attach, detach
from spark_integration.listener import listen
from spark_integration.progress import epoch_ms, watermark_of
from strandline.client import calls
from strandline.core.note import Note
from strandline.logs import Event
from strandline.logs.kafka import KafkaLog
from tests.served import AT_ONCE
from tests.spark.queries import all_progress
from tools.jars import JarsError, fetched

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

    from strandline.core.config import StreamConfig
    from tests.kafka import Kafka

PART_ROWS: Final = 20_000  # appended, and noted, at a time
BATCHES: Final = 15
SMALL_BATCHES: Final = 15
FIRST: Final = 2  # batches of a run that are not steady yet
COUNTS: Final = (1, 6, 20)  # of queries
USUAL_COUNT: Final = 6  # with a listener that is added in the usual way
WRITES_S: Final = 0.1
TRIGGER: Final = "1 second"
LOOK_S: Final = 0.1
DEADLINE_S: Final = 120
PARTS: Final = ["batches", "queries"]
NUMBERS: Final = count(1)
PLAIN: Final = "Kafka's connector, withWatermark"
ATTACHED: Final = "Kafka's connector, attach"
EMPTY: Final = "withWatermark and an empty source"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and the stream of the same name."""

    stage: Stage
    kafka: Kafka
    name: str

    @classmethod
    def create(cls, stage: Stage, kafka: Kafka, config: StreamConfig = AT_ONCE) -> Topic:
        name = f"attached-{next(NUMBERS)}"
        kafka.create_topic(name, SEGMENTS)
        stage.connection.run(calls.create_stream(name, "open", config))
        return cls(stage, kafka, name)

    def fill(self, rows: int) -> None:
        """Events a millisecond apart, in turn in each segment, and a mark for each part."""
        producer = Producer({"bootstrap.servers": self.kafka.servers, "queue.buffering.max.messages": 2 * PART_ROWS})
        for first in range(0, rows, PART_ROWS):
            end = min(first + PART_ROWS, rows)
            for n in range(first, end):
                producer.produce(self.name, b"%d" % (START_MS + n), partition=n % SEGMENTS)
            producer.flush()
            self.note(START_MS + end, {str(each): len(range(each, end, SEGMENTS)) for each in range(SEGMENTS)})

    def note(self, moment_ms: int, position: Any) -> None:
        self.stage.connection.run(calls.note(self.name, Note(writer="w", times={"": moment_ms}, position=position)))

    def read(self, **options: Any) -> DataFrame:
        reader = self.stage.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.kafka.servers)
        return timed(reader.options(subscribe=self.name, startingOffsets="earliest", **options).load())

    def plain(self, **options: Any) -> DataFrame:
        return windows(self.read(**options).withWatermark("event_time", "10 seconds"))

    def with_empty_source(self, **options: Any) -> DataFrame:
        spark = self.stage.spark
        spark.dataSource.register(EmptySource)
        nothing = spark.readStream.format(EmptySource.name()).load()
        events = self.read(**options).select("event_time").union(nothing)
        return windows(events.withWatermark("event_time", "10 seconds"))

    def attached(self, **options: Any) -> DataFrame:
        stage, events = self.stage, self.read(**options)
        controller = stage.connection.controller
        return windows(attach(stage.spark, events, controller=controller, stream=self.name, event_time="event_time"))


def began_ms(report: StreamingQueryProgress) -> int:
    return epoch_ms(report.timestamp)


def took_ms(report: StreamingQueryProgress) -> int:
    return report.durationMs["triggerExecution"]


@dataclass(slots=True)
class Kind:
    """What the runs of one kind of query took."""

    steady_ms: list[int] = field(default_factory=list)  # of each batch
    outside_s: list[float] = field(default_factory=list)  # of each run: what it took beside its batches
    batches: list[int] = field(default_factory=list)  # of each run

    def run(self, query: Callable[[], DataFrame], folder: Path) -> None:
        begun = time.monotonic()
        writer = query().writeStream.outputMode("append").format("noop").trigger(availableNow=True)
        running = writer.option("checkpointLocation", str(folder / f"checkpoint-{next(NUMBERS)}")).start()
        running.awaitTermination()
        took_s = time.monotonic() - begun
        told = all_progress(running)
        self.steady_ms += [took_ms(each) for each in told if each.numInputRows > SEGMENTS][FIRST:]
        self.outside_s.append(took_s - sum(map(took_ms, told)) / 1000)
        self.batches.append(len(told))


def turns(topic: Topic, rows: int, rounds: int, *queries: Callable[..., DataFrame]) -> list[Kind]:
    """Runs these kinds of queries in turns, in batches of so many rows. The first round is not counted."""
    warm, counted = ([Kind() for _ in queries] for _ in range(2))
    for kinds in (warm, *[counted] * rounds):
        for kind, query in zip(kinds, queries, strict=True):
            kind.run(partial(query, maxOffsetsPerTrigger=rows), topic.stage.folder)
    return counted


def batches(stage: Stage, kafka: Kafka, options: argparse.Namespace) -> Iterator[Figure]:
    large, small = Topic.create(stage, kafka), Topic.create(stage, kafka)
    large.fill(options.rows)
    small.fill(options.small * SMALL_BATCHES)
    each = options.rows // BATCHES
    kinds = turns(large, each, options.rounds, large.plain, large.attached, large.with_empty_source)
    rates = [each / median(kind.steady_ms) * 1000 for kind in kinds]
    outside = [median(kind.outside_s) for kind in kinds]
    needed = [median(kind.batches) for kind in kinds]
    print(f"{'':34}{'rows/s':>12}{'outside, s':>12}{'batches':>9}", flush=True)
    for name, rate, outside_s, count_of in zip((PLAIN, ATTACHED, EMPTY), rates, outside, needed, strict=True):
        print(f"{name:34}{rate:>12,.0f}{outside_s:>12.2f}{count_of:>9.0f}", flush=True)
    yield Figure.of(f"rows a second in Spark, steady batches, {ATTACHED}", rates[1], PLAIN, rates[0], "a second")
    for beside, outside_s in ((PLAIN, outside[0]), (EMPTY, outside[2])):
        yield Figure.of(f"a query in Spark, outside of its batches, {ATTACHED}", outside[1], beside, outside_s, "s")
    yield Figure.of(f"batches of a query in Spark, {ATTACHED}", needed[1], PLAIN, needed[0], "batches")
    small_kinds = turns(small, options.small, options.rounds, small.plain, small.attached)
    took = [median(kind.steady_ms) for kind in small_kinds]
    print(f"a batch of {options.small} rows: {took[0]:.0f} ms, with attach {took[1]:.0f} ms", flush=True)
    yield Figure.of(f"a batch of {options.small:,} rows in Spark, {ATTACHED}", took[1], PLAIN, took[0], "ms")


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


@contextmanager
def hearing(spark: SparkSession, heard: ReportLags, usual: bool) -> Iterator[None]:
    """Listens in our way, or in the one that is usual in pyspark."""
    if usual:
        spark.streams.addListener(heard)
        yield
        spark.streams.removeListener(heard)
        return
    listening = listen(spark, heard)
    yield
    listening.close()


class Live:
    """A writer that appends to a topic a few events at a time, and notes."""

    def __init__(self, topic: Topic) -> None:
        self._topic, self._log = topic, KafkaLog.connect(topic.kafka.servers, topic.name)
        self.now_ms = START_MS

    def write(self, seconds: float) -> None:
        until, quiet = time.monotonic() + seconds, threading.Event()
        while time.monotonic() < until:
            self._log.append(Event(b"%d" % (self.now_ms + n), segment=str(n % SEGMENTS)) for n in range(100))
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
        quiet.wait(LOOK_S)


@dataclass(frozen=True, slots=True)
class Together:
    """What many queries at a time came to."""

    lags_ms: list[float]
    batches_to_close: list[int]


def together(topic: Topic, number_of_queries: int, seconds: int, *, usual: bool = False) -> Together:
    spark, folder = topic.stage.spark, topic.stage.folder
    heard, live = ReportLags(), Live(topic)
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
        with hearing(spark, heard, usual):
            live.write(seconds)
            lags_ms = list(heard.lags_ms)
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
    usual = together(Topic.create(stage, kafka), USUAL_COUNT, options.seconds, usual=True)
    show(f"{USUAL_COUNT}, a usual listener", usual)
    for each in COUNTS:
        found = together(Topic.create(stage, kafka), each, options.seconds)
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


def stage_with_kafka(opened: ExitStack, report: Report) -> tuple[Stage, Kafka] | None:
    """A stage whose Spark has the connector for Kafka, and a broker. None, and the report says so, without the jars."""
    try:
        jars, connector = fetched("kafka"), fetched("spark-kafka")
    except JarsError as error:
        report.missing.append(f"Spark's Kafka connector: {error}")
        return None
    from tests.kafka import Kafka

    stage = Stage.open(opened, {"spark.jars": ",".join(sorted(map(str, connector.glob("*.jar"))))})
    kafka = Kafka(jars)
    opened.callback(kafka.remove)
    opened.callback(detach, stage.spark)
    return stage, kafka


def measure(options: argparse.Namespace) -> Report:
    wanted, report = options.only or PARTS, Report()
    with ExitStack() as opened:
        found = stage_with_kafka(opened, report)
        if found is None:
            return report
        stage, kafka = found
        if "batches" in wanted:
            report.figures.extend(batches(stage, kafka, options))
        if "queries" in wanted:
            report.figures.extend(queries(stage, kafka, options))
    return report


def main() -> None:
    parser = arguments(__doc__, rows=1_500_000, rounds=3, small=2_000, seconds=12)
    parser.add_argument("--only", choices=PARTS, action="append", help="may be given several times")
    run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
