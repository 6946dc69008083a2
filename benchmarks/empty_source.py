"""A Python data source without rows: what a query with it takes longer is what Spark needs for any such source.

It has a module of its own, which imports nothing but pyspark: the Python that Spark starts imports it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType


class EmptySource(DataSource):
    """`format("empty")`, with the one column that the benchmark's events have."""

    @classmethod
    def name(cls) -> str:
        return "empty"

    def schema(self) -> str:
        return "event_time timestamp"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802  # Spark's name
        return EmptyReader()


class EmptyReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Its offset does not move, so it makes no batch."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return {}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        return iter(()), start

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:  # noqa: N802  # Spark's name
        return iter(())

    def prepareForTriggerAvailableNow(self) -> None: ...  # noqa: N802  # Spark's name
