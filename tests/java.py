"""The Javas that tests start, for Spark and Kafka: small ones that begin fast.

Java can keep the classes of a program in an archive, which saves a third of the next start. `python -m tests.java`
makes an archive for Spark and one for Kafka where they are missing; without them everything works as well.

The archives have 171 and 52 MB, which is worth its disk only to who starts Spark many times: users' jobs start as
before.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tools.jars import JARS, JarsError, fetched

# With one tier of the compiler Java keeps 48 MB for code, which a run of all of tests/spark fills.
SMALL: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m", "-XX:+UseSerialGC")
START_S = 60
PATIENCE_S = 240


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def quick_options(classes: Path) -> tuple[str, ...]:
    """Of a Java with the jars of this folder."""
    return (*SMALL, f"-XX:SharedArchiveFile={archive(classes)}")


def spark_options() -> str:
    return " ".join(quick_options(spark_jars()))


def archive(classes: Path) -> Path:
    """Where the classes of these jars are. Java takes an archive only for the very same jars and Java."""
    found = shutil.which(java())
    files = [*([Path(found).resolve()] if found else []), *sorted(classes.glob("*.jar"))]
    known = [f"{file} {status.st_size} {status.st_mtime_ns}" for file in files for status in (file.stat(),)]
    fingerprint = hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]
    return JARS / f"{fingerprint}.jsa"


def spark_jars() -> Path:
    found = find_spec("pyspark")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "jars"


# -- making the archives -------------------------------------------------------------------------------------------


def run_spark(option: str) -> None:
    """A query with state, as tests have many."""
    from pyspark.sql import SparkSession, functions

    os.environ["SPARK_SUBMIT_OPTS"] = " ".join((*SMALL, option))
    settings: dict[str, Any] = {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(3):
            (Path(folder) / f"{number}.json").write_text(f'{{"at": "2026-01-01T00:00:{number}0"}}\n')
        events = spark.readStream.schema("at timestamp").option("maxFilesPerTrigger", 1).json(folder)
        counts = events.withWatermark("at", "1 second").groupBy(functions.window("at", "1 second")).count()
        query = counts.writeStream.format("memory").queryName("counts").start()
        query.processAllAvailable()
        query.stop()
    spark.table("counts").collect()
    spark.stop()


def run_kafka(option: str) -> None:
    """A broker, and a transaction that somebody reads."""
    from confluent_kafka import Consumer, Producer

    from tests.kafka import Kafka

    kafka = Kafka(fetched("kafka"), options=(*SMALL, option))
    kafka.create_topic("events", 1)
    producer = Producer({**kafka.client, "transactional.id": "writer"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("events", b"1")
    producer.commit_transaction()
    consumer = Consumer({**kafka.client, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["events"])
    consumer.poll(START_S)
    consumer.close()
    kafka.end(1)
    kafka.remove()


RUNS: Final = {"spark": run_spark, "kafka": run_kafka}


def make(which: str) -> None:
    """Makes the archive of a program, if it is missing. Where that is not possible tests go without, and say why."""
    try:
        file = archive(spark_jars() if which == "spark" else fetched(which))
    except JarsError:
        return
    if file.exists():
        return
    draft = file.with_suffix(".draft")
    command = [sys.executable, "-m", "tests.java", which, f"-XX:ArchiveClassesAtExit={draft}"]
    # Spark's Java ends after the Python that started it, and holds its output until it has written the archive.
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PATIENCE_S)
    if draft.exists():
        draft.rename(file)


def main(arguments: Sequence[str]) -> None:
    if arguments:
        which, option = arguments
        RUNS[which](option)
        return
    JARS.mkdir(exist_ok=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(make, RUNS))


if __name__ == "__main__":
    main(sys.argv[1:])
