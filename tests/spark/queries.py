"""Queries of tests: how far they are, and how they go on where a Python was too slow to start."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.starting import RestartingQuery
from spark_integration.listener import progress_from
from tests.spark.operators import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS = "spark.sql.shuffle.partitions"
STATES = "org.apache.spark.sql.execution.streaming.state"


def last_progress(query: StreamingQuery) -> StreamingQueryProgress | None:
    """As pyspark's `lastProgress`, which takes a hundred calls to Java where this takes two."""
    java: Any = query
    last = java._jsq.lastProgress()
    return None if last is None else progress_from(json.loads(last.json()))


def all_progress(query: StreamingQuery) -> list[StreamingQueryProgress]:
    """As `recentProgress`, in the same way."""
    java: Any = query
    return [progress_from(json.loads(each.json())) for each in java._jsq.recentProgress()]


def dropped(progress: list[StreamingQueryProgress]) -> int:
    """How many rows Spark dropped as late, over all of these batches and their operators."""
    return sum(each.numRowsDroppedByWatermark for one in progress for each in one.stateOperators)


class Query(RestartingQuery):
    """A query of a test, and all that it reported."""

    def progress(self) -> list[StreamingQueryProgress]:
        """Of every batch, those before it was started again as well."""
        return [each for start in self.starts for each in all_progress(start)]


class Job:
    """A query that keeps what it emits, over several runs."""

    def __init__(self, checkpoint: Path, mode: str = "append", store: str = "HDFSBackedStateStoreProvider") -> None:
        self._checkpoint, self._mode, self._store = checkpoint, mode, f"{STATES}.{store}"
        self._batches: dict[int, Rows] = {}
        self._query: Query | None = None

    @contextmanager
    def running(self, df: DataFrame) -> Iterator[None]:
        self._query = query = Query(lambda: self._start(df))
        try:
            yield
        finally:
            query.stop()
        progress = query.progress()
        assert any(each.stateOperators for each in progress)
        assert not dropped(progress)

    def _start(self, df: DataFrame) -> StreamingQuery:
        writer = df.writeStream.outputMode(self._mode).foreachBatch(self._keep)
        settings = {STATE_STORE: self._store, PARTITIONS: "1"}  # for each of nine operators that keep state
        before = {name: df.sparkSession.conf.get(name) for name in settings}
        for name, value in settings.items():
            df.sparkSession.conf.set(name, value)
        try:
            return writer.option("checkpointLocation", str(self._checkpoint)).start()
        finally:
            for name, usual in before.items():
                df.sparkSession.conf.set(name, usual or "")

    def _keep(self, batch: DataFrame, number: int) -> None:
        found: Rows = Counter((row["operator"], row["key"], row["time"], row["value"]) for row in batch.collect())
        assert self._batches.setdefault(number, found) == found

    @property
    def query(self) -> StreamingQuery:
        assert self._query is not None
        return self._query.now

    def settle(self) -> Rows:
        assert self._query is not None
        self._query.until_at_rest()
        match self._mode:
            case "append":
                return sum(self._batches.values(), Counter())
            case "complete":
                return self._batches[max(self._batches)]
            case _:  # what comes later about a key and time takes the place of what came before
                newest = {row[:3]: row for _, rows in sorted(self._batches.items()) for row in rows}
                return Counter(newest.values())
