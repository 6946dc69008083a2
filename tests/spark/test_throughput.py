"""The benchmark of rows a second works, and gives a figure for each query beside the first."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.spark_exactness import Stage
from benchmarks.spark_throughput import SMALL_BATCHES, FilledTopic, by_itself, fill, turns
from spark_integration import detach
from tests.kafka import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.full]

ROWS = 400


def test_the_exact_watermark_is_measured_beside_sparks_own(
    spark: SparkSession, controller: Any, tmp_path: Path
) -> None:
    fill(controller.connection, tmp_path / "own.db", ROWS)
    stage = Stage(tmp_path, controller.connection, spark)
    found = list(by_itself(stage, tmp_path / "own.db", Namespace(rows=ROWS, rounds=1)))
    ours = "source strandline, exact_watermark"
    assert [(each.what, each.beside.partition(": ")[0]) for each in found] == [
        (f"rows a second in Spark, one batch, {ours}", "Spark's Parquet stream, withWatermark"),
        (f"rows a second in Spark, one batch, {ours}", "Spark's text stream, withWatermark"),
        (f"start-up in Spark, {ours}", "Spark's Parquet stream, withWatermark"),
    ]
    assert all(float(each.ratio.replace(",", "")) > 0 for each in found)


def test_exact_queries_on_kafka_need_at_most_two_batches_more_than_a_plain_one(
    spark: SparkSession, spark_kafka_jars: Path, controller: Any, kafka: Kafka, tmp_path: Path
) -> None:
    topic = FilledTopic.create(Stage(tmp_path, controller.connection, spark), kafka)
    topic.fill(100 * SMALL_BATCHES)
    kinds = [partial(each, 300) for each in (topic.plain, topic.attached, topic.by_source)]
    plain, attached, ours = turns(tmp_path, 1, *kinds)
    detach(spark)
    assert all(len(each.batches_ms[0]) >= 5 and each.steady_ms > 0 for each in (plain, attached, ours))
    assert max(attached.batches[0], ours.batches[0]) <= plain.batches[0] + 2
