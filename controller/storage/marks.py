"""Reads stored marks: single ones, in order, around a time or a position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, FromClause, Row, Select, and_, bindparam, func, or_, select

from controller.storage import schema
from controller.storage.given_rows import NUMBER, TEXT, given_rows, with_given_rows
from controller.storage.rows import AnyRow, Query, Values, mark_of, names_of, rows_of
from controller.storage.unreadable import MISSING, corrupt, decoded
from strandline.core.mark import Mark
from strandline.errors import StoreCorrupt

LOADED_MARKS: Final = 256  # of each key, the newest, read when a stream is loaded
LIGHT_CHARACTERS: Final = 4 * 1024 * 1024  # in the names of writers that marks leave out, of marks given at once

# Built once: building a query costs more than running it.
_mark = schema.mark.c
_OF_KEY = rows_of(schema.mark).where(_mark.key == bindparam("key"))
_FLOOR = _OF_KEY.where(_mark.time <= bindparam("time")).order_by(_mark.time.desc()).limit(1)
_CEILING = _OF_KEY.where(_mark.time >= bindparam("time")).order_by(_mark.time).limit(1)
_COMPLETE = _OF_KEY.where(_mark.time >= bindparam("time"), _mark.excluded_since.is_(None)).order_by(_mark.time).limit(1)
_START = _OF_KEY.where(_mark.newest < bindparam("time")).order_by(_mark.newest.desc(), _mark.seq.desc()).limit(1)
_BETWEEN: Final = _OF_KEY.where(_mark.seq >= bindparam("first"), _mark.seq <= bindparam("last")).order_by(_mark.seq)
_EXCLUDED: Final = rows_of(schema.excluded).where(
    schema.excluded.c.key == bindparam("key"), schema.excluded.c.seq == bindparam("seq")
)
_SOME: Final = _OF_KEY.where(_mark.seq.in_(bindparam("seqs", expanding=True))).order_by(_mark.seq)


class MarksGone(Exception):
    """Marks were removed after the caller read which exist, and before it read them: try again."""

    def __init__(self, seq: int) -> None:
        super().__init__(seq)
        self.seq = seq


def light(marks: Iterable[Mark]) -> Iterator[Mark]:
    """The first of these marks: as many as leave out writers with LIGHT_CHARACTERS in their names, and one at least."""
    left, writers, characters = LIGHT_CHARACTERS, tuple[str, ...](), 0
    for count, mark in enumerate(marks):
        if mark.excluded is not writers:
            writers, characters = mark.excluded, sum(map(len, mark.excluded))
        left -= characters
        if left < 0 and count:
            return
        yield mark


class MarkRows:
    """Makes marks of the rows of one stream and key, for one transaction. Marks in a row that leave out the same
    writers share them, and all share the names."""

    def __init__(self, connection: Connection, stream: str, key: str) -> None:
        self._connection = connection
        self._of_key = {"stream": stream, "key": key}
        self._names: dict[str, str] = {}
        self._last: tuple[object, tuple[str, ...]] = (None, ())

    def mark(self, row: Row[Any]) -> Mark:
        """Raises StoreCorrupt for a row that cannot be read."""
        mark = decoded(schema.mark, row, mark_of)
        if row.excluded_since is None:
            return mark
        if row.excluded_since != self._last[0]:
            self._last = row.excluded_since, self._excluded(row.excluded_since)
        return replace(mark, excluded=self._last[1])

    def _excluded(self, seq: int) -> tuple[str, ...]:
        of_row = {**self._of_key, "seq": seq}
        row = self._connection.execute(_EXCLUDED, of_row).one_or_none()
        if row is None:
            raise corrupt(schema.excluded, of_row, MISSING)
        writers = decoded(schema.excluded, row, lambda row: names_of(row.writers))
        return tuple([self._names.setdefault(name, name) for name in writers])


@dataclass(frozen=True, slots=True)
class MarksSince:
    """The marks of a stream that follow some seqs, by key and in order, and the seqs of the oldest marks that the store
    still has, by key, where earlier ones were removed."""

    marks: list[Mark] = field(default_factory=list)
    first_seqs: dict[str, int] = field(default_factory=dict)


def marks_since(database: str, since: Mapping[str, Mapping[str, int]]) -> Query:
    """Selects the marks of each of these streams that follow the given seqs: of a key that is not given, all.
    `since_of` is what the rows of a stream mean, by their column `known_stream`."""
    rows: list[Values] = [{"stream": stream, "key": None, "seq": None} for stream in since]
    rows += [{"stream": stream, "key": key, "seq": seq} for stream, seqs in since.items() for key, seq in seqs.items()]
    return _MARKS_SINCE[database], given_rows(rows)


def since_of(rows: Iterable[AnyRow]) -> MarksSince:
    """Raises StoreCorrupt if one cannot be read."""
    found = MarksSince()
    since_row: tuple[object, ...] = ()
    excluded: tuple[str, ...] = ()
    for row in rows:
        if row.first_seq > 1:
            found.first_seqs[row.known_key] = row.first_seq
        if row.seq is None:
            continue
        mark = decoded(schema.mark, row, mark_of)
        if row.excluded_since is not None:
            if since_row != (since_row := (row.stream, row.key, row.excluded_since)):
                excluded = excluded_of(row)
            mark = replace(mark, excluded=excluded)
        found.marks.append(mark)
    return found


def excluded_of(row: AnyRow) -> tuple[str, ...]:
    """Whom a mark leaves out, with whose row theirs was selected."""
    of_row = {"stream": row.stream, "key": row.key, "seq": row.excluded_since}
    if row.writers is None:
        raise corrupt(schema.excluded, of_row, MISSING)
    try:
        return tuple(names_of(row.writers))
    except ValueError as error:
        raise corrupt(schema.excluded, of_row, f"it cannot be read: {error}") from error


def newest_marks(database: str, streams: Iterable[str]) -> Query:
    """Selects the newest marks of each key of these streams. `since_of` is what the rows of a stream mean."""
    return _NEWEST_MARKS[database], given_rows({"stream": stream, "key": None} for stream in streams)


def _marks_since(given: FromClause) -> Select[Any]:
    def after(keys: FromClause) -> ColumnElement[int]:
        seq = select(given.c.seq).where(given.c.stream == keys.c.stream, given.c.key == keys.c.key)
        return func.coalesce(seq.scalar_subquery(), 0)

    return _marks_after(given, after)


def _newest_marks(given: FromClause) -> Select[Any]:
    def after(keys: FromClause) -> ColumnElement[int]:
        newest = select(func.max(_mark.seq)).where(_mark.stream == keys.c.stream, _mark.key == keys.c.key)
        return newest.scalar_subquery() - LOADED_MARKS

    return _marks_after(given, after)


def _marks_after(given: FromClause, after: Callable[[FromClause], ColumnElement[int]]) -> Select[Any]:
    """It looks up each key of the streams, whether it is given or not: there may be millions of marks. `after` is the
    seq after which those of a key begin."""
    of_stream = select(func.min(_mark.key)).where(_mark.stream == given.c.stream).scalar_subquery()
    keys = select(given.c.stream, of_stream.label("key")).where(given.c.key.is_(None)).cte("keys", recursive=True)
    next_key = select(func.min(_mark.key)).where(_mark.stream == keys.c.stream, _mark.key > keys.c.key)
    keys = keys.union_all(select(keys.c.stream, next_key.scalar_subquery()).where(keys.c.key.is_not(None)))
    first_seq = select(func.min(_mark.seq)).where(_mark.stream == keys.c.stream, _mark.key == keys.c.key)
    columns = after(keys).label("after"), first_seq.scalar_subquery().label("first_seq")
    known = select(keys.c.stream, keys.c.key, *columns).where(keys.c.key.is_not(None)).cte("known")
    known = known.prefix_with("MATERIALIZED")  # else it is looked up for each mark of a key
    of_key = and_(_mark.stream == known.c.stream, _mark.key == known.c.key, _mark.seq > known.c.after)
    excluded = schema.excluded.c
    of_mark = and_(excluded.stream == _mark.stream, excluded.key == _mark.key, excluded.seq == _mark.excluded_since)
    which = known.c.stream.label("known_stream"), known.c.key.label("known_key"), known.c.first_seq, known.c.after
    query = select(schema.mark, excluded.writers, *which).select_from(known).outerjoin(schema.mark, of_key)
    query = query.outerjoin(schema.excluded, of_mark).where(or_(_mark.seq.is_not(None), known.c.first_seq > 1))
    return query.order_by(known.c.stream, known.c.key, _mark.seq)


_MARKS_SINCE: Final = with_given_rows({"stream": TEXT, "key": TEXT, "seq": NUMBER}, _marks_since)
_NEWEST_MARKS: Final = with_given_rows({"stream": TEXT, "key": TEXT}, _newest_marks)


class StoredMarks:
    """The stored marks of one stream and key, for one transaction."""

    def __init__(self, connection: Connection, stream: str, key: str) -> None:
        self._connection = connection
        self._of_key = {"stream": stream, "key": key}
        self._made = MarkRows(connection, stream, key)

    def between(self, first: int, last: int) -> list[Mark]:
        """The marks from seq `first` to `last`, oldest first, without those that retention has removed, as far as they
        are `light`. `last` is at most the seq of the newest mark.

        Retention removes the oldest marks only, so one that is missing after another raises StoreCorrupt.
        """
        rows = self._rows(_BETWEEN, first=first, last=last)
        for seq, row in enumerate(rows, start=rows[0].seq if rows else first):
            if row.seq != seq:
                raise self._missing(seq)
        if rows and rows[-1].seq != last:
            raise self._missing(rows[-1].seq + 1)
        return list(light(map(self._made.mark, rows)))

    def some(self, seqs: Sequence[int]) -> list[Mark]:
        """The marks with these seqs, which rise. Raises MarksGone for the first that there is not."""
        rows = self._rows(_SOME, seqs=seqs)
        if len(rows) < len(seqs):
            raise MarksGone(min(set(seqs).difference(row.seq for row in rows)))
        return list(map(self._made.mark, rows))

    def get(self, seq: int) -> Mark:
        return self.some([seq])[0]

    def around(self, time: int) -> tuple[Mark | None, Mark | None]:
        """The newest mark at or before a time, and the oldest one at or after it that leaves nobody out, if there is
        one: else the oldest."""
        ceiling = self._one(_CEILING, time)
        if ceiling is not None and not ceiling.complete:
            ceiling = self._one(_COMPLETE, time) or ceiling
        return self._one(_FLOOR, time), ceiling

    def start(self, time: int) -> Mark | None:
        """The last mark whose newest is known and below a time."""
        return self._one(_START, time)

    def _one(self, query: Select[Any], time: int) -> Mark | None:
        rows = self._rows(query, time=time)
        return self._made.mark(rows[0]) if rows else None

    def _rows(self, query: Select[Any], **asked: object) -> Sequence[Row[Any]]:
        return self._connection.execute(query, {**self._of_key, **asked}).all()

    def _missing(self, seq: int) -> StoreCorrupt:
        return corrupt(schema.mark, {**self._of_key, "seq": seq}, MISSING)
