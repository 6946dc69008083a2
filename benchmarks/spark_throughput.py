"""Rows a second with the exact watermark beside Spark's own sources, and what large batches gain while a job is behind.

    python -m benchmarks.spark_throughput [--rows 2000000] [--rounds 5] [--only own|kafka|backlog]

The same query, counts of windows of ten seconds, reads the same rows from their beginning; their values are JSON, which
`from_json` parses. `own`: from an embedded log by the source `strandline`, and from Parquet and text files by Spark's
own streams. `kafka`: from a broker by Spark's own connector, with `withWatermark` and with `attach`, and by the source
`strandline`: in small batches, in medium ones, and all in one. Kinds take turns, the first round is not counted, and
medians are printed: how long batches take, and how long a query takes outside of its batches, which a short job pays as
well. `backlog`: a job that takes 10 000 rows a batch catches up, as it is and with a threshold for its backlog.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, functions

from benchmarks.figures import Figure, Report, arguments, median, run
from benchmarks.spark_exactness import Stage
from spark_integration import attach, detach, exact_watermark, read_events, register
from spark_integration.options import BACKLOG_THRESHOLD
from strandline.client import calls
from strandline.core.note import Note
from strandline.logs import Event
from strandline.logs.kafka import KafkaLog
from strandline.logs.sqlite import SqliteLog
from tests.served import AT_ONCE
from tests.spark.queries import all_progress
from tools.jars import JarsError, fetched

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

    from strandline.client.http import Connection
    from strandline.core.config import StreamConfig
    from tests.kafka import Kafka

SEGMENTS: Final = 4
PART_ROWS: Final = 20_000  # appended, and noted, at a time
USUAL_ROWS: Final = 10_000  # a batch of the job that catches up
BACKLOG_ROWS: Final = 1_000_000
START_MS: Final = 1_700_000_000_000
NUMBERS: Final = count(1)
PARTS: Final = ["own", "kafka", "backlog"]
SCHEMA: Final = "event_time bigint, device string, number bigint"
SMALL_ROWS: Final = 2_000  # a batch
MEDIUM_ROWS: Final = 130_000
SMALL_BATCHES: Final = 15
FIRST: Final = 2  # batches of a run that are not steady yet
PLAIN: Final = "Kafka's connector, withWatermark"
ATTACHED: Final = "Kafka's connector, attach"
SOURCE: Final = "source strandline on Kafka"
NO_AIMS: Final[Mapping[str, str]] = {}

Query = Callable[[], DataFrame]


def event(time_ms: int, number: int, segment: int) -> Event:
    device = number % 997
    value = b'{"event_time": %d, "device": "device-%d", "number": %d}' % (time_ms, device, number)
    return Event(value, key=b"device-%d" % device, segment=str(segment))


def parts(rows: int) -> Iterator[list[Event]]:
    """Events a millisecond apart, in turn in each segment."""
    made = (event(START_MS + n, n, n % SEGMENTS) for n in range(rows))
    while part := list(islice(made, PART_ROWS)):
        yield part


def fill(connection: Connection, path: Path, rows: int) -> None:
    """A sealed log of so many rows, with a mark for each part."""
    connection.run(calls.create_stream("own", SEGMENTS, AT_ONCE))
    with SqliteLog.create(path, SEGMENTS) as log:
        for number, part in enumerate(parts(rows), start=1):
            log.append(part)
            note = Note(writer="w", times={"": START_MS + number * PART_ROWS}, position=log.positions())
            connection.run(calls.note("own", note))
        connection.run(calls.seal("own", log.seal()))


def parsed(raw: DataFrame) -> DataFrame:
    """What a job has of JSON values, with their time as a timestamp."""
    fields = functions.from_json(functions.col("value").cast("string"), SCHEMA)
    rows = raw.select(fields.alias("fields")).select("fields.*")
    return rows.withColumn("event_time", functions.timestamp_millis("event_time"))


def windows(events: DataFrame) -> DataFrame:
    return events.groupBy(functions.window("event_time", "10 seconds")).count()


def guessed(raw: DataFrame) -> DataFrame:
    """The windows with Spark's own watermark."""
    return windows(parsed(raw).withWatermark("event_time", "10 seconds"))


