"""The embedded log, read side: end offsets, segments, and exact ranges, as Arrow batches or as plain rows.

`strandline.logs.layout` describes the file. Files are opened read-only. Readers and writers do not wait for each
other; a read transaction lasts for one batch, so that a slow reader does not block checkpoints of the write-ahead
file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from strandline.core.segment import Segment
from strandline.fork import OwningProcess
from strandline.logs import BATCH_BYTES, BATCH_FIRST_ROWS, BATCH_GROWTH_TIMES, BATCH_ROWS, StoredEvent, check_range
from strandline.logs.columns import append_times, event_schema
from strandline.logs.errors import LogCorrupt, LogMissing, LogUnavailable, NotInLog
from strandline.logs.identity import alone_in, check_identity, remove_leftovers
from strandline.logs.layout import (
    END_OFFSETS,
    FIRST_OFFSET,
    SEGMENTS,
    check_format,
    read_only_uri,
    segment_of,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager import dbapi

LOG_BUSY_TIMEOUT_MS: Final = 30_000  # how long an append waits for its turn among other writers

# The offsets need not be read: as many rows as a range has offsets, each of them once, are the range.
_RANGE: Final = """
SELECT key, value, appended_at FROM event
WHERE segment = ? AND offset >= ? AND offset < ? ORDER BY offset
"""


def _is_readable(key: object, value: object, appended_at: object) -> bool:
    """Whether the columns of a row are those of an event; in a damaged file they may be anything."""
    return isinstance(key, bytes | None) and isinstance(value, bytes | None) and isinstance(appended_at, int)


class SqliteLogReader:
    """Reads an embedded log. For one thread at a time; another process opens its own by the path.

    For example:

        with SqliteLogReader("orders.log") as log:
            log.end_offsets()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens the log at a path. Raises LogMissing, NotALog or LogVersion."""
        self.path = Path(path)
        if not self.path.is_file():
            raise LogMissing(path=str(self.path.absolute()))
        check_identity(self.path)
        self._arrow: dbapi.Connection | None = None
        self._connection = sqlite3.connect(
            read_only_uri(self.path),
            uri=True,
            timeout=LOG_BUSY_TIMEOUT_MS / 1000,
            isolation_level=None,
            check_same_thread=False,  # one thread at a time, but an async reader uses several
        )
        self._origin = OwningProcess(f"the reader of the log at {str(self.path)!r}")
        self._origin.keep(self._connection)
        self._connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")  # also where damaged
        try:
            check_format(self._connection, str(self.path))
        except BaseException:
            self._connection.close()
            raise

    def end_offsets(self) -> dict[str, int]:
        """The end of every segment as of one moment: a transaction is in all of them or in none."""
        return dict(self._find(END_OFFSETS))

    def head(self) -> dict[str, int]:
        """The first offset that every segment still has; the end of one without events."""
        found = self.end_offsets()
        for segment in found:
            ((first,),) = self._find(FIRST_OFFSET, segment)
            found[segment] = found[segment] if first is None else int(first)
        return found

    def segments(self) -> list[Segment]:
        """All segments, sealed ones too, in the order of creation."""
        return [segment_of(row) for row in self._find(SEGMENTS)]

    def read(self, segment: str, start: int, end: int, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The events from `start` up to, not including, `end`, as Arrow batches with `event_schema()`.

        A batch has at most `batch_rows` rows and about BATCH_BYTES bytes. Needs pyarrow and ADBC's SQLite
        driver, the `sqlite` extra. Raises UnknownSegment, and NotInLog if the log does not hold the whole range:
        it never returns a part.
        """
        self._check_range(segment, start, end)
        return self._batches(segment, start, end, batch_rows)

    def rows(self, segment: str, start: int, end: int) -> Iterator[StoredEvent]:
        """Like `read`, one event at a time, with the standard library only: several times slower."""
        self._check_range(segment, start, end)
        return self._rows(segment, start, end)

    def close(self) -> None:
        """Closes the file. If the log was removed meanwhile, this removes SQLite's files beside it."""
        if not self._origin.is_here:
            return  # SQLite: closing is not safe in a forked process
        self._connection.close()
        if self._arrow is not None:
            self._arrow.close()
        if not self.path.exists():
            with contextlib.suppress(OSError), alone_in(self.path.parent):
                remove_leftovers(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _find(self, statement: str, *values: str | int) -> list[Any]:
        """The rows of a read-only statement; raises LogUnavailable."""
        self._origin.check()
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise LogUnavailable(path=str(self.path), reason=str(error)) from error

    def _check_range(self, segment: str, start: int, end: int) -> None:
        check_range([one.id for one in self.segments()], segment, start, end)

    def _batches(self, segment: str, start: int, end: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        rows = min(BATCH_FIRST_ROWS, batch_rows)
        while start < end:
            self._origin.check()
            stop = min(end, start + rows)
            batch = self._batch(segment, start, stop)
            yield batch
            start = stop
            fitting = batch.num_rows * BATCH_BYTES // max(1, batch.nbytes)
            rows = max(1, min(rows * BATCH_GROWTH_TIMES, fitting, batch_rows))

    def _rows(self, segment: str, start: int, end: int) -> Iterator[StoredEvent]:
        while start < end:
            stop = min(end, start + BATCH_FIRST_ROWS)
            found = self._find(_RANGE, segment, start, stop)
            if len(found) != stop - start:
                raise self._missing(segment, start, stop, len(found))
            for offset, (key, value, appended_at) in enumerate(found, start):
                if not _is_readable(key, value, appended_at):
                    raise LogCorrupt(path=str(self.path), segment=segment, offset=offset)
                yield StoredEvent(segment, offset, key, value, appended_at)
            start = stop

    def _missing(self, segment: str, start: int, stop: int, found: int) -> NotInLog:
        ((first,),) = self._find(FIRST_OFFSET, segment)
        below = first if first is not None and start < first else None
        return NotInLog(segment=segment, start=start, end=stop, found=found, first=below)

    def _batch(self, segment: str, start: int, stop: int) -> pa.RecordBatch:
        import pyarrow as pa
        import pyarrow.compute as pc
        from adbc_driver_manager import dbapi

        # The driver infers a column's type from the values in its first batch, and events may have no key. With a
        # batch larger than the range it checks every row; a column without any value comes as null integers.
        options = {"adbc.sqlite.query.batch_rows": str(stop - start + 1)}
        try:
            with self._arrow_connection().cursor(adbc_stmt_kwargs=options) as cursor:
                cursor.execute(_RANGE, (segment, start, stop))
                table = cursor.fetch_arrow_table()
        except (dbapi.Error, OSError) as error:
            raise LogUnavailable(path=str(self.path), reason=str(error)) from error
        if table.num_rows != stop - start:
            raise self._missing(segment, start, stop, table.num_rows)
        (found,) = table.to_batches()
        kinds = (pa.binary(), pa.binary(), pa.int64())
        key, value, appended_at = (
            pa.nulls(found.num_rows, kind) if column.null_count == found.num_rows else column
            for column, kind in zip(found.columns, kinds, strict=True)
        )
        if (key.type, value.type, appended_at.type) != kinds or appended_at.null_count:
            raise self._damage(segment, start, stop)
        offset = pc.cumulative_sum(pa.repeat(1, found.num_rows), start=start - 1)
        return pa.RecordBatch.from_arrays(
            [
                key,
                value,
                pa.repeat(pa.scalar(segment), found.num_rows),
                offset,
                append_times(appended_at),
            ],
            schema=event_schema(),
        )

    def _damage(self, segment: str, start: int, stop: int) -> LogCorrupt:
        """The error that names the first event of a range that cannot be read."""
        try:
            for _ in self._rows(segment, start, stop):
                pass
        except LogCorrupt as error:
            return error
        return LogCorrupt(path=str(self.path), segment=segment, offset=start)

    def _arrow_connection(self) -> dbapi.Connection:
        if self._arrow is None:
            import adbc_driver_sqlite.dbapi

            self._arrow = adbc_driver_sqlite.dbapi.connect(read_only_uri(self.path))
            self._origin.keep(self._arrow)
        return self._arrow
