"""Writes late rows to a folder of Parquet files before Spark drops them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_integration.errors import WrongColumn
from spark_integration.rows import FLOOR

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def keep_late(events: DataFrame, event_time: str, folder: str) -> DataFrame:
    """Returns the same rows, and writes those older than their `floor` to a folder. Raises WrongColumn."""
    for column in (FLOOR, "segment", "offset"):
        if column not in events.columns:
            raise WrongColumn(
                column=column,
                found="is not there",
                wanted="late_to names its files after it, so select it along with your own columns",
            )
    return events.mapInArrow(LateKeeper(folder, event_time), events.schema)


@dataclass(frozen=True)
class LateKeeper:
    """Passes Arrow batches on, and writes the late rows of each. It travels to the executors."""

    folder: str
    event_time: str

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
            # The name depends only on the rows, so a task that runs again writes the same file.
            name = f"{segment}-{rows['offset'][0].as_py():016d}.parquet"
            files, path = (
                fs.FileSystem.from_uri(self.folder) if "://" in self.folder else (fs.LocalFileSystem(), self.folder)
            )
            files.create_dir(path, recursive=True)
            parquet.write_table(rows, f"{path}/{name}", filesystem=files)
