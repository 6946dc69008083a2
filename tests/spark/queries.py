"""Queries of tests: how far they are, and how they go on where a Python was too slow to start."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.starting import RestartingQuery
from spark_integration.listener import progress_from

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


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
