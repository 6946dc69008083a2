"""One query over several attached sources, or over one of them twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from spark_integration import detach
from strandline.core.config import StreamConfig
from tests.kafka import Kafka
from tests.spark.attached import WIDTH_MS, Topic, settle

CONFIG = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None)

pytestmark = [pytest.mark.spark, pytest.mark.full]


@pytest.fixture
def topic(spark: SparkSession, spark_kafka_jars: Path, kafka: Kafka, controller: Any) -> Iterator[Callable[[], Topic]]:
    yield lambda: Topic(spark, kafka, controller.stream(CONFIG, segments="open"))
    detach(spark)


def windows(events: DataFrame) -> DataFrame:
    return events.groupBy(functions.window("event_time", f"{WIDTH_MS} milliseconds")).count()


def joined(left: DataFrame, right: DataFrame) -> DataFrame:
    """The events of the left side, by their time: how long after each one another follows on the right, or -1."""
    left, right = left.withColumnRenamed("event_time", "time"), right.withColumnRenamed("event_time", "then")
    near = (functions.col("time") < functions.col("then")) & functions.expr("then <= time + interval 4 seconds")
    found = left.alias("l").join(right.alias("r"), functions.expr("l.key = r.key") & near, "left_outer")
    after = functions.unix_millis("then") - functions.unix_millis("time")
    start = functions.struct(functions.col("time").alias("start")).alias("window")
    return found.select(start, functions.coalesce(after, functions.lit(-1)).alias("count"))


def test_an_attached_topic_is_joined_with_itself(spark: SparkSession, topic: Callable[[], Topic], running: Any) -> None:
    one = topic()

    def itself() -> DataFrame:
        exact = one.attached()
        return joined(exact, exact)

    with running(itself()) as run:
        one.send(1_000, 3_000, 12_000, 25_000)
        assert settle(spark, run) == {1_000: 2_000}
        one.mark(20_000)
        assert settle(spark, run) == {1_000: 2_000, 3_000: -1, 12_000: -1}
    with running(itself(), before=run) as run:
        one.seal()
        assert settle(spark, run) == {1_000: 2_000, 3_000: -1, 12_000: -1, 25_000: -1}


def test_one_topic_attached_twice(spark: SparkSession, topic: Callable[[], Topic], running: Any) -> None:
    one = topic()
    with running(windows(one.attached().union(one.attached()))) as run:
        one.send(1_000, 7_000, 12_000, 13_000, 14_000)
        one.mark(11_000)
        assert settle(spark, run) == {0: 4}
        one.seal()
        assert settle(spark, run) == {0: 4, 10_000: 6}
