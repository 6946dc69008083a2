"""Real Kafka by both roads: the source `strandline`, and Spark's own connector with `attach`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from benchmarks.disorder import PhoneEvent, generate
from spark_integration import attach, detach, exact_watermark, read_between
from strandline.core.config import StreamConfig
from strandline.logs.kafka import KafkaLog
from strandline.logs.kafka_reader import KafkaLogReader
from tests.kafka import Kafka
from tests.spark.attached import settle as settle_attached
from writer_client import Event, Writer

WIDTH_MS = 10_000
CONFIG = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None)

pytestmark = pytest.mark.spark


def topic_of(stream: Any) -> str:
    return f"phones-of-{stream.name}"


class Phones:
    """Phones that send what a seed says, and note time when they have an answer."""

    def __init__(self, stream: Any, kafka: Kafka, opened: ExitStack) -> None:
        self._stream, self._kafka, self._opened = stream, kafka, opened
        self._writers: dict[str, Writer] = {}
        self.sent: list[PhoneEvent] = []

    def send(self, events: list[PhoneEvent], *, first_to: str | None = None) -> None:
        """Each phone sends its own, in the order in which the server received them; the first one to a partition."""
        first = min(each.device for each in events)
        for each in events:
            if each.device not in self._writers:
                log = self._opened.enter_context(KafkaLog.connect(self._kafka.servers, topic_of(self._stream)))
                writer = Writer(self._stream.controller.connection, self._stream.name, each.device, log=log)
                writer.register()
                self._writers[each.device] = writer
            segment = first_to if each.device == first else None
            event = Event(b'{"time": %d}' % each.event_ms, key=each.device.encode(), segment=segment)
            self._writers[each.device].write([event])
        self.sent += events

    def restart(self) -> None:
        """New producers, which know the partitions as they are now."""
        for writer in self._writers.values():
            writer.release()
        self._writers = {}

    def note(self, rest: list[PhoneEvent]) -> None:
        """Each phone notes its oldest event to come."""
        for device, writer in self._writers.items():
            writer.note_time(min((each.event_ms for each in rest if each.device == device), default=self.end_ms))

    @property
    def end_ms(self) -> int:
        return max(each.event_ms for each in self.sent) + 1

    def truth(self) -> dict[int, int]:
        return dict(Counter(each.event_ms // WIDTH_MS * WIDTH_MS for each in self.sent))


@pytest.fixture
def stream(controller: Any, kafka: Kafka) -> Any:
    stream = controller.stream(CONFIG, segments="open")
    kafka.create_topic(topic_of(stream), 2)
    return stream


@pytest.fixture
def phones(stream: Any, kafka: Kafka) -> Iterator[Phones]:
    with ExitStack() as opened:
        yield Phones(stream, kafka, opened)


def windows(events: DataFrame) -> DataFrame:
    return events.groupBy(functions.window("event_time", f"{WIDTH_MS} milliseconds")).count()


def timed(raw: DataFrame) -> DataFrame:
    time = functions.get_json_object(functions.col("value").cast("string"), "$.time").cast("bigint")
    return raw.withColumn("event_time", functions.timestamp_millis(time))


def by_own_source(spark: SparkSession, stream: Any, kafka: Kafka) -> DataFrame:
    reader = spark.readStream.format("strandline").option("kafka.bootstrap.servers", kafka.servers)
    raw = reader.options(controller=stream.url, stream=stream.name, log="kafka", topic=topic_of(stream)).load()
    return windows(exact_watermark(timed(raw), event_time="event_time"))


def by_connector(spark: SparkSession, stream: Any, kafka: Kafka) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.servers)
    raw = reader.options(subscribe=topic_of(stream), startingOffsets="earliest", maxOffsetsPerTrigger=900).load()
    given = {"controller": stream.url, "stream": stream.name, "source": topic_of(stream)}
    return windows(attach(spark, timed(raw), event_time="event_time", group="roads", **given))


def settle(spark: SparkSession, own: Any, other: Any) -> tuple[dict[int, int], dict[int, int]]:
    by_connector = settle_attached(spark, other)
    return own.settle(), by_connector


def test_source_and_connector_give_the_truth_through_partitions_and_restarts(
    spark: SparkSession, spark_kafka_jars: Path, kafka: Kafka, stream: Any, phones: Phones, running: Any
) -> None:
    events = generate(11, devices=4, events=240)
    third = len(events) // 3 - 25
    with (
        running(by_own_source(spark, stream, kafka), "own") as own,
        running(by_connector(spark, stream, kafka), "connector") as other,
    ):
        phones.send(events[:third])
        phones.note(events[third:])
        partly = settle(spark, own, other)
        assert partly[0] == partly[1] != {}
        assert partly[0].items() < phones.truth().items()
        kafka.add_partitions(topic_of(stream), 3)
        phones.restart()
        phones.send(events[third : 2 * third], first_to="2")
        phones.note(events[2 * third :])
        settle(spark, own, other)
    with (
        running(by_own_source(spark, stream, kafka), "own", before=own) as own,
        running(by_connector(spark, stream, kafka), "connector", before=other) as other,
    ):
        phones.send(events[2 * third :], first_to="2")
        phones.note([])
        with KafkaLogReader(kafka.servers, topic_of(stream)) as log:
            ends = log.end_offsets()
        assert len(ends) == 3 and all(ends.values())
        stream.seal(ends)
        assert settle(spark, own, other) == (phones.truth(), phones.truth())
    detach(spark)
    # Read once more, as a batch between two times.
    start, end = events[third].event_ms, events[2 * third].event_ms
    between = read_between(
        spark, controller=stream.url, stream=stream.name, log="kafka", topic=topic_of(stream),
        schema="time bigint", event_time="time", start=start, end=end, **{"kafka.bootstrap.servers": kafka.servers},
    )  # fmt: skip
    assert between.count() == sum(start <= each.event_ms < end for each in events)
