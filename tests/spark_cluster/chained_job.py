"""A user's two chained jobs through Spark Connect, as a process: the first reads files, or a topic through Spark's own
connector, with `attach`; a second one reads its windows.

What the second one has emitted is left as a file whenever it is more.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from spark_integration import FilePositions, LogSink, OutputNotes, attach, detach, read_events

LOOK_S = 0.2


def start(df: DataFrame, sink: Any, checkpoint: Path) -> Any:
    return df.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint)).start()


def attached(spark: SparkSession, given: dict[str, Any], folder: Path) -> DataFrame:
    """The first job's events."""
    topic = given["topic"]
    if topic is None:
        raw = spark.readStream.schema("time bigint").json(str(folder / "files"))
        place: dict[str, Any] = {"source": "files", "positions": FilePositions(folder / "first")}
    else:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", given["servers"])
        records = reader.options(subscribe=topic, startingOffsets="earliest").load()
        raw = records.select(functions.col("value").cast("string").cast("bigint").alias("time"))
        place = {"source": topic}
    timed = raw.withColumn("event_time", functions.timestamp_millis("time"))
    return attach(
        spark, timed, event_time="event_time", controller=given["controller"], stream=given["stream"], **place
    )


def main() -> None:
    given = json.loads(sys.argv[1])
    out, folder = Path(given["out"]), Path(given["folder"])
    builder: Any = SparkSession.builder
    spark: SparkSession = builder.remote(given["where"]).getOrCreate()
    counts = attached(spark, given, folder).groupBy(functions.window("event_time", "10 seconds")).count()
    end = functions.unix_millis("window.end")
    rows = counts.select(
        end.cast("string").alias("key"), functions.to_json(functions.struct(end.alias("time"), "count")).alias("value")
    )
    output: dict[str, Any] = {"log": "sqlite", "path": str(folder / "output.db")}
    notes = OutputNotes(
        spark, controller=given["controller"], stream=given["output"], writer="job-1", seal_at_end=True, **output
    )
    first = start(rows, LogSink("job-1", **output), folder / "first")
    notes.follow(first)
    events = read_events(
        spark, controller=given["controller"], stream=given["output"], schema="time bigint, count bigint",
        event_time="time", **output,
    )  # fmt: skip
    unique = events.dropDuplicates(["time"])  # as they are already
    wide = unique.groupBy(functions.window("time", "30 seconds")).agg(functions.sum("count").alias("count"))
    named = wide.select(functions.unix_millis("window.start").alias("start"), "count")
    second = named.writeStream.format("memory").queryName("wide").start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    emitted = -1
    while not (out / "stop").exists():
        found = sorted((row["start"], row["count"]) for row in spark.sql("select * from wide").collect())
        if len(found) > emitted:
            emitted = len(found)
            (out / "draft").write_text(json.dumps(found))
            os.replace(out / "draft", out / "windows.json")
        for query in (first, second):
            if not query.isActive:
                error = query.exception()
                for each in (first, second):
                    each.stop()  # the server would go on with the other one
                raise RuntimeError(f"a query ended: {error}")
        time.sleep(LOOK_S)
    reports = [json.loads(each.json) for query in (first, second) for each in query.recentProgress]
    dropped = sum(state["numRowsDroppedByWatermark"] for each in reports for state in each["stateOperators"])
    (out / "dropped").write_text(str(dropped))
    for query in (first, second):
        query.stop()
    notes.close()
    detach(spark)
    spark.stop()


if __name__ == "__main__":
    main()
