"""The process of the Spark job: one session, and the same count of windows with two watermarks.

Spark's first batches take seconds, most of it for loading and compiling Spark itself, so both queries first count a
small sealed stream, whose log is in the same folder. The process ends when both have read the real stream to its end.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from spark_integration import exact_watermark, register
from spark_integration.listener import epoch_ms, watermark_of
from spark_integration.offsets import END_OF_TIME_MS
from strandline_demo.processes import send
from strandline_demo.world import WINDOW_MS

# Spark gives each Python that it starts for a source ten seconds, and no setting changes that. On a busy machine that
# is too short, although nothing is wrong with the source.
TOO_SLOW: Final = "Python worker failed to connect back"
STARTS: Final = 5


class Count:
    """One of the two counts, and its results over all starts of its query."""

    def __init__(self, name: str, delay_ms: int) -> None:
        self.name = name
        self.query: StreamingQuery  # once it is started
        self.watermark_ms = 0
        self._delay_ms = delay_ms
        # By batch: a batch that is repeated after a failure emits its windows again.
        self._windows: dict[int, list[tuple[int, int, int]]] = {}
        self._progress: list[StreamingQueryProgress] = []

    def start(self, events: DataFrame, checkpoint: Path) -> None:
        """Counts the events of each window by their event time, which is in their values."""
        fields = functions.from_json(functions.col("value").cast("string"), "time bigint")
        timed = events.withColumn("event_time", functions.timestamp_millis(fields["time"]))
        if self.name == "exact":
            marked = exact_watermark(timed, event_time="event_time")
        else:  # a mark row, which Spark's own watermark must not see
            rows = timed.where("mark is null").drop("mark")
            marked = rows.withWatermark("event_time", f"{self._delay_ms} milliseconds")
        windows = marked.groupBy(functions.window("event_time", f"{WINDOW_MS} milliseconds")).count()
        writer = windows.writeStream.option("checkpointLocation", str(checkpoint / self.name))
        self.query = writer.foreachBatch(self._emit).trigger(processingTime="500 milliseconds").start()

    def stop(self) -> None:
        self.query.stop()
        self._progress += self.query.recentProgress
        self.watermark_ms = max([self.watermark_ms, *(watermark_of(each) or 0 for each in self._progress)])

    def status(self) -> str:
        """How far the watermark is behind. Raises the error of a failed query."""
        if (error := self.query.exception()) is not None:
            raise error
        if (last := self.query.lastProgress) is not None:
            self.watermark_ms = max(self.watermark_ms, watermark_of(last) or 0)
        if not self.watermark_ms:
            return f"{self.name} has no watermark yet"
        return f"{self.name} {max(0.0, time.time() - self.watermark_ms / 1000):4.1f} s behind"

    def result(self) -> dict[str, object]:
        """The windows, each batch with its watermark, and how many rows were dropped: as `compare` takes them."""
        states = [state for each in self._progress for state in each.stateOperators]
        return {
            "windows": [window for windows in self._windows.values() for window in windows],
            "watermarks": [(epoch_ms(each.timestamp), watermark_of(each) or 0) for each in self._progress],
            "rows_dropped": sum(state.numRowsDroppedByWatermark for state in states),
        }

    def _emit(self, batch: DataFrame, batch_id: int) -> None:
        rows = batch.select(functions.unix_millis("window.start").alias("start"), "count").collect()
        at_ms = time.time_ns() // 1_000_000
        self._windows[batch_id] = [(row["start"], row["count"], at_ms) for row in rows]


def read(spark: SparkSession, options: dict[str, str], counts: Sequence[Count], folder: Path) -> None:
    """Runs both queries until the stream is sealed and read to its end. Starts again if a Python started too slowly."""
    for left in reversed(range(STARTS)):
        started: list[Count] = []
        try:
            for count in counts:
                count.start(spark.readStream.format("strandline").options(**options).load(), folder)
                started.append(count)
            for count in counts:
                count.query.processAllAvailable()
            send(f"reads {options['stream']}")
            while counts[0].watermark_ms < END_OF_TIME_MS:  # the exact one's
                send("status", text="   ".join(count.status() for count in counts))
                time.sleep(0.25)
            for count in counts:
                count.query.processAllAvailable()
            return
        except Exception as error:  # Spark's errors have no root in common
            if TOO_SLOW not in str(error) or not left:
                raise
        finally:
            for count in started:
                count.stop()


def main(controller: str, stream: str, path: str, trial: str, delay_ms: int) -> None:
    """Counts the trial and then the real stream; sends the results of the real one."""
    folder = Path("spark").resolve()
    folder.mkdir()
    # A process that lives for a minute gains nothing from its most thorough compiler.
    java = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -XX:-UsePerfData"
    settings: dict[str, Any] = {
        "spark.driver.host": "127.0.0.1",  # it listens there as well
        "spark.driver.extraJavaOptions": f'{java} "-Djava.io.tmpdir={folder}"',
        "spark.local.dir": str(folder),
        "spark.log.level": "ERROR",
        "spark.ui.enabled": False,
        "spark.sql.codegen.wholeStage": False,  # compiling a plan costs more than so few rows gain
        "spark.sql.shuffle.partitions": 1,
        "spark.sql.streaming.numRecentProgressUpdates": 1_000_000,  # all: dropped rows are summed over every batch
    }
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # else Spark looks up the host's name, which may lead nowhere
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    register(spark)
    counts: list[Count] = []
    for each in (trial, stream):
        counts = [Count("exact", delay_ms), Count("plain", delay_ms)]
        options = {"controller": controller, "stream": each, "path": str(Path(path).with_stem(each))}
        read(spark, options, counts, folder / each)
    send("result", **{count.name: count.result() for count in counts})
    spark.stop()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
