"""One query over several attached sources, or over one of them twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from spark_integration import detach
from spark_integration.older_releases import HAS_LIMITS
from strandline.core.config import StreamConfig
from tests.kafka import Kafka
from tests.spark.attached import WIDTH_MS, Topic, finish, settle

CONFIG = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None)

pytestmark = [pytest.mark.spark, pytest.mark.full]


@pytest.fixture
def topic(spark: SparkSession, spark_kafka_jars: Path, kafka: Kafka, controller: Any) -> Iterator[Callable[[], Topic]]:
    yield lambda: Topic(spark, kafka, controller.stream(CONFIG, segments="open"))
    detach(spark)


def windows(events: DataFrame) -> DataFrame:
    return events.groupBy(functions.window("event_time", f"{WIDTH_MS} milliseconds")).count()


def counted(times: list[int]) -> dict[int, int]:
    return dict(Counter(time // WIDTH_MS * WIDTH_MS for time in times))


def test_a_union_of_two_attached_topics_waits_for_both(
    spark: SparkSession, topic: Callable[[], Topic], running: Any
) -> None:
    one, other = topic(), topic()
    both = one.attached().union(other.attached())
    with running(windows(both)) as run:
        one.send(1_000, 12_000)
        other.send(2_000, 13_000)
        one.mark(11_000)
        assert settle(spark, run) == {}
        other.mark(10_500)
        assert settle(spark, run) == {0: 2}
    with running(windows(one.attached().union(other.attached())), before=run) as run:
        one.send(21_000)
        one.seal()
        other.seal()
        assert settle(spark, run) == counted(one.times + other.times)


def test_available_now_runs_over_a_topic_close_what_is_complete_at_their_end(
    spark: SparkSession, topic: Callable[[], Topic], running: Any
) -> None:
    one = topic()

    def run(before: Any = None) -> Any:
        with running(windows(one.attached()), available_now=True, before=before) as run:
            finish(spark, run)
        return run

    one.send(1_000, 12_000, 13_000, 14_000)  # more than a batch takes
    one.mark(11_000)
    first = run()
    third = first if HAS_LIMITS else run(run(first))
    assert third.windows() == {0: 1}
    one.send(15_000)
    one.seal()
    last = run(third)
    assert (last if HAS_LIMITS else run(run(last))).windows() == counted(one.times)


def joined(left: DataFrame, right: DataFrame) -> DataFrame:
    """The events of the left side, by their time: how long after each one another follows on the right, or -1."""
    left, right = left.withColumnRenamed("event_time", "time"), right.withColumnRenamed("event_time", "then")
    near = (functions.col("time") < functions.col("then")) & functions.expr("then <= time + interval 4 seconds")
    found = left.alias("l").join(right.alias("r"), functions.expr("l.key = r.key") & near, "left_outer")
    after = functions.unix_millis("then") - functions.unix_millis("time")
    start = functions.struct(functions.col("time").alias("start")).alias("window")
    return found.select(start, functions.coalesce(after, functions.lit(-1)).alias("count"))


def test_two_attached_topics_are_joined(spark: SparkSession, topic: Callable[[], Topic], running: Any) -> None:
    one, other = topic(), topic()
    with running(joined(one.attached(), other.attached())) as run:
        one.send(1_000, 12_000, 25_000)
        other.send(2_000, 30_000)
        one.mark(20_000)
        assert settle(spark, run) == {1_000: 1_000}
        other.mark(20_000)
        assert settle(spark, run) == {1_000: 1_000, 12_000: -1}
    with running(joined(one.attached(), other.attached()), before=run) as run:
        one.seal()
        other.seal()
        assert settle(spark, run) == {1_000: 1_000, 12_000: -1, 25_000: -1}


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


def test_a_union_of_one_attached_topic_with_itself(
    spark: SparkSession, topic: Callable[[], Topic], running: Any
) -> None:
    one = topic()
    exact = one.attached()
    with running(windows(exact.union(exact.where("event_time > timestamp_millis(5000)")))) as run:
        one.send(1_000, 7_000, 12_000)
        one.mark(11_000)
        assert settle(spark, run) == {0: 3}
        one.seal()
        assert settle(spark, run) == {0: 3, 10_000: 2}


def test_one_topic_attached_twice(spark: SparkSession, topic: Callable[[], Topic], running: Any) -> None:
    one = topic()
    with running(windows(one.attached().union(one.attached()))) as run:
        one.send(1_000, 7_000, 12_000, 13_000, 14_000)
        one.mark(11_000)
        assert settle(spark, run) == {0: 4}
        one.seal()
        assert settle(spark, run) == {0: 4, 10_000: 6}
