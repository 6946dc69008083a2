"""Rows a second with the exact watermark beside Spark's own, and what large batches gain while a job is behind.

    python -m benchmarks.spark_throughput [--rows 2000000] [--rounds 3] [--only own|kafka|backlog]

`own`: the same query, counts of windows of ten seconds, reads a finished log from its head, from the source
`strandline` with `exact_watermark` and with `withWatermark`. `kafka`: from a broker, by Spark's own connector with
`attach` and with `withWatermark`, and by the source `strandline`. Kinds take turns, the first round is not counted, and
medians are printed. `backlog`: a job that takes 10 000 rows a batch catches up, as it is and with a threshold for its
backlog.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import count, islice
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions

from benchmarks.spark_exactness import CONFIG, session
from logs import Event
from logs.sqlite import SqliteLog
from spark_integration import attach, detach, exact_watermark, register
from spark_integration.options import BACKLOG_THRESHOLD
from strandline.note import Note
from strandline.protocol import calls
from strandline.protocol.transport import Connection

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
    connection.run(calls.create_stream("own", SEGMENTS, CONFIG))
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


def seconds(query: Query, folder: Path) -> float:
    """How long a query takes for all that is there."""
    writer = query().writeStream.outputMode("append").format("noop").trigger(availableNow=True)
    begun = time.monotonic()
    running = writer.option("checkpointLocation", str(folder / f"checkpoint-{next(NUMBERS)}")).start()
    running.awaitTermination()
    return time.monotonic() - begun


def compare(kinds: dict[str, Query], folder: Path, rows: int, rounds: int) -> Iterator[str]:
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds + 1):
        for name, query in kinds.items():
            taken[name].append(seconds(query, folder))
    medians = {name: statistics.median(each[1:]) for name, each in taken.items()}
    first = next(iter(medians.values()))
    for name, each in medians.items():
        yield f"{name:44}{rows / each:>12,.0f} rows/s{first / each:>8.2f}"


def own_kinds(spark: SparkSession, controller: str, path: Path) -> dict[str, Query]:
    def read(**more: str) -> DataFrame:
        options = {"controller": controller, "stream": "own", "path": str(path), **more}
        return timed(spark.readStream.format("strandline").options(**options).load())

    return {
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
    def read() -> DataFrame:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        return timed(reader.options(subscribe="theirs", startingOffsets="earliest").load())

    return {
        "Kafka's connector, withWatermark": lambda: windows(read().withWatermark("event_time", "10 seconds")),
        "Kafka's connector, attach": lambda: windows(
            attach(spark, read(), controller=controller, stream="theirs", event_time="event_time")
        ),
        "source strandline on Kafka, exact_watermark": lambda: windows(
            exact_watermark(timed(_kafka_by_own(spark, controller, servers)), event_time="event_time")
        ),
    }


def _kafka_by_own(spark: SparkSession, controller: str, servers: str) -> DataFrame:
    reader = spark.readStream.format("strandline").option("kafka.bootstrap.servers", servers)
    return reader.options(controller=controller, stream="theirs", log="kafka").load()


def fill_kafka(connection: Connection, servers: str, rows: int) -> None:
    from logs.kafka import KafkaLog

    connection.run(calls.create_stream("theirs", "open", CONFIG))
    log = KafkaLog.connect(servers, "theirs")
    for number, part in enumerate(parts(rows), start=1):
        log.append(part)
        note = Note(writer="w", times={"": START_MS + number * PART_ROWS}, position=log.flush())
        connection.run(calls.note("theirs", note))
    log.close()


def show(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


def main() -> None:
    from tests.kafka import Kafka
    from tests.served import OwnProcess
    from tools.jars import fetched

    parser = argparse.ArgumentParser(description="Rows a second with the exact watermark and with Spark's own.")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=PARTS, action="append", help="may be given several times")
    given = parser.parse_args()
    wanted = given.only or PARTS
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        controller = OwnProcess(folder / "store.db")
        opened.callback(controller.stop)
        connection = opened.enter_context(Connection(controller.url))
        jars = sorted(map(str, fetched("spark-kafka").glob("*.jar"))) if "kafka" in wanted else []
        spark = session(folder, {"spark.jars": ",".join(jars)})
        opened.callback(spark.stop)
        register(spark)
        path = folder / "own.db"
        if wanted != ["kafka"]:
            fill(connection, path, given.rows)
        if "own" in wanted:
            show(compare(own_kinds(spark, controller.url, path), folder, given.rows, given.rounds))
        if "backlog" in wanted:
            show(compare(backlog_kinds(spark, controller.url, path), folder, given.rows, 1))
        if "kafka" in wanted:
            kafka = Kafka(fetched("kafka"))
            opened.callback(kafka.remove)
            kafka.create_topic("theirs", SEGMENTS)
            fill_kafka(connection, kafka.servers, given.rows)
            show(compare(kafka_kinds(spark, controller.url, kafka.servers), folder, given.rows, given.rounds))
            detach(spark)


if __name__ == "__main__":
    main()
