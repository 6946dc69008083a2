"""The intervals in which marks left writers out, as rows: of a stream, and beside the results of a query.

    from timestamp, until timestamp, key string, writers array<string>, open boolean

A window lacks the writers of an interval if it ends after `from`, and not after `until`; null is a `from` before the
first mark, and the `until` of an interval that is still open. See `strandline.core.incomplete.Interval`.

`leftOutTo` names a folder, in which each query keeps a Parquet file of the intervals that it has passed itself. The
task that yields a batch's mark row brings it up to date before, so before any window closes by that mark. What the file
has is a function of the batches, and it is replaced as a whole: a batch that runs again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import ArrayType, BooleanType, StringType, StructField, StructType, TimestampType

from spark_integration.errors import sentence_first
from spark_integration.late_rows import files_of, query_digest
from spark_integration.options import LeftOutOptions
from spark_integration.window_calls import ControllerWindows
from strandline.core.event_time_lag import EventTimeLag
from strandline.core.incomplete import Interval, intervals, passed_on

if TYPE_CHECKING:
    import pyarrow as pa

LEFT_OUT_SCHEMA: Final = StructType(
    [
        StructField("from", TimestampType()),
        StructField("until", TimestampType()),
        StructField("key", StringType()),
        StructField("writers", ArrayType(StringType())),
        StructField("open", BooleanType()),
    ]
)


@dataclass(frozen=True)
class LeftOutRows(InputPartition):
    """All rows of a read: there are few, and only the driver needs to reach the controller."""

    found: tuple[Interval, ...]


class LeftOutReader(DataSourceReader):
    """Reads the intervals of a stream, by its marks. Spark's names; see `pyspark.sql.datasource`."""

    def __init__(self, options: LeftOutOptions) -> None:
        self._options = options

    @sentence_first
    def partitions(self) -> list[InputPartition]:
        lag = EventTimeLag(self._options.max_event_time_lag_ms)
        start = None if self._options.start is None else self._options.start + lag.max_event_time_lag_ms
        with closing(ControllerWindows(self._options.access)) as windows:
            ended = windows.describe().sealed  # before the marks, so that none follows
            floor = None if start is None else windows.marks_at(start).floor
            found = windows.marks_after(0 if floor is None else floor.seq - 1)
            marks = ((lag.at(mark.time), mark.excluded) for mark in found)
            return [LeftOutRows(tuple(intervals(marks, ended=ended)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LeftOutRows)
        yield from _table(partition.found, self._options.access.time_key).to_batches()


@dataclass(frozen=True, slots=True)
class LeftOutFile:
    """What the file of a query has to have with a batch: its mark leaves out the writers of `there`, each with the time
    up to which its events are there. `last` is the mark of the batch before."""

    folder: str
    stream: str
    key: str
    last: int | None
    there: Mapping[str, int | None]

    def write(self) -> None:
        """Brings the file up to date, in a task of the query."""
        from pyarrow import fs, parquet

        files, folder = files_of(self.folder)
        name = f"{self.stream}-{query_digest(self.key)}.parquet"
        path = f"{folder}/{name}"
        exists = files.get_file_info(path).type == fs.FileType.File
        known = _intervals_of(parquet.read_table(path, filesystem=files)) if exists else []
        found = passed_on(known, self.last, self.there)
        if exists and found == known:
            return
        files.create_dir(folder, recursive=True)
        # A rename replaces a file at once; what is no local disk does so when a file is closed.
        written = f"{folder}/.{name}-{uuid4().hex[:8]}" if isinstance(files, fs.LocalFileSystem) else path
        parquet.write_table(_table(found, self.key), written, filesystem=files)
        if written != path:
            files.move(written, path)


def _table(found: Sequence[Interval], key: str) -> pa.Table:
    import pyarrow as pa

    kind = pa.timestamp("us", "UTC")
    columns = {
        "from": pa.array([None if each.since is None else each.since * 1000 for each in found], pa.int64()).cast(kind),
        "until": pa.array([None if each.until is None else each.until * 1000 for each in found], pa.int64()).cast(kind),
        "key": pa.array([key] * len(found), pa.string()),
        "writers": pa.array([list(each.writers) for each in found], pa.list_(pa.string())),
        "open": pa.array([each.until is None for each in found], pa.bool_()),
    }
    return pa.table(columns)


def _intervals_of(table: pa.Table) -> list[Interval]:
    import pyarrow as pa

    times = [
        [None if each is None else each // 1000 for each in table[name].cast(pa.int64()).to_pylist()]
        for name in ("from", "until")
    ]
    rows = zip(*times, table["writers"].to_pylist(), strict=True)
    return [Interval(since=since, until=until, writers=tuple(writers)) for since, until, writers in rows]
