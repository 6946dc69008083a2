"""A user's streaming job, as a process: counts events in windows of 10 s and leaves each batch's windows as a file.

It is started from another folder, with a Python that has Strandline installed; it knows nothing of the tests.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from spark_integration import exact_watermark, prepare, register

LOOK_S = 0.1


def session(where: str) -> SparkSession:
    builder: Any = SparkSession.builder.appName("strandline cluster test")
    if where.startswith("sc://"):
        connected: SparkSession = builder.remote(where).getOrCreate()
        return connected
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.task.maxFailures": "10",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    made: SparkSession = builder.master(where).getOrCreate()
    return made


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    given = json.loads(sys.argv[1])
    out = Path(given["out"])
    prepare()
    spark = session(given["where"])
    register(spark)
    reader = spark.readStream.format("strandline")
    for name, value in given["options"].items():
        reader = reader.option(name, value)
    time_of = functions.timestamp_millis(functions.col("value").cast("string").cast("bigint"))
    events = exact_watermark(reader.load().withColumn("event_time", time_of), event_time="event_time")
    windows = events.groupBy(functions.window("event_time", "10 seconds")).count()
    starts = windows.select(functions.unix_millis("window.start").alias("start"), "count")
    if given["where"].startswith("sc://"):
        # The server's own process would run a function of ours for every batch; a table in memory does without.
        query = starts.writeStream.outputMode("append").format("memory").queryName("windows")
    else:

        def keep(batch: DataFrame, batch_id: int) -> None:
            rows = {str(row["start"]): row["count"] for row in batch.collect()}
            draft = out / f"{batch_id}.draft"
            draft.write_text(json.dumps(rows))
            os.replace(draft, out / f"{batch_id}.json")

        query = starts.writeStream.outputMode("append").foreachBatch(keep)
        query = query.option("checkpointLocation", given["checkpoint"])
    run = query.start()
    say("ready")
    while not (out / "stop").exists():
        if not run.isActive:
            say(f"failed: {run.exception()}")
            sys.exit(1)
        time.sleep(LOOK_S)
    run.processAllAvailable()
    if given["where"].startswith("sc://"):
        rows = {str(row["start"]): row["count"] for row in spark.sql("select * from windows").collect()}
        (out / "0.json").write_text(json.dumps(rows))
    dropped = sum(
        each["numRowsDroppedByWatermark"]
        for progress in run.recentProgress
        for each in json.loads(progress.json)["stateOperators"]
    )
    (out / "dropped").write_text(str(dropped))
    run.stop()
    spark.stop()


if __name__ == "__main__":
    main()
