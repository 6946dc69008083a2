"""A user's streaming job, as a process: every stateful operator over one stream, each batch's rows left as a file.

It is started from another folder, with a Python that has Strandline installed; it knows nothing of the tests but the
file with the operators, which travels to the executors by value.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_integration import prepare, read_events, register

LOOK_S = 0.1
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""),  # as the driver's
    "spark.executor.cores": "1",
    "spark.python.unix.domain.socket.enabled": "true",  # as docs/spark.md advises
    "spark.sql.codegen.wholeStage": "false",  # compiling costs more than so few rows gain
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.pollingDelay": "100ms",
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",  # as docs/spark.md asks for
    "spark.sql.session.timeZone": "UTC",
    "spark.task.maxFailures": "10",
}


def session(where: str) -> SparkSession:
    builder: Any = SparkSession.builder.appName("strandline cluster test")
    if where.startswith("sc://"):
        connected: SparkSession = builder.remote(where).getOrCreate()
        return connected
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    made: SparkSession = builder.master(where).getOrCreate()
    return made


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def leave(rows: list[Any], file: Path) -> None:
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps([[row["operator"], row["key"], row["time"], row["value"]] for row in rows]))
    os.replace(draft, file)


def start(query: str, df: DataFrame, given: dict[str, Any], out: Path) -> StreamingQuery:
    """Starts a query. Through Connect its rows go to a table in memory: the server's Python would run our function."""
    writer = df.writeStream.outputMode("append").queryName(query)
    if given["where"].startswith("sc://"):
        return writer.format("memory").start()

    def keep(batch: DataFrame, batch_id: int) -> None:
        leave(batch.collect(), out / f"{query}-{batch_id}.json")

    return writer.foreachBatch(keep).option("checkpointLocation", f"{given['checkpoint']}/{query}").start()


def main() -> None:
    given = json.loads(sys.argv[1])
    out = Path(given["out"])
    sys.path.insert(0, given["operators"])
    made: Any = importlib.import_module("operators")
    by_value: Any = importlib.import_module("pyspark.cloudpickle")
    by_value.register_pickle_by_value(made)
    prepare()
    spark = session(given["where"])
    register(spark)
    read: Callable[[str], DataFrame] = partial(_read, spark, given["options"], made.SCHEMA)
    runs = {"all": start("all", made.operators(read, given["which"]), given, out)}
    if not given["where"].startswith("sc://"):
        spark.conf.set(STATE_STORE, ROCKS)  # which timers need
        runs["timers"] = start("timers", made.timers(read), given, out)
    say("ready")
    while not (out / "stop").exists():
        for run in runs.values():
            if not run.isActive:
                say(f"failed: {run.exception()}")
                sys.exit(1)
        time.sleep(LOOK_S)
    dropped = 0
    for query, run in runs.items():
        run.processAllAvailable()
        if given["where"].startswith("sc://"):
            leave(spark.sql(f"select * from {query}").collect(), out / f"{query}-0.json")
        states = [each for progress in run.recentProgress for each in json.loads(progress.json)["stateOperators"]]
        dropped += sum(each["numRowsDroppedByWatermark"] for each in states)
        run.stop()
    (out / "dropped").write_text(str(dropped))
    spark.stop()


def _read(spark: SparkSession, options: dict[str, Any], schema: str, observation: str) -> DataFrame:
    return read_events(spark, schema=schema, event_time="t", observation=observation, log="sqlite", **options)


if __name__ == "__main__":
    main()
