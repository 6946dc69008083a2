"""Reading a store: streams and their marks, as domain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, select

from controller.limits import LOADED_MARKS
from controller.storage import schema
from controller.storage.journal import JOURNAL_OF_STREAM, Ends, journal_ends
from controller.storage.rows import (
    Origin,
    config_of,
    cut_of,
    mark_of,
    marks_of,
    origin_of,
    rows_of,
    segment_of,
)
from controller.storage.writer_states import StoredLog, load_writers
from strandline.cut import Cut
from strandline.mark import Mark
from strandline.segment import SegmentGraph
from strandline.stream import Stream
from strandline.unserved import Unserved
from strandline.writer import Writer

# Made once: putting a query together costs more than running it.
_STREAM = select(schema.stream).where(schema.stream.c.name == bindparam("stream"))
_SEGMENTS = rows_of(schema.segment).order_by(schema.segment.c.place)
_mark = schema.mark.c
_RANGES = (
    select(_mark.key, func.min(_mark.seq).label("first"), func.max(_mark.seq).label("last"))
    .where(_mark.stream == bindparam("stream"))
    .group_by(_mark.key)
)
_OF_KEY = rows_of(schema.mark).where(_mark.key == bindparam("key"))
_MARKS = _OF_KEY.where(_mark.seq >= bindparam("first"), _mark.seq <= bindparam("last")).order_by(_mark.seq)
_FLOOR = _OF_KEY.where(_mark.time <= bindparam("time")).order_by(_mark.time.desc()).limit(1)
_CEILING = _OF_KEY.where(_mark.time >= bindparam("time")).order_by(_mark.time).limit(1)
_START = _OF_KEY.where(_mark.newest < bindparam("time")).order_by(_mark.seq.desc()).limit(1)


@dataclass(frozen=True, slots=True)
class StoredStream:
    """A stream as the store has it, with the newest marks of each key, oldest first."""

    stream: Stream
    origin: Origin
    fence: int
    marks: dict[str, list[Mark]]
    first_seqs: dict[str, int]
    places: dict[str, int]  # of the segments; one that was dropped leaves a gap
    noted_at: dict[str, int]  # when each segment was last noted, as far as that was stored
    journal: Ends
    log: StoredLog


def load_stream(connection: Connection, name: str, unserved: Unserved | None = None) -> StoredStream | None:
    """A stream by its name, all of it from one moment; None where there is none. `unserved` is its owner's."""
    with connection.begin():
        row = connection.execute(_STREAM, {"stream": name}).one_or_none()
        if row is None:
            return None
        marks, first_seqs = _newest_marks(connection, name)
        last_marks = [of_key[-1] for of_key in marks.values()]
        segments = connection.execute(_SEGMENTS, {"stream": name}).all()
        noted_at = {each.id: each.last_noted_at for each in segments if each.last_noted_at is not None}
        writers, log = load_writers(connection, name)
        _forget_passed(writers, {mark.key: mark.time for mark in last_marks})
        stream = Stream.restored(
            name,
            config_of(row.config),
            SegmentGraph((segment_of(each) for each in segments), open=row.open),
            sealed=row.sealed,
            epochs=row.epochs,
            head=cut_of(row.head),
            clock=row.clock,
            writers=writers,
            last_marks=last_marks,
            unserved=unserved,
        )
        journal = journal_ends(connection, JOURNAL_OF_STREAM, name)
        places = {each.id: each.place for each in segments}
        return StoredStream(stream, origin_of(row), row.fence, marks, first_seqs, places, noted_at, journal, log)


def _forget_passed(writers: Iterable[Writer], last_times: dict[str, int]) -> None:
    """Drops from histories what a mark has left behind: that is never written."""
    for each in writers:
        for key, standing in each.standings.items():
            if key in last_times:
                standing.drop_below(last_times[key])


def _newest_marks(connection: Connection, name: str) -> tuple[dict[str, list[Mark]], dict[str, int]]:
    ranges = connection.execute(_RANGES, {"stream": name}).all()
    marks = {
        row.key: StoredMarks(connection, name, row.key).between(max(row.first, row.last - LOADED_MARKS + 1), row.last)
        for row in ranges
    }
    return marks, {row.key: row.first for row in ranges}


def stream_names(connection: Connection, after: str, limit: int) -> Sequence[str]:
    """Names in order, those that follow `after`."""
    table = schema.stream
    query = select(table.c.name).where(table.c.name > after).order_by(table.c.name).limit(limit)
    with connection.begin():
        return connection.execute(query).scalars().all()


class MarksGone(Exception):
    """Marks were let go after someone looked which there are, and before they were read: look again."""


class StoredMarks:
    """The marks of one stream and key in the store, for one transaction. Each look is a query; lookups are searches by
    seq, and what one of them has seen another finds here: searches for both sides of a position begin alike."""

    def __init__(self, connection: Connection, stream: str, key: str) -> None:
        self._connection = connection
        self._of_key = {"stream": stream, "key": key}
        self._seen: dict[int, Mark] = {}

    def between(self, first: int, last: int) -> list[Mark]:
        """The marks with these seqs and those in between, as far as they exist, oldest first."""
        return marks_of(self._connection.execute(_MARKS, {**self._of_key, "first": first, "last": last}))

    def get(self, seq: int) -> Mark:
        mark = self._seen.get(seq)
        if mark is None:
            found = self.between(seq, seq)
            if not found:
                raise MarksGone(seq)
            mark = self._seen[seq] = found[0]
        return mark

    def passed(self, position: Cut, first: int, last: int) -> Mark | None:
        """Of the marks from `first` to `last`, the newest whose cut is wholly at or below the position."""
        low, high = first, last + 1  # the answer's seq is below `high`, and every one below `low` is passed
        found = None
        while low < high:
            middle = (low + high) // 2
            mark = self.get(middle)
            if mark.cut.le(position):
                low, found = middle + 1, mark
            else:
                high = middle
        return found

    def ahead(self, position: Cut, first: int, last: int) -> Mark | None:
        """Of the marks from `first` to `last`, the oldest not passed whose cut is wholly at or above the position."""
        low, high = first, last + 1
        found = None
        while low < high:
            middle = (low + high) // 2
            mark = self.get(middle)
            if position.le(mark.cut) and mark.cut != position:
                high, found = middle, mark
            else:
                low = middle + 1
        return found

    def floor(self, time: int) -> Mark | None:
        """The newest mark at or before a time."""
        return self._one(_FLOOR, time)

    def ceiling(self, time: int) -> Mark | None:
        """The oldest mark at or after a time."""
        return self._one(_CEILING, time)

    def start(self, time: int) -> Mark | None:
        """The last mark whose newest is known and below a time."""
        return self._one(_START, time)

    def _one(self, query: Select[Any], time: int) -> Mark | None:
        row = self._connection.execute(query, {**self._of_key, "time": time}).one_or_none()
        return None if row is None else mark_of(row)
