"""Several attached queries close their windows as soon as one does."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.spark_delay import TRIGGER, began_ms, wait_for
from benchmarks.spark_exactness import Stage
from benchmarks.spark_throughput import NUMBERS, SEGMENTS, START_MS, FilledTopic, event
from spark_integration import detach
from spark_integration.listener import watermark_of
from strandline.logs.kafka import KafkaLog
from tests.kafka import Kafka
from tests.spark.queries import all_progress

pytestmark = [pytest.mark.spark, pytest.mark.full]


@pytest.fixture
def topic(spark: SparkSession, spark_kafka_jars: Path, controller: Any, kafka: Kafka, tmp_path: Path) -> FilledTopic:
    return FilledTopic.create(Stage(tmp_path, controller.connection, spark), kafka)


def write(topic: FilledTopic, log: KafkaLog, begin_ms: int, times: int) -> int:
    """Appends a few events at a time, and notes; returns the time that was noted last."""
    end_ms = begin_ms + 100 * times
    for now_ms in range(begin_ms, end_ms, 100):
        log.append(event(now_ms + n, n, n % SEGMENTS) for n in range(100))
        topic.note(now_ms + 100, log.flush())
    return end_ms


def closed(query: StreamingQuery, since_ms: float, target_ms: int) -> int | None:
    """How many batches that began since then it took until windows up to a time were closed; None: they are open."""
    later = [each for each in all_progress(query) if began_ms(each) >= since_ms]
    passed = (n for n, each in enumerate(later, start=1) if (watermark_of(each) or 0) >= target_ms - 1)
    return next(passed, None)


def test_windows_of_all_queries_close_within_two_batches_of_the_last_note(topic: FilledTopic) -> None:
    queries = list[Any]()
    with ExitStack() as opened, closing(KafkaLog.connect(topic.kafka.servers, topic.name)) as log:
        begin_ms = write(topic, log, START_MS, 1)
        for _ in range(2):
            writer = topic.attached().writeStream.outputMode("append").format("noop").trigger(processingTime=TRIGGER)
            checkpoint = str(topic.stage.folder / f"checkpoint-{next(NUMBERS)}")
            queries.append(writer.option("checkpointLocation", checkpoint).start())
            opened.callback(queries[-1].stop)
        wait_for(lambda: all(each.lastProgress is not None for each in queries), "the first batch of each query")
        now_ms = write(topic, log, begin_ms, 10)
        for each in queries:
            each.processAllAvailable()
        wait_for(lambda: all(closed(each, 0, now_ms) for each in queries), "everything is read and reported")
        final_ms = now_ms + 60_000
        topic.note(final_ms, log.flush())
        since_ms = time.time() * 1000
        wait_for(lambda: all(closed(each, since_ms, final_ms) for each in queries), "the windows close")
        batches = [closed(each, since_ms, final_ms) or 0 for each in queries]
    detach(topic.stage.spark)
    assert max(batches) <= 2
