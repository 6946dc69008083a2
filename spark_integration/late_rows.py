"""Writes late rows to a folder of Parquet files before Spark drops them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from spark_integration.errors import WrongColumn
from spark_integration.rows import FLOOR

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def keep_late(events: DataFrame, event_time: str, folder: str, observation: str) -> DataFrame:
    """Returns the same rows, and writes those older than their `floor` to a folder. Raises WrongColumn."""
    for column in (FLOOR, "segment", "offset"):
        if column not in events.columns:
            raise WrongColumn(
                column=column,
                found="is not there",
                wanted="late_to names its files after it, so select it along with your own columns",
            )
    return events.mapInArrow(LateKeeper(folder, event_time, observation), events.schema)


@dataclass(frozen=True)
class LateKeeper:
    """Passes Arrow batches on, and writes the late rows of each. It travels to the executors."""

    folder: str
    event_time: str
    observation: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._write(batch)
            yield batch

    def _write(self, batch: pa.RecordBatch) -> None:
        import pyarrow.compute as pc

        late = batch.filter(pc.less(batch[self.event_time], batch[FLOOR]))
        if late.num_rows == 0:
            return
        import pyarrow as pa
        from pyarrow import fs, parquet

        table = pa.Table.from_batches([late]).drop_columns([FLOOR])
        for segment in pc.unique(table["segment"]).to_pylist():
            rows = table.filter(pc.equal(table["segment"], segment))
            # A task that runs again writes the same file, and no other stream or query does.
            name = f"{segment}-{rows['offset'][0].as_py():016d}-{self._origin()}.parquet"
            files, path = (
                fs.FileSystem.from_uri(self.folder) if "://" in self.folder else (fs.LocalFileSystem(), self.folder)
            )
            files.create_dir(path, recursive=True)
            parquet.write_table(rows, f"{path}/{name}", filesystem=files)

    def _origin(self) -> str:
        """Returns a digest of the query, by the id that its checkpoint has, and of its observation: each stream of a
        query needs its own."""
        from pyspark import TaskContext

        task = TaskContext.get()
        query = None if task is None else task.getLocalProperty("sql.streaming.queryId")
        return blake2b(f"{query} {self.observation}".encode(), digest_size=8).hexdigest()
