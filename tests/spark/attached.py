"""Queries with an attached source, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_integration.attachment import reporter
from tests.spark.queries import last_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    reporter(spark).hear(last)  # which Spark may be about to tell the listener
    assert reporter(spark).settle(60)