@dataclass(frozen=True, slots=True)
class FilledTopic:
    """A topic, and the stream of the same name."""

    stage: Stage
    kafka: Kafka
    name: str
    connector: Mapping[str, str] = field(default_factory=dict)  # further options of Spark's own connector

    @classmethod
    def create(cls, stage: Stage, kafka: Kafka, config: StreamConfig = AT_ONCE, **connector: str) -> FilledTopic:
        name = f"topic-{next(NUMBERS)}"
        kafka.create_topic(name, SEGMENTS)
        stage.connection.run(calls.create_stream(name, "open", config))
        return cls(stage, kafka, name, connector)

    def fill(self, rows: int) -> None:
        """Events a millisecond apart, in turn in each segment, and a mark for each part."""
        log = KafkaLog.connect(self.kafka.servers, self.name)
        for number, part in enumerate(parts(rows), start=1):
            log.append(part)
            self.note(START_MS + number * PART_ROWS, log.flush())
        log.close()

    def note(self, moment_ms: int, position: Any) -> None:
        self.stage.connection.run(calls.note(self.name, Note(writer="w", times={"": moment_ms}, position=position)))

    def read(self, rows: int | None) -> DataFrame:
        """The rows of Spark's own connector, at most so many a batch."""
        reader = self.stage.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.kafka.servers)
        limit = {} if rows is None else {"maxOffsetsPerTrigger": rows}
        return reader.options(subscribe=self.name, startingOffsets="earliest", **self.connector, **limit).load()

    def plain(self, rows: int | None = None) -> DataFrame:
        return guessed(self.read(rows))

    def attached(self, rows: int | None = None) -> DataFrame:
        stage, events = self.stage, parsed(self.read(rows))
        controller = stage.connection.controller
        return windows(attach(stage.spark, events, controller=controller, stream=self.name, event_time="event_time"))

    def by_source(self, rows: int | None = None) -> DataFrame:
        options: dict[str, Any] = {
            "controller": self.stage.connection.controller, "stream": self.name, "log": "kafka",
            "kafka.bootstrap.servers": self.kafka.servers, "maxRowsPerBatch": rows,
        }  # fmt: skip
        return windows(read_events(self.stage.spark, schema=SCHEMA, event_time="event_time", **options))


def took_ms(report: StreamingQueryProgress) -> int:
    return report.durationMs["triggerExecution"]


@dataclass(slots=True)
class Runs:
    """What the runs of one query took."""

    batches_ms: list[list[int]] = field(default_factory=list)  # of each run: its batches with rows, in order
    start_up_s: list[float] = field(default_factory=list)  # of each run: what it took outside of its batches
    batches: list[int] = field(default_factory=list)  # of each run: all of them

    def run(self, query: Query, folder: Path) -> None:
        """Runs the query for all that is there."""
        begun = time.monotonic()
        writer = query().writeStream.outputMode("append").format("noop").trigger(availableNow=True)
        running = writer.option("checkpointLocation", str(folder / f"checkpoint-{next(NUMBERS)}")).start()
        running.awaitTermination()
        whole_s = time.monotonic() - begun
        reports = all_progress(running)
        self.batches_ms.append([took_ms(each) for each in reports if each.numInputRows > SEGMENTS])
        self.start_up_s.append(whole_s - sum(map(took_ms, reports)) / 1000)
        self.batches.append(len(reports))

    @property
    def whole_ms(self) -> float:
        """How long a run takes in its batches with rows."""
        return median(map(sum, self.batches_ms))

    @property
    def steady_ms(self) -> float:
        """How long a batch takes, once a run is steady: without its first and its last, which may be smaller."""
        return median(median(each[FIRST:-1]) for each in self.batches_ms)


def turns(folder: Path, rounds: int, *queries: Query) -> list[Runs]:
    """Runs queries in turns. The first round is not counted."""
    warm, counted = ([Runs() for _ in queries] for _ in range(2))
    for runs in (warm, *[counted] * rounds):
        for each, query in zip(runs, queries, strict=True):
            each.run(query, folder)
    return counted


def compared(kinds: dict[str, float], rows: int, unit: str, aims: Mapping[str, str] = NO_AIMS) -> Iterator[Figure]:
    """Rows a second of each kind, from its milliseconds for so many rows, beside those of the first."""
    beside, *_ = kinds
    rates = {name: rows / took * 1000 for name, took in kinds.items()}
    for name, rate in rates.items():
        print(f"{name:48}{unit:>24}{rate:>12,.0f} rows/s{rate / rates[beside]:>8.2f}", flush=True)
        if name != beside:
            what, aim = f"rows a second in Spark, {unit}, {name}", aims.get(name, "")
            yield Figure.of(what, rate, beside, rates[beside], "a second", aim)


def start_ups(kinds: dict[str, float]) -> Iterator[Figure]:
    """The start-up of each kind, in seconds, beside that of the first."""
    beside, *others = kinds
    for name, took_s in kinds.items():
        print(f"{name:48}{'start-up':>24}{took_s:>12.2f} s", flush=True)
    for name in others:
        yield Figure.of(f"start-up in Spark, {name}", kinds[name], beside, kinds[beside], "s")


