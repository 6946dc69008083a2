"""Rows a second with the exact watermark beside Spark's own sources, and what large batches gain while a job is behind.

    python -m benchmarks.spark_throughput [--rows 2000000] [--rounds 3] [--only own|kafka|backlog]

The same query, counts of windows of ten seconds, reads the same rows from their beginning. `own`: from an embedded log
by the source `strandline`, with `exact_watermark` and with `withWatermark`, and from Parquet and JSON files by Spark's
own streams. `kafka`: from a broker, by the source `strandline` and by Spark's own connector. Kinds take turns, the
first round is not counted, and medians are printed: rows a second in the batches, and how long a query takes outside
of its batches, which a short job pays as well. `backlog`: a job that takes 10 000 rows a batch catches up, as it is and
with a threshold for its backlog.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions

from benchmarks.figures import Figure, Report, arguments, median, run
from benchmarks.spark_exactness import Stage
from spark_integration import exact_watermark, register
from spark_integration.options import BACKLOG_THRESHOLD
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.note import Note
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from tests.served import AT_ONCE
from tools.jars import JarsError, fetched

SEGMENTS: Final = 4
PART_ROWS: Final = 20_000  # appended, and noted, at a time
USUAL_ROWS: Final = 10_000  # a batch of the job that catches up
BACKLOG_ROWS: Final = 1_000_000
START_MS: Final = 1_700_000_000_000
NUMBERS: Final = count(1)
PARTS: Final = ["own", "kafka", "backlog"]

Query = Callable[[], DataFrame]


def parts(rows: int) -> Iterator[list[Event]]:
    """Events a millisecond apart, in turn in each segment."""
    made = (Event(b"%d" % (START_MS + n), key=b"k%d" % (n % 997), segment=str(n % SEGMENTS)) for n in range(rows))
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


def timed(raw: DataFrame) -> DataFrame:
    time_ms = functions.col("value").cast("string").cast("bigint")
    return raw.withColumn("event_time", functions.timestamp_millis(time_ms))


def windows(events: DataFrame) -> DataFrame:
    return events.groupBy(functions.window("event_time", "10 seconds")).count()


def guessed(raw: DataFrame) -> DataFrame:
    """The windows with Spark's own watermark."""
    return windows(timed(raw).withWatermark("event_time", "10 seconds"))


@dataclass(frozen=True, slots=True)
class Taken:
    """How long a query took in its batches, and outside of them."""

    batches_s: float
    start_up_s: float


def taken(query: Query, folder: Path) -> Taken:
    """How long a query takes for all that is there."""
    writer = query().writeStream.outputMode("append").format("noop").trigger(availableNow=True)
    begun = time.monotonic()
    running = writer.option("checkpointLocation", str(folder / f"checkpoint-{next(NUMBERS)}")).start()
    running.awaitTermination()
    whole_s = time.monotonic() - begun
    batches_s = sum(each.durationMs["triggerExecution"] for each in running.recentProgress) / 1000
    return Taken(batches_s, whole_s - batches_s)


@dataclass(frozen=True, slots=True)
class Contest:
    """Queries over the same rows that take turns. The last is compared with each of the others."""

    folder: Path
    rows: int
    rounds: int

    def of(self, kinds: dict[str, Query]) -> list[Figure]:
        """Prints how fast each was, at the median. A round before the others is not counted, unless it is alone."""
        found: dict[str, list[Taken]] = {name: [] for name in kinds}
        for _ in range(self.rounds + 1):
            for name, query in kinds.items():
                found[name].append(taken(query, self.folder))
        counted = {name: each[-self.rounds :] for name, each in found.items()}
        rates = {name: self.rows / median(one.batches_s for one in each) for name, each in counted.items()}
        start_ups = {name: median(one.start_up_s for one in each) for name, each in counted.items()}
        for name, rate in rates.items():
            print(f"{name:44}{rate:>12,.0f} rows/s{start_ups[name]:>8.2f} s of start-up", flush=True)
        *others, ours = rates
        figures = [
            Figure.of(f"rows a second in Spark, {ours}", rates[ours], other, rates[other], "a second")
            for other in others
        ]
        start_up = Figure.of(f"start-up in Spark, {ours}", start_ups[ours], others[0], start_ups[others[0]], "s")
        return [*figures, start_up]


