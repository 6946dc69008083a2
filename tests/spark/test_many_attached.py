"""The benchmark of `attach` works, and several attached queries close their windows as soon as one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.spark_attach import together
from benchmarks.spark_exactness import Stage
from benchmarks.spark_throughput import FilledTopic
from spark_integration import detach
from tests.kafka import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.full]


@pytest.fixture
def topic(spark: SparkSession, spark_kafka_jars: Path, controller: Any, kafka: Kafka, tmp_path: Path) -> FilledTopic:
    return FilledTopic.create(Stage(tmp_path, controller.connection, spark), kafka)


def test_windows_of_all_queries_close_within_two_batches_of_the_last_note(topic: FilledTopic) -> None:
    found = together(topic, 2, seconds=1)
    detach(topic.stage.spark)
    assert len(found.batches_to_close) == 2
    assert max(found.batches_to_close) <= 2
