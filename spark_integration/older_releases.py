"""All that only Spark before 4.2 needs.

Since Spark 4.2 a Python source gets where its next batch begins and how large it may be, and it can prepare an
`availableNow` run. The types for this come from here. Spark 4.0 and 4.1 have neither the types nor the calls, and
report offsets in another form.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_integration.errors import InvalidOption, SparkMismatch, WrongSetting
from spark_integration.releases import INSTALLED, RELEASE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import QueryTerminatedEvent, StreamingQueryProgress

    from spark_integration.source import StrandlineStreamReader

AVAILABLE_NOW: Final = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"  # Spark's setting for older sources

_log = logging.getLogger(__name__)

HAS_LIMITS: Final = RELEASE >= (4, 2)
REPLACES_FOUND: Final = RELEASE >= (4, 1)  # a session may register a source that was found by its name

if TYPE_CHECKING or HAS_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable as ReadAllAvailable,
    )
    from pyspark.sql.streaming.datasource import (
        ReadLimit as ReadLimit,
    )
    from pyspark.sql.streaming.datasource import (
        ReadMaxRows as ReadMaxRows,
    )
    from pyspark.sql.streaming.datasource import (
        SupportsTriggerAvailableNow as SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """What a batch may have."""

    @dataclass(frozen=True)
    class ReadAllAvailable(ReadLimit):
        """Everything."""

    @dataclass(frozen=True)
    class ReadMaxRows(ReadLimit):
        """That many rows."""

        max_rows: int

    class SupportsTriggerAvailableNow:
        """Spark does not look for it."""


LIMITS: Final = ("maxRowsPerBatch", "maxRowsPerBacklogBatch")  # options


def check_limits(options: Mapping[str, str], *, has_limits: bool = HAS_LIMITS) -> None:
    """Raises InvalidOption for a limit that Spark cannot pass on. An `availableNow` run would end after one such batch,
    because before 4.2 it is a single batch."""
    for name in LIMITS:
        if not has_limits and name.lower() in options:
            raise InvalidOption(
                name=name,
                value=options[name.lower()],
                wanted=f"leave it out, or install Spark 4.2 or newer; with Spark {INSTALLED}, which is installed, a "
                "Python source cannot limit its batches",
            )


def check_polling() -> None:
    """Raises SparkMismatch in a Spark Connect client before 4.2, which has no JSON of the offsets."""
    if not HAS_LIMITS:
        raise SparkMismatch(installed=INSTALLED, works="4.2 or newer in a Spark Connect client")


def check_attached(spark: SparkSession) -> None:
    """Raises WrongSetting where Spark would fix the end of an attached query's `availableNow` run before it shows its
    sources where the query stood (decision 0133). The trigger is not known yet."""
    if HAS_LIMITS:
        return
    value = spark.conf.get(AVAILABLE_NOW, "false")
    if value == "true":
        raise WrongSetting(
            setting=AVAILABLE_NOW,
            value=value,
            wanted=f"with Spark {INSTALLED}, it makes the second availableNow run of an attached query fail. Leave it "
            "false where you attach (spark.newSession() has settings of its own), or install Spark 4.2 or newer",
        )
    _log.warning(
        "with Spark %s, an availableNow run of an attached query closes the windows that were complete two runs before",
        INSTALLED,
    )


def make_offsets_text(source: dict[str, Any]) -> None:
    """Makes the offsets in a source's report JSON again, which pyspark does itself only since 4.2."""
    for name in ("startOffset", "endOffset", "latestOffset"):
        if not isinstance(source[name], str):
            source[name] = json.dumps(source[name])


def fit(reader: StrandlineStreamReader) -> DataSourceStreamReader:
    """Returns the reader that the installed Spark can call."""
    return reader if HAS_LIMITS else ReaderWithoutStarts(reader)


class ReaderWithoutStarts(DataSourceStreamReader):
    """A reader for Spark before 4.2, which gives `latestOffset` neither a start nor a limit. So a batch begins where
    the last one ended, and has no limit.

    For an `availableNow` run Spark asks before it shows where the query stands, and again before it reads.
    """

    def __init__(self, reader: StrandlineStreamReader) -> None:
        self._reader = reader
        self._last: dict[str, Any] | None = None  # where the batch ended that Spark planned last
        self._shown: dict[str, Any] | None = None  # where the batch ended that Spark read last

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._reader,)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return self._reader.initialOffset()

    def latestOffset(self, *_: Any) -> dict[str, Any]:  # noqa: N802  # Spark's name
        start = self._last or self.initialOffset()
        self._last = self._reader.end_of_batch(start, self._shown, ReadAllAvailable())
        return self._last

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._last = self._last or end  # a query that starts again shows its last batch here first
        self._shown = end
        return self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)

    def stop(self) -> None:
        self._reader.stop()


class OpenWindows:
    """The runs that have windows to close. Before 4.2 Spark ends an `availableNow` run although one has."""

    def __init__(self, *, has_limits: bool) -> None:
        self._closes_all = has_limits
        self._marks: dict[str, dict[str, int]] = {}  # the last mark of each observation, by current run
        self._to_close: dict[str, str] = {}  # current runs that have windows to close, and what they are called

    def see(self, progress: StreamingQueryProgress, arrived: Mapping[str, int | None], watermark: int | None) -> None:
        """Records whether a batch brought a watermark by which windows are still to be closed."""
        run = str(progress.runId)
        marks = self._marks.setdefault(run, {})
        marks |= {name: mark for name, mark in arrived.items() if mark is not None}
        if marks and progress.stateOperators and min(marks.values()) - 1 > (watermark or 0):
            self._to_close[run] = progress.name or str(progress.id)
        else:
            self._to_close.pop(run, None)

    def end(self, event: QueryTerminatedEvent) -> None:
        """Logs a warning if the run ended too early."""
        self._marks.pop(str(event.runId), None)
        query = self._to_close.pop(str(event.runId), None)
        if query is not None and event.exception is None and not self._closes_all:
            _log.warning(
                "query %s: the run ended before its last windows were closed, which come with the next run: so Spark "
                "%s ends an availableNow run, unless %s is true",
                query,
                INSTALLED,
                AVAILABLE_NOW,
            )
