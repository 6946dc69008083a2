"""Writes rows that would be lost to Parquet files: late ones, and those without an event time.

Late rows are taken out of the stream as well. Spark drops one only where its window is closed, by a watermark that is
up to two batches old, and that of the slowest stream of the query. So a late row does not show whether its window has
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from spark_integration.errors import WrongColumn
from spark_integration.rows import FLOOR

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs
    from pyspark.sql import DataFrame


def keep_rows(
    events: DataFrame, event_time: str, observation: str, *, late_to: str | None, unreadable_to: str | None
) -> DataFrame:
    """Returns the rows without those older than their `floor`, which go to the one folder, and writes those without an
    event time to the other. Raises WrongColumn."""
    option = "late_to" if late_to is not None else "unreadable_to"
    for column in (FLOOR, "segment", "offset"):
        if column not in events.columns:
            raise WrongColumn(
                column=column,
                found="is not there",
                wanted=f"{option} names its files after it, so select it along with your own columns",
            )
    return events.mapInArrow(RowKeeper(event_time, observation, late_to, unreadable_to), events.schema)


@dataclass(frozen=True)
class RowKeeper:
    """Passes Arrow batches on, and writes some rows of each, all columns. It travels to the executors."""

    event_time: str
    observation: str
    late_to: str | None
    unreadable_to: str | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in batches:
            time = batch[self.event_time]
            if self.unreadable_to is not None:
                self._write(batch.filter(pc.is_null(time)), self.unreadable_to)
            if self.late_to is not None:
                begins = pa.scalar(0, pa.int64()).cast(time.type)  # Spark's watermark does, in 1970
                late = pc.fill_null(pc.or_kleene(pc.less(time, batch[FLOOR]), pc.less(time, begins)), False)
                self._write(batch.filter(late), self.late_to)
                batch = batch.filter(pc.invert(late))
            yield batch

    def _write(self, found: pa.RecordBatch, folder: str) -> None:
        if found.num_rows == 0:
            return
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import parquet

        table, (files, path) = pa.Table.from_batches([found]), files_of(folder)
        for segment in pc.unique(table["segment"]).to_pylist():
            rows = table.filter(pc.equal(table["segment"], segment))
            # A task that runs again writes the same file, and no other stream or query does.
            name = f"{segment}-{rows['offset'][0].as_py():016d}-{query_digest(self.observation)}.parquet"
            files.create_dir(path, recursive=True)
            parquet.write_table(rows, f"{path}/{name}", filesystem=files)


def files_of(folder: str) -> tuple[fs.FileSystem, str]:
    """Returns where a folder is, and its path there."""
    from pyarrow import fs

    return fs.FileSystem.from_uri(folder) if "://" in folder else (fs.LocalFileSystem(), folder)


def query_digest(part: str) -> str:
    """Returns a digest of the query of this task, by the id that its checkpoint has, and of a part of it, such as an
    observation: each stream of a query needs its own."""
    from pyspark import TaskContext

    task = TaskContext.get()
    query = None if task is None else task.getLocalProperty("sql.streaming.queryId")
    return blake2b(f"{query} {part}".encode(), digest_size=8).hexdigest()
