"""A query of a test goes on where Spark's bound for starting a Python ended it, and for no other reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.starting import STARTS, TOO_SLOW, patiently
from tests.spark.queries import Query, all_progress, last_progress

pytestmark = pytest.mark.full


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Callable[[list[str], list[int]], Query]:
    """A query that keeps numbers, once it has failed with each of these words."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "numbers.json").write_text('{"n": 1}\n{"n": 2}\n')

    def start(failures: list[str], kept: list[int]) -> Query:
        def keep(batch: DataFrame, _: int) -> None:
            if failures:
                raise RuntimeError(failures.pop())
            kept.extend(row["n"] for row in batch.collect())

        rows = spark.readStream.schema("n int").json(str(tmp_path / "in"))
        writer = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return Query(writer.start)

    return start


@pytest.mark.spark
def test_a_query_with_a_slow_python_restarts_from_its_checkpoint(
    start: Callable[[list[str], list[int]], Query],
) -> None:
    kept = list[int]()
    query = start([TOO_SLOW], kept)
    first: StreamingQuery = query.now
    query.until_at_rest()
    assert sorted(kept) == [1, 2]
    assert (query.now.id, query.now.runId == first.runId) == (first.id, False)
    last = last_progress(query.now)
    assert last is not None and last.numInputRows == 2
    assert query.progress() == [*all_progress(first), last]
    query.stop()


@pytest.mark.spark
def test_a_query_that_ended_for_another_reason_stays_ended(start: Callable[[list[str], list[int]], Query]) -> None:
    kept = list[int]()
    query = start(["the sink is away"], kept)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="the sink is away"):
            query.until_at_rest()
    assert kept == []


def test_what_is_too_slow_each_time_is_given_up() -> None:
    asked = list[int]()

    def ask() -> None:
        asked.append(1)
        raise RuntimeError(TOO_SLOW)

    with pytest.raises(RuntimeError):
        patiently(ask)
    assert len(asked) == STARTS