def own_kinds(stage: Stage, path: Path) -> dict[str, Query]:
    spark = stage.spark
    options: dict[str, Any] = {"controller": stage.connection.controller, "stream": "own", "path": str(path)}
    rows = spark.read.format("strandline").options(**options).load().drop("mark", "floor")
    parquet, text = str(path.with_suffix(".parquet")), str(path.with_suffix(".text"))
    rows.write.parquet(parquet)
    rows.select(functions.col("value").cast("string")).write.text(text)
    return {
        "Spark's Parquet stream, withWatermark": lambda: guessed(spark.readStream.schema(rows.schema).parquet(parquet)),
        "Spark's text stream, withWatermark": lambda: guessed(spark.readStream.text(text)),
        "source strandline, exact_watermark": lambda: windows(
            read_events(spark, **options, schema=SCHEMA, event_time="event_time")
        ),
    }


def by_itself(stage: Stage, path: Path, options: argparse.Namespace) -> Iterator[Figure]:
    """The embedded log beside files."""
    kinds = own_kinds(stage, path)
    found = dict(zip(kinds, turns(stage.folder, options.rounds, *kinds.values()), strict=True))
    parquet, text, ours = kinds
    for beside, aims in ((parquet, {ours: "≥ 0.6"}), (text, NO_AIMS)):
        whole = {name: found[name].whole_ms for name in (beside, ours)}
        yield from compared(whole, options.rows, "one batch", aims)
    yield from start_ups({name: median(found[name].start_up_s) for name in (parquet, ours)})


def backlog_kinds(stage: Stage, path: Path) -> dict[str, Query]:
    options = {"controller": stage.connection.controller, "stream": "own", "path": str(path)}
    limited = options | {"maxRowsPerBatch": str(USUAL_ROWS)}
    large = {BACKLOG_THRESHOLD: "1 minute", "maxRowsPerBacklogBatch": str(BACKLOG_ROWS)}

    def query(given: dict[str, str]) -> DataFrame:
        raw = stage.spark.readStream.format("strandline").options(**given).load()
        fields = functions.from_json(functions.col("value").cast("string"), SCHEMA)
        timed = raw.withColumn("event_time", functions.timestamp_millis(fields["event_time"]))
        return windows(exact_watermark(timed, event_time="event_time"))

    return {
        f"catching up, {USUAL_ROWS:,} rows a batch": lambda: query(limited),
        f"the same with {BACKLOG_ROWS:,} while it is behind": lambda: query(limited | large),
    }


def on_kafka(stage: Stage, kafka: Kafka, options: argparse.Namespace) -> Iterator[Figure]:
    """Spark's connector, `attach` and the source, in three sizes of batches."""
    large, small = FilledTopic.create(stage, kafka), FilledTopic.create(stage, kafka)
    large.fill(options.rows)
    small.fill(SMALL_ROWS * SMALL_BATCHES)

    def runs(topic: FilledTopic, rows: int | None) -> dict[str, Runs]:
        kinds = {PLAIN: topic.plain, ATTACHED: topic.attached, SOURCE: topic.by_source}
        found = turns(stage.folder, options.rounds, *(partial(each, rows) for each in kinds.values()))
        return dict(zip(kinds, found, strict=True))

    for topic, rows, aim in ((small, SMALL_ROWS, ""), (large, MEDIUM_ROWS, "≥ 0.9")):
        steady = {name: each.steady_ms for name, each in runs(topic, rows).items()}
        yield from compared(steady, rows, f"batches of {rows:,}", {ATTACHED: "≥ 0.95", SOURCE: aim})
    whole, aims = runs(large, None), {ATTACHED: "≥ 0.95", SOURCE: "≥ 1"}
    yield from compared({name: each.whole_ms for name, each in whole.items()}, options.rows, "one batch", aims)
    yield from start_ups({name: median(each.start_up_s) for name, each in whole.items()})


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
        found = stage_with_kafka(opened, report) if "kafka" in wanted else None
        stage = Stage.open(opened) if found is None else found[0]
        register(stage.spark)
        path = stage.folder / "own.db"
        if wanted != ["kafka"]:
            fill(stage.connection, path, options.rows)
        if "own" in wanted:
            report.figures.extend(by_itself(stage, path, options))
        if "backlog" in wanted:
            kinds = backlog_kinds(stage, path)
            took = [each.whole_ms for each in turns(stage.folder, 1, *kinds.values())]
            report.figures.extend(compared(dict(zip(kinds, took, strict=True)), options.rows, "catching up"))
        if found is not None:
            report.figures.extend(on_kafka(*found, options))
    return report


def main() -> None:
    parser = arguments(__doc__, rows=2_100_000, rounds=5)
    parser.add_argument("--only", choices=PARTS, action="append", help="may be given several times")
    run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
