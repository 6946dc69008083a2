"""The rows of the sources, as Arrow batches of exactly Spark's schema, and the partitions that they come from.

    key binary, value binary, segment string, offset bigint, appended_at timestamp    an event
    mark timestamp                                                                    a mark row has this
    floor timestamp                                                                   an event older than it is late

On an event row, `floor` is the mark at the end of the previous batch. On a mark row it is the batch's status, in
milliseconds: 1 if the job is in backlog, and 2 for each writer that the mark leaves out; null for neither.
`exact_watermark` uses both columns and drops them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from strandline.logs.columns import event_schema
from strandline.logs.errors import NotInLog
from strandline.logs.places import Place

if TYPE_CHECKING:
    import pyarrow as pa

MARK: Final = "mark"
FLOOR: Final = "floor"
SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("segment", StringType()),
        StructField("offset", LongType()),
        StructField("appended_at", TimestampType()),
        StructField(MARK, TimestampType()),
        StructField(FLOOR, TimestampType()),
    ]
)


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Offsets of one segment."""

    segment: str
    start: int
    end: int


class BatchFile(Protocol):
    """A file that is brought up to date before a batch yields its mark."""

    def write(self) -> None: ...


@dataclass(frozen=True)
class ReadPartition(InputPartition):
    """The work of one task: ranges, which it reads in turn, and the mark row, which one task of a batch has."""

    ranges: tuple[SegmentRange, ...] = ()
    floor: int | None = None
    mark: int | None = None
    status: int = 0  # see `status_of`
    left_out: BatchFile | None = None  # what `leftOutTo` has to have with the mark


def status_of(backlog: bool, left_out: int) -> int:
    """Returns what a mark row has as its `floor`."""
    return backlog + 2 * left_out


def read_partition(place: Place, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one partition. It opens and closes its own connections."""
    if not isinstance(partition, ReadPartition):
        raise TypeError(f"{partition!r} is not a partition of the strandline source")
    if partition.ranges:
        with place.open_reader() as log:
            for each in partition.ranges:
                try:
                    for batch in log.read(each.segment, each.start, each.end):
                        yield _event_batch(batch, partition.floor)
                except NotInLog as error:
                    first = place.head().get(each.segment, 0)
                    if each.start >= first:
                        raise
                    wanted = (
                        f"{place} begins at {first} there, so give a batch read a later start, and a query a new "
                        f"checkpoint and `startingPositions` from {first} on"
                    )
                    raise NotInLog(**{**error.values, "wanted": wanted}) from error
    if partition.left_out is not None:
        partition.left_out.write()
    if partition.mark is not None:
        yield _mark_batch(partition.mark, partition.status)


def _arrow_schema() -> pa.Schema:
    import pyarrow as pa

    kind = pa.timestamp("us", "UTC")
    return event_schema().append(pa.field(MARK, kind)).append(pa.field(FLOOR, kind))


def _event_batch(batch: pa.RecordBatch, floor: int | None) -> pa.RecordBatch:
    import pyarrow as pa

    schema = _arrow_schema()
    kind, rows = schema.field(MARK).type, batch.num_rows
    late_below = pa.nulls(rows, kind) if floor is None else column_of(floor, rows)
    return pa.RecordBatch.from_arrays([*batch.columns, pa.nulls(rows, kind), late_below], schema=schema)


def _mark_batch(mark: int, status: int) -> pa.RecordBatch:
    import pyarrow as pa

    schema, given = _arrow_schema(), {MARK: mark} | ({FLOOR: status} if status else {})
    columns = [column_of(given[one.name], 1) if one.name in given else pa.nulls(1, one.type) for one in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def column_of(time: int, rows: int) -> pa.Array:
    """Returns a column that has one time in each row.

    It is made of bytes, because pyarrow imports pandas before it converts its first value of Python, and a query waits
    for that in each process.
    """
    import pyarrow as pa

    values = (time * 1000).to_bytes(8, sys.byteorder, signed=True) * rows
    return pa.Array.from_buffers(pa.timestamp("us", "UTC"), rows, [None, pa.py_buffer(values)])
