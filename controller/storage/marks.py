"""Reads stored marks: single ones, in order, around a time or a position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Select, bindparam, func, select

from controller.storage import schema
from controller.storage.checksums import CHECKSUMS, MISMATCH, MISSING, corrupt
from controller.storage.rows import cut_of, mark_of, names_of, rows_of
from strandline.core.mark import Mark
from strandline.errors import StoreCorrupt

# Built once: building a query costs more than running it.
_mark = schema.mark.c
_ITS_SEQS = _mark.stream == bindparam("stream"), _mark.key == bindparam("key")
_OF_KEY = rows_of(schema.mark).where(_mark.key == bindparam("key"))
# Two queries: with both in one, SQLite reads all rows.
_ENDS = select(*(select(end(_mark.seq)).where(*_ITS_SEQS).scalar_subquery() for end in (func.min, func.max)))
_FLOOR = _OF_KEY.where(_mark.time <= bindparam("time")).order_by(_mark.time.desc()).limit(1)
_CEILING = _OF_KEY.where(_mark.time >= bindparam("time")).order_by(_mark.time).limit(1)
_COMPLETE = _OF_KEY.where(_mark.time >= bindparam("time"), _mark.excluded == "[]").order_by(_mark.time).limit(1)
_START = _OF_KEY.where(_mark.newest < bindparam("time")).order_by(_mark.seq.desc()).limit(1)
_ROWS: Final = CHECKSUMS[schema.mark]
_COLUMNS = [column for column in schema.mark.columns if column.name not in ("stream", "key")]
_SEQ, _TIME, _UPPER, _CUT, _NEWEST, _EXCLUDED, _CREATED, _FENCE, _CHECKSUM = range(len(_COLUMNS))
_BETWEEN: Final = (
    select(*_COLUMNS)
    .where(*_ITS_SEQS, _mark.seq >= bindparam("first"), _mark.seq <= bindparam("last"))
    .order_by(_mark.seq)
)
_SOME: Final = select(*_COLUMNS).where(*_ITS_SEQS, _mark.seq.in_(bindparam("seqs", expanding=True))).order_by(_mark.seq)


class MarksGone(Exception):
    """Marks were removed after the caller read which exist, and before it read them: try again."""

    def __init__(self, seq: int) -> None:
        super().__init__(seq)
        self.seq = seq


class StoredMarks:
    """The stored marks of one stream and key, for one transaction."""

    def __init__(self, connection: Connection, stream: str, key: str) -> None:
        self._connection = connection
        self._of_key = {"stream": stream, "key": key}

    def between(self, first: int, last: int) -> list[Mark]:
        """The marks from seq `first` to `last`, oldest first, without those that retention has removed. `last` is at
        most the seq of the newest mark.

        Retention removes the oldest marks only, so one that is missing after another raises StoreCorrupt.
        """
        rows = self._rows(_BETWEEN, first=first, last=last)
        for seq, row in enumerate(rows, start=rows[0][_SEQ] if rows else first):
            if row[_SEQ] != seq:
                raise self._corrupt(seq, MISSING)
        if rows and rows[-1][_SEQ] != last:
            raise self._corrupt(rows[-1][_SEQ] + 1, MISSING)
        return [self._mark(row) for row in rows]

    def some(self, seqs: Sequence[int]) -> list[Mark]:
        """The marks with these seqs, which rise. Raises MarksGone for the first that there is not."""
        rows = self._rows(_SOME, seqs=seqs)
        if len(rows) < len(seqs):
            raise MarksGone(min(set(seqs).difference(row[_SEQ] for row in rows)))
        return [self._mark(row) for row in rows]

    def get(self, seq: int) -> Mark:
        return self.some([seq])[0]

    def around(self, time: int) -> tuple[Mark | None, Mark | None]:
        """The newest mark at or before a time, and the oldest one at or after it.

        Raises StoreCorrupt if another mark is between them: the query skipped a damaged one.
        """
        floor, ceiling = self._one(_FLOOR, time), self._one(_CEILING, time)
        if floor is not None or ceiling is not None:
            oldest, newest = self._connection.execute(_ENDS, self._of_key).one()
            begin = floor.seq if floor is not None else oldest - 1
            end = ceiling.seq if ceiling is not None else newest + 1
            if end - begin > 1:
                self.between(begin + 1, begin + 1)
                raise self._corrupt(begin + 1, "its time is out of order")
        return floor, ceiling

    def complete(self, time: int) -> Mark | None:
        """The oldest mark at or after a time that leaves nobody out."""
        return self._one(_COMPLETE, time)

    def start(self, time: int) -> Mark | None:
        """The last mark whose newest is known and below a time."""
        return self._one(_START, time)

    def _one(self, query: Select[Any], time: int) -> Mark | None:
        row = self._connection.execute(query, {**self._of_key, "time": time}).one_or_none()
        return None if row is None else _ROWS.decoded(row, mark_of)

    def _rows(self, query: Select[Any], **asked: object) -> Sequence[Any]:
        """The rows of a query, whose checksums match."""
        rows = self._connection.execute(query, {**self._of_key, **asked}).all()
        names = tuple(self._of_key.values())
        for row in rows:
            if _ROWS.of_covered((*names, *row[:_CHECKSUM])) != row[_CHECKSUM]:
                raise self._corrupt(row[_SEQ], MISMATCH)
        return rows

    def _mark(self, row: Any) -> Mark:
        try:
            return Mark(
                seq=row[_SEQ],
                key=self._of_key["key"],
                time=row[_TIME],
                upper=row[_UPPER],
                cut=cut_of(row[_CUT]),
                newest=row[_NEWEST],
                excluded=() if row[_EXCLUDED] == "[]" else tuple(names_of(row[_EXCLUDED])),
                created_at=row[_CREATED],
            )
        except (ValueError, TypeError, msgspec.MsgspecError) as error:
            raise self._corrupt(row[_SEQ], f"it cannot be read: {error}") from error

    def _corrupt(self, seq: int, reason: str) -> StoreCorrupt:
        return corrupt(schema.mark, {**self._of_key, "seq": seq}, reason)
