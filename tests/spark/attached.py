"""Sources that are attached: a folder, a topic. And queries over them, step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from pyspark.sql import functions

from spark_integration import attach
from spark_integration.attachment import reporter
from tests.kafka import Kafka
from tests.spark.queries import last_progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WIDTH_MS = 10_000


class Folder:
    """Writers put files in a folder, each under its own name and number, and note how many they put there."""

    def __init__(self, path: Path, stream: Any) -> None:
        self.path, self.stream = path, stream
        self._counts: dict[str, int] = {}
        self.written: list[int] = []
        path.mkdir()

    def put(self, writer: str, times: list[int]) -> None:
        number = self._counts.get(writer, 0)
        hidden = self.path / f".{writer}-{number:06d}.json"
        hidden.write_text("".join(json.dumps({"time": time}) + "\n" for time in times))
        hidden.rename(self.path / f"{writer}-{number:06d}.json")
        self._counts[writer] = number + 1
        self.written += times

    def mark(self, time: int) -> None:
        self.stream.mark(time, self._counts)

    def seal(self) -> None:
        self.stream.seal(self._counts)

    def truth(self) -> dict[int, int]:
        counts: dict[int, int] = {}
        for each in self.written:
            counts[each // WIDTH_MS * WIDTH_MS] = counts.get(each // WIDTH_MS * WIDTH_MS, 0) + 1
        return counts


class Topic:
    """A topic with one partition, and the stream that has its marks."""

    def __init__(self, spark: SparkSession, kafka: Kafka, stream: Any) -> None:
        self._spark, self._kafka, self.stream = spark, kafka, stream
        self.name = f"topic-of-{stream.name}"
        self.times: list[int] = []
        kafka.create_topic(self.name, 1)

    def send(self, *times: int) -> None:
        producer = Producer({"bootstrap.servers": self._kafka.servers})
        for time in times:
            producer.produce(self.name, key=b"same", value=b"%d" % time)
        assert producer.flush(60) == 0
        self.times += times

    def mark(self, time: int) -> None:
        self.stream.mark(time, {"0": len(self.times)})

    def seal(self) -> None:
        self.stream.seal({"0": len(self.times)})

    def load(self) -> DataFrame:
        reader = self._spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._kafka.servers)
        raw = reader.options(subscribe=self.name, startingOffsets="earliest", maxOffsetsPerTrigger=3).load()
        time = functions.timestamp_millis(functions.col("value").cast("string").cast("bigint"))
        return raw.select("key", time.alias("event_time"))

    def attached(self, **options: Any) -> DataFrame:
        return attach(
            self._spark, self.load(), controller=self.stream.url, stream=self.stream.name, source=self.name,
            event_time="event_time", **options,
        )  # fmt: skip


def settle(spark: SparkSession, run: Any) -> dict[int, int]:
    """What is out when query and listener have nothing left to do: each has something for the other to do."""
    found: dict[int, int] = run.settle()
    for _ in range(3):
        _hear(spark, run)
        found = run.settle()
    return found


def finish(spark: SparkSession, run: Any) -> None:
    """Waits for the end of an `availableNow` run, and until the listener has nothing left to do."""
    run.finish()
    _hear(spark, run)


def _hear(spark: SparkSession, run: Any) -> None:
    last = last_progress(run.query)
    assert last is not None
    reporter(spark).handle_progress(last)  # which Spark may be about to tell the listener
    assert reporter(spark).settle(60)
