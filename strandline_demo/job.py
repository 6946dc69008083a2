"""The process of the Spark job: one session, and the same count of windows with two watermarks.

    python -m strandline_demo.job OBJECT

OBJECT is a `JobPart` as JSON. Spark's first batches take seconds, most of it for loading and compiling Spark itself,
so both queries are first run on a small sealed stream; only then it says that it is ready. It ends by itself when
both queries have read the sealed stream to its end.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from spark_integration import exact_watermark, register
from spark_integration.offsets import END_OF_TIME_MS
from spark_integration.progress import epoch_ms
from strandline_demo.messages import Drained, Emitted, Message, Progress, Ready, to_line
from strandline_demo.starting import RestartingQuery, patiently

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXACT: Final = "exact"
PLAIN: Final = "plain"

TRIGGER_MS: Final = 500
LOOK_EVERY_S: Final = 0.25
PROGRESS_KEPT: Final = 1_000_000  # all of them: the rows that were dropped are summed over every batch


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPart:
    """What the process of the Spark job is told."""

    controller: str
    stream: str
    path: str
    trial_stream: str
    trial_path: str
    folder: str
    window_ms: int
    delay_ms: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


def session(folder: Path) -> SparkSession:
    """A session on two cores, which leaves its files in a folder and listens on loopback only."""
    from pyspark.sql import SparkSession

    scratch = folder / "spark"
    scratch.mkdir()
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # A process that lives for a minute gains nothing from its most thorough compiler.
        "spark.driver.extraJavaOptions": (
            "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -XX:-UsePerfData "
            f'"-Djava.io.tmpdir={scratch}"'
        ),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": 1,
        "spark.sql.codegen.wholeStage": False,  # compiling a plan costs more than so few rows gain
        "spark.sql.streaming.numRecentProgressUpdates": PROGRESS_KEPT,
    }
    builder = SparkSession.builder.master("local[2]").appName("strandline demo")
    made: SparkSession = builder.config(map=settings).getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def exact_counts(spark: SparkSession, part: JobPart, stream: str, path: str) -> DataFrame:
    """The windows with the watermark that the writers' notes make."""
    return _count(exact_watermark(_events(spark, part, stream, path), event_time="event_time"), part)


def plain_counts(spark: SparkSession, part: JobPart, stream: str, path: str) -> DataFrame:
    """The same with Spark's own watermark. To it, a mark row of the source is a row to leave out."""
    events = _events(spark, part, stream, path).where("mark is null").drop("mark")
    return _count(events.withWatermark("event_time", f"{part.delay_ms} milliseconds"), part)


def _events(spark: SparkSession, part: JobPart, stream: str, path: str) -> DataFrame:
    """The stream's events, as any job would parse them: the event time is in the value."""
    from pyspark.sql import functions

    reader = spark.readStream.format("strandline").options(controller=part.controller, stream=stream, path=path)
    fields = functions.from_json(functions.col("value").cast("string"), "time bigint, device string")
    return patiently(reader.load).withColumn("event_time", functions.timestamp_millis(fields["time"]))


def _count(events: DataFrame, part: JobPart) -> DataFrame:
    from pyspark.sql import functions

    return events.groupBy(functions.window("event_time", f"{part.window_ms} milliseconds")).count()


class QueryInProgress(RestartingQuery):
    """One of the two queries, and what it tells."""

    def __init__(self, name: str, windows: DataFrame, folder: Path, tell: Callable[[Message], None]) -> None:
        self.name = name
        self._tell = tell
        self._told_batch = -1
        writer = (
            windows.writeStream.outputMode("append")
            .foreachBatch(self._emit)
            .option("checkpointLocation", str(folder / f"checkpoint-{name}"))
            .trigger(processingTime=f"{TRIGGER_MS} milliseconds")
        )
        super().__init__(writer.start)

    def _emit(self, batch: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions

        rows = batch.select(functions.unix_millis("window.start").alias("start"), "count").collect()
        at_ms = time.time_ns() // 1_000_000
        if rows:
            self._tell(Emitted(self.name, at_ms, tuple((row["start"], row["count"]) for row in rows)))

    def tell_progress(self) -> Progress | None:
        """Tells of the last batch, where that is a new one, and returns it."""
        last = self.now.lastProgress
        if last is None:
            return None
        progress = progress_of(self.name, last)
        if progress.batch != self._told_batch:
            self._told_batch = progress.batch
            self._tell(progress)
        return progress

    def all_progress(self) -> list[Progress]:
        reports = (each for start in self.starts for each in start.recentProgress)
        return [progress_of(self.name, each) for each in reports]


def progress_of(name: str, progress: Any) -> Progress:
    """What the demo wants to know of one of Spark's progress reports."""
    return Progress(
        name,
        batch=progress.batchId,
        at_ms=epoch_ms(progress.timestamp),
        watermark_ms=epoch_ms(progress.eventTime.get("watermark", "1970-01-01T00:00:00.000Z")),
        rows_dropped=sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators),
    )


def run(part: JobPart, tell: Callable[[Message], None]) -> None:
    """Runs both queries until they have read the sealed stream to its end."""
    folder = Path(part.folder)
    spark = session(folder)
    try:
        register(spark)
        trial = part.trial_stream, part.trial_path
        for query in (
            QueryInProgress(EXACT, exact_counts(spark, part, *trial), folder / "trial", _ignore),
            QueryInProgress(PLAIN, plain_counts(spark, part, *trial), folder / "trial", _ignore),
        ):
            query.until_at_rest()
            query.stop()
        real = part.stream, part.path
        exact = QueryInProgress(EXACT, exact_counts(spark, part, *real), folder, tell)
        plain = QueryInProgress(PLAIN, plain_counts(spark, part, *real), folder, tell)
        for query in (exact, plain):
            query.until_at_rest()
        tell(Ready())
        follow(exact, plain)
        for query in (exact, plain):
            query.until_at_rest()
        tell(Drained(tuple(exact.all_progress() + plain.all_progress())))
        for query in (exact, plain):
            query.stop()
    finally:
        spark.stop()


def follow(exact: QueryInProgress, plain: QueryInProgress) -> None:
    """Tells of batches until the exact watermark is at the end of time. Raises what a query fails with."""
    while True:
        for each in (exact, plain):
            each.go_on()
            progress = each.tell_progress()
            if each is exact and progress is not None and progress.watermark_ms == END_OF_TIME_MS:
                return
        time.sleep(LOOK_EVERY_S)


def _ignore(message: Message) -> None:
    """What a trial emits interests no one."""


def main(text: str) -> None:
    """Runs the job. Standard output is for messages alone: what Spark and Java print goes to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lock = threading.Lock()  # the queries tell from threads of their own

    def tell(message: Message) -> None:
        with lock:
            out.write(to_line(message) + "\n")
            out.flush()

    run(JobPart.from_json(text), tell)


if __name__ == "__main__":
    main(sys.argv[1])
