"""The streaming source `strandline`: events of a log, and with each batch the watermark that is true at its end.

    key binary, value binary, segment string, offset bigint, appended_at timestamp, mark timestamp

A batch has its event rows, whose mark is null, and one *mark row*, of which only the mark is set.
`exact_watermark` turns that into Spark's watermark.

Spark builds the reader anew in several Python processes: one that plans, on the driver, for as long as the
query lives, and one for each batch whose reader travels to the executors. So a reader is its options and
nothing else, until it is asked to plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from logs.columns import event_schema
from logs.sqlite_reader import SqliteLogReader
from spark_integration.errors import InvalidOffset, UnsupportedLimit
from spark_integration.offsets import END_OF_TIME_MS, SourceOffset
from spark_integration.options import SourceOptions
from spark_integration.planning import plan_end, split
from spark_integration.windows import ControllerWindows, WindowSettings, WindowSource
from strandline.limits import PARTITION_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("segment", StringType()),
        StructField("offset", LongType()),
        StructField("appended_at", TimestampType()),
        StructField("mark", TimestampType()),
    ]
)


@dataclass(frozen=True)
class SegmentPartition(InputPartition):
    """A range of one segment: the work of one task."""

    segment: str
    start: int
    end: int


@dataclass(frozen=True)
class MarkPartition(InputPartition):
    """The mark row of a batch."""

    mark: int


class StrandlineSource(DataSource):
    """`spark.readStream.format("strandline")`; its options are described in `SourceOptions`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._settings = SourceOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        return "strandline"

    def schema(self) -> StructType:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        return StrandlineStreamReader(self._settings)


class StrandlineStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches and reads them. Spark's names; see `pyspark.sql.datasource`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._open_log: SqliteLogReader | None = None
        self._open_windows: WindowSource | None = None
        self._target: SourceOffset | None = None  # set for availableNow: where to stop

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options,)

    # -- planning, on the driver -----------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return SourceOffset(self._options.start).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        rows = self._options.max_rows_per_batch
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """The end of the next batch; `start` itself where neither data nor the mark moved."""
        begin = SourceOffset.from_json(start)
        ends = self._log().end_offsets()
        self._check_reached(begin, ends)
        if self._target is not None:
            ends = {segment: min(end, self._target.position(segment)) for segment, end in ends.items()}
        # The ends were read before the segments: a segment made in between has no end yet and is left for
        # later.
        planned = plan_end(begin.positions, ends, self._log().segments(), _budget(limit))
        mark = self._bound(planned)
        if self._target is not None:  # the mark may move on for ever, and this run is to end
            mark = None if mark is None or self._target.mark is None else min(mark, self._target.mark)
        return SourceOffset(planned, _later(begin.mark, mark)).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Where the log ends. The mark there is not asked for: this is for progress reports only."""
        return SourceOffset(self._log().end_offsets()).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        ends = self._log().end_offsets()
        planned = plan_end({}, ends, self._log().segments(), None)
        self._target = SourceOffset(planned, self._bound(planned))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, until = SourceOffset.from_json(start), SourceOffset.from_json(end)
        if begin == until:
            return []
        work: list[InputPartition] = [
            SegmentPartition(segment, low, high)
            for segment, offset in until.positions.items()
            for low, high in split(begin.position(segment), offset, PARTITION_ROWS)
        ]
        if until.mark is not None:
            work.append(MarkPartition(until.mark))
        return work

    def stop(self) -> None:
        if self._open_log is not None:
            self._open_log.close()
        if self._open_windows is not None:
            self._open_windows.close()

    # -- reading, on the executors ---------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, as Arrow batches of exactly Spark's schema."""
        match partition:
            case MarkPartition(mark):
                yield _mark_batch(mark)
            case SegmentPartition(segment, start, end):
                with SqliteLogReader(self._options.path) as log:
                    for batch in log.read(segment, start, end):
                        yield _event_batch(batch)
            case other:
                raise TypeError(f"{other!r} is not a partition of the strandline source")

    # -- inside ----------------------------------------------------------------------------------------------

    def _log(self) -> SqliteLogReader:
        if self._open_log is None:
            self._open_log = SqliteLogReader(self._options.path)
        return self._open_log

    def _check_reached(self, begin: SourceOffset, ends: Mapping[str, int]) -> None:
        """A log that ends before the checkpoint is not the log that the checkpoint was made with."""
        for segment, offset in begin.positions.items():
            if offset > ends.get(segment, 0):
                raise InvalidOffset(
                    offset={segment: offset},
                    wanted=f"the log at {self._options.path!r} has {ends.get(segment, 0)} events there; "
                    f"go on with the log that this query began with, or with a new checkpoint",
                )

    def _windows(self) -> WindowSource:
        if self._open_windows is None:
            self._open_windows = ControllerWindows(
                WindowSettings(
                    controller=self._options.controller,
                    stream=self._options.stream,
                    key=self._options.key,
                    token=self._options.token,
                    token_file=self._options.token_file,
                    ca_file=self._options.ca_file,
                    wait_ms=self._options.controller_wait_ms,
                )
            )
        return self._open_windows

    def _bound(self, positions: Mapping[str, int]) -> int | None:
        """What the watermark may be when exactly these positions are read."""
        window = self._windows().time_window({name: offset for name, offset in positions.items() if offset})
        return END_OF_TIME_MS if window.end_of_stream else window.lower


def _budget(limit: ReadLimit) -> int | None:
    match limit:
        case ReadAllAvailable():
            return None
        case ReadMaxRows(rows):
            return rows
        case other:
            raise UnsupportedLimit(limit=repr(other))


def _later(one: int | None, other: int | None) -> int | None:
    """The mark never goes back in a query, whatever the controller says."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _arrow_schema() -> pa.Schema:
    import pyarrow as pa

    return event_schema().append(pa.field("mark", pa.timestamp("us", "UTC")))


def _event_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    schema = _arrow_schema()
    return pa.RecordBatch.from_arrays(
        [*batch.columns, pa.nulls(batch.num_rows, schema.field("mark").type)], schema=schema
    )


def _mark_batch(mark: int) -> pa.RecordBatch:
    import pyarrow as pa

    schema = _arrow_schema()
    columns = [pa.nulls(1, field.type) for field in schema if field.name != "mark"]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array([mark * 1000]).cast(schema.field("mark").type)], schema=schema
    )