def own_kinds(spark: SparkSession, controller: str, path: Path) -> dict[str, Query]:
    options = {"controller": controller, "stream": "own", "path": str(path)}
    rows = spark.read.format("strandline").options(**options).load().drop("mark", "floor")
    texts = rows.withColumns({name: functions.col(name).cast("string") for name in ("key", "value")})
    parquet, json = str(path.with_suffix(".parquet")), str(path.with_suffix(".json"))
    rows.write.parquet(parquet)
    texts.write.json(json)

    def read() -> DataFrame:
        return timed(spark.readStream.format("strandline").options(**options).load())

    return {
        "Spark's Parquet stream, withWatermark": lambda: guessed(spark.readStream.schema(rows.schema).parquet(parquet)),
        "Spark's JSON stream, withWatermark": lambda: guessed(spark.readStream.schema(texts.schema).json(json)),
        "source strandline, withWatermark": lambda: windows(
            read().where("mark is null").drop("mark", "floor").withWatermark("event_time", "10 seconds")
        ),
        "source strandline, exact_watermark": lambda: windows(exact_watermark(read(), event_time="event_time")),
    }


def backlog_kinds(spark: SparkSession, controller: str, path: Path) -> dict[str, Query]:
    options = {"controller": controller, "stream": "own", "path": str(path), "maxRowsPerBatch": str(USUAL_ROWS)}
    large = {BACKLOG_THRESHOLD: "1 minute", "maxRowsPerBacklogBatch": str(BACKLOG_ROWS)}

    def query(given: dict[str, str]) -> DataFrame:
        return windows(
            exact_watermark(
                timed(spark.readStream.format("strandline").options(**given).load()), event_time="event_time"
            )
        )

    return {
        f"catching up, {USUAL_ROWS:,} rows a batch": lambda: query(options),
        f"the same with {BACKLOG_ROWS:,} while it is behind": lambda: query(options | large),
    }


def kafka_kinds(spark: SparkSession, controller: str, servers: str) -> dict[str, Query]:
    def read(source: str, **options: str) -> DataFrame:
        return spark.readStream.format(source).options(**options, **{"kafka.bootstrap.servers": servers}).load()

    return {
        "Kafka's connector, withWatermark": lambda: guessed(
            read("kafka", subscribe="theirs", startingOffsets="earliest")
        ),
        "source strandline on Kafka, exact_watermark": lambda: windows(
            exact_watermark(
                timed(read("strandline", controller=controller, stream="theirs", log="kafka")), event_time="event_time"
            )
        ),
    }


def fill_kafka(connection: Connection, servers: str, rows: int) -> None:
    from strandline.logs.kafka import KafkaLog

    connection.run(calls.create_stream("theirs", "open", AT_ONCE))
    log = KafkaLog.connect(servers, "theirs")
    for number, part in enumerate(parts(rows), start=1):
        log.append(part)
        note = Note(writer="w", times={"": START_MS + number * PART_ROWS}, position=log.flush())
        connection.run(calls.note("theirs", note))
    log.close()


def with_kafka(stage: Stage, opened: ExitStack, contest: Contest) -> list[Figure]:
    from tests.kafka import Kafka

    kafka = Kafka(fetched("kafka"))
    opened.callback(kafka.remove)
    kafka.create_topic("theirs", SEGMENTS)
    fill_kafka(stage.connection, kafka.servers, contest.rows)
    return contest.of(kafka_kinds(stage.spark, stage.connection.controller, kafka.servers))


def measure(options: argparse.Namespace) -> Report:
    wanted, report = options.only or PARTS, Report()
    more = dict[str, str]()
    if "kafka" in wanted:
        try:
            fetched("kafka")
            more["spark.jars"] = ",".join(sorted(map(str, fetched("spark-kafka").glob("*.jar"))))
        except JarsError as error:
            report.missing.append(f"Spark on Kafka: {error}")
            wanted = [part for part in wanted if part != "kafka"]
    with ExitStack() as opened:
        stage = Stage.open(opened, more)
        register(stage.spark)
        contest, path = Contest(stage.folder, options.rows, options.rounds), stage.folder / "own.db"
        if wanted != ["kafka"]:
            fill(stage.connection, path, options.rows)
        if "own" in wanted:
            report.figures.extend(contest.of(own_kinds(stage.spark, stage.connection.controller, path)))
        if "backlog" in wanted:
            once = Contest(stage.folder, options.rows, 1)
            report.figures.extend(once.of(backlog_kinds(stage.spark, stage.connection.controller, path)))
        if "kafka" in wanted:
            report.figures.extend(with_kafka(stage, opened, contest))
    return report


def main() -> None:
    parser = arguments(__doc__, rows=2_000_000, rounds=3)
    parser.add_argument("--only", choices=PARTS, action="append", help="may be given several times")
    run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
