"""Loads streams and their marks from a store, as domain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, func, select

from controller.limits import ITEM_CHARACTERS, LOADED_MARKS, MARK_ITEMS, QUERY_ITEMS
from controller.storage import schema
from controller.storage.checksums import CHECKSUMS, MISSING, check_name_of, corrupt
from controller.storage.journal import JOURNAL_OF_STREAM, Ends, journal_ends
from controller.storage.rows import (
    AnyRow,
    StreamOrigin,
    config_of,
    cut_of,
    mark_of,
    origin_of,
    remainders_of,
    rows_of,
    segment_of,
)
from controller.storage.steps import Step, pages
from controller.storage.writer_states import StoredLog, writer_steps
from controller.yielding import Steps, at_once
from strandline.core.aggregate import Remainder
from strandline.core.chain import MarkChain
from strandline.core.config import StreamConfig
from strandline.core.cut import NOTHING, Cut
from strandline.core.mark import Mark
from strandline.core.segment import Segment, SegmentGraph
from strandline.core.served_time import Unserved
from strandline.core.stream import Stream
from strandline.core.writer import Writer
from strandline.errors import StoreCorrupt, StrandlineError

# Built once: building a query costs more than running it.
_STREAM = select(schema.stream).where(schema.stream.c.name == bindparam("stream"))
_segment = schema.segment.c
_SEGMENTS = (
    rows_of(schema.segment).where(_segment.id > bindparam("after")).order_by(_segment.id).limit(bindparam("rows"))
)
_mark = schema.mark.c
_KEYS = select(_mark.key, _mark.seq).where(_mark.stream == bindparam("stream")).order_by(_mark.key, _mark.seq).limit(1)
_FIRST_KEY = _KEYS  # with the seq of its oldest mark
_NEXT_KEY = _KEYS.where(_mark.key > bindparam("after"))
_LAST_SEQ = (
    select(_mark.seq)
    .where(_mark.stream == bindparam("stream"), _mark.key == bindparam("key"))
    .order_by(_mark.seq.desc())
    .limit(1)
)
_OF_KEY = rows_of(schema.mark).where(_mark.key == bindparam("key"))
_MARKS = _OF_KEY.where(_mark.seq >= bindparam("first"), _mark.seq <= bindparam("last")).order_by(_mark.seq)
_NEWEST = _OF_KEY.where(_mark.seq > bindparam("after")).order_by(_mark.seq).limit(bindparam("rows"))
_ITS_SEQS = _mark.stream == bindparam("stream"), _mark.key == bindparam("key")
# Two queries: with both in one, SQLite reads all rows.
_ENDS = select(*(select(end(_mark.seq)).where(*_ITS_SEQS).scalar_subquery() for end in (func.min, func.max)))
_FLOOR = _OF_KEY.where(_mark.time <= bindparam("time")).order_by(_mark.time.desc()).limit(1)
_CEILING = _OF_KEY.where(_mark.time >= bindparam("time")).order_by(_mark.time).limit(1)
_START = _OF_KEY.where(_mark.newest < bindparam("time")).order_by(_mark.seq.desc()).limit(1)
_MARK_ROWS: Final = CHECKSUMS[schema.mark]


@dataclass(frozen=True, slots=True)
class StoredStream:
    """A stream as the store has it, with chains of the newest marks of each key."""

    stream: Stream
    origin: StreamOrigin
    fence: int
    chains: dict[str, MarkChain]
    heads: dict[str, list[Mark]]  # the same marks without their cuts
    first_seqs: dict[str, int]
    places: dict[str, int]  # of the segments; a dropped one leaves a gap
    noted_at: dict[str, int]  # when each segment was last noted, if that was stored
    journal: Ends
    log: StoredLog


def load_stream(connection: Connection, name: str, unserved: Unserved | None = None) -> StoredStream | None:
    """Loads a stream from one snapshot; None if it does not exist. `unserved` is that of the controller."""
    return at_once(stream_steps(connection, name, unserved if unserved is not None else Unserved()))


def stream_steps(connection: Connection, name: str, unserved: Unserved) -> Steps[StoredStream | None]:
    """The same in steps, all of which one thread must run, or close.

    The time is proportional to the number of rows and to the size of each.
    """
    with connection.begin():
        row = connection.execute(_STREAM, {"stream": name}).one_or_none()
        if row is None:
            return None
        config, origin, head, remainders = CHECKSUMS[schema.stream].decoded(row, stream_of)
        step = Step()
        chains, heads, first_seqs = yield from _newest_marks(connection, name, step)
        last_marks = [chain.last for chain in chains.values() if chain.last is not None]
        graph, places, noted_at = yield from _segments(connection, name, row.open, step)
        stored = yield from writer_steps(connection, name)
        stream = Stream.restored(
            name,
            config,
            graph,
            sealed=row.sealed,
            epochs=row.epochs,
            head=head,
            clock=row.clock,
            writers=(),
            last_marks=last_marks,
            remainders=remainders,
            unserved=unserved,
        )
        last_times = {mark.key: mark.time for mark in last_marks}
        for writer in stored.writers.values():
            _forget_passed(writer, last_times)
            stream.restore_writer(writer)
            if step.did(1 + len(writer.key_states)):
                yield
        journal = journal_ends(connection, JOURNAL_OF_STREAM, name)
        return StoredStream(
            stream=stream,
            origin=origin,
            fence=row.fence,
            chains=chains,
            heads=heads,
            first_seqs=first_seqs,
            places=places,
            noted_at=noted_at,
            journal=journal,
            log=stored.log,
        )


def stream_of(row: AnyRow) -> tuple[StreamConfig, StreamOrigin, Cut, dict[str, Remainder]]:
    return config_of(row.config), origin_of(row), cut_of(row.head), remainders_of(row.remainders)


def _forget_passed(writer: Writer, last_times: dict[str, int]) -> None:
    """Drops entries below the last mark from the histories: the store does not record that they were dropped."""
    for key, key_state in writer.key_states.items():
        if key in last_times:
            key_state.drop_below(last_times[key])


def _newest_marks(
    connection: Connection, name: str, step: Step
) -> Steps[tuple[dict[str, MarkChain], dict[str, list[Mark]], dict[str, int]]]:
    """By key: the newest marks, the same without their cuts, and the seq of the oldest stored mark."""
    chains, heads, first_seqs = dict[str, MarkChain](), dict[str, list[Mark]](), dict[str, int]()
    found = connection.execute(_FIRST_KEY, {"stream": name}).one_or_none()
    while found is not None:
        key, first = found
        of_key = {"stream": name, "key": key}
        last = connection.execute(_LAST_SEQ, of_key).scalar_one_or_none()
        if last is None:
            raise corrupt(schema.mark, {**of_key, "seq": first}, "its key is not one that can be looked up")
        begin = max(first, last - LOADED_MARKS + 1)
        chain = chains[key] = MarkChain(key, first_seq=begin)
        heads[key], first_seqs[key] = [], first
        for page in pages(connection, _NEWEST, of_key, begin - 1, "seq", lambda row: len(row.cut)):
            for row in page:
                mark = _MARK_ROWS.decoded(row, mark_of)
                try:
                    chain.append(mark)
                except ValueError as error:
                    raise _MARK_ROWS.corrupt(row, str(error)) from error
                heads[key].append(replace(mark, cut=NOTHING))
                if step.did(MARK_ITEMS + len(row.cut) // ITEM_CHARACTERS):
                    yield
        if step.did(2 * QUERY_ITEMS):
            yield
        found = connection.execute(_NEXT_KEY, {"stream": name, "after": key}).one_or_none()
    return chains, heads, first_seqs


def _segments(
    connection: Connection, name: str, open: bool, step: Step
) -> Steps[tuple[SegmentGraph, dict[str, int], dict[str, int]]]:
    """The segments of a stream, their places, and when each was last noted."""
    segments, places, noted_at = dict[int, Segment](), dict[str, int](), dict[str, int]()
    for page in pages(connection, _SEGMENTS, {"stream": name}, "", "id", lambda row: len(row.predecessors)):
        for row in page:
            segments[row.place] = CHECKSUMS[schema.segment].decoded(row, segment_of)
            places[row.id] = row.place
            if row.last_noted_at is not None:
                noted_at[row.id] = row.last_noted_at
            if step.did(1 + len(row.predecessors) // ITEM_CHARACTERS):
                yield
    try:
        graph = SegmentGraph((segments[place] for place in sorted(segments)), open=open)
    except (ValueError, StrandlineError) as error:  # one is missing
        raise StoreCorrupt(stream=name, table=schema.segment.name, reason=str(error)) from error
    return graph, places, noted_at


def stream_names(connection: Connection, after: str, limit: int) -> Sequence[str]:
    """The names that follow `after`, in order."""
    table = schema.stream
    query = select(table.c.name).where(table.c.name > after).order_by(table.c.name).limit(limit)
    with connection.begin():
        names = connection.execute(query).scalars().all()
    for name in names:
        check_name_of(table, name)
    return names


def missing_mark(stream: str, key: str, seq: int) -> StoreCorrupt:
    """The error for a mark that is missing."""
    return corrupt(schema.mark, {"stream": stream, "key": key, "seq": seq}, MISSING)


class MarksGone(Exception):
    """Marks were removed after the caller read which exist, and before it read them: try again."""

    def __init__(self, seq: int) -> None:
        super().__init__(seq)
        self.seq = seq


class StoredMarks:
    """The stored marks of one stream and key, for one transaction. Lookups are binary searches by seq, one query for
    each mark. They share a cache: the searches for both sides of a position begin with the same marks."""

    def __init__(self, connection: Connection, stream: str, key: str) -> None:
        self._connection = connection
        self._of_key = {"stream": stream, "key": key}
        self._seen: dict[int, Mark] = {}

    def between(self, first: int, last: int) -> list[Mark]:
        """The marks from seq `first` to `last`, oldest first, without those that retention has removed. `last` is at
        most the seq of the newest mark.

        Retention removes the oldest marks only, so one that is missing after another raises StoreCorrupt.
        """
        rows = self._connection.execute(_MARKS, {**self._of_key, "first": first, "last": last})
        marks = [_MARK_ROWS.decoded(row, mark_of) for row in rows]
        there = [mark.seq for mark in marks]
        if marks and there != list(range(there[0], last + 1)):
            missing = next((seq for seq in range(there[0], last + 1) if seq not in there), there[0])
            raise corrupt(schema.mark, {**self._of_key, "seq": missing}, MISSING)
        return marks

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
        low, high = first, last + 1  # the answer's seq is below `high`; every mark below `low` is passed
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
                raise corrupt(schema.mark, {**self._of_key, "seq": begin + 1}, "its time is out of order")
        return floor, ceiling

    def start(self, time: int) -> Mark | None:
        """The last mark whose newest is known and below a time."""
        return self._one(_START, time)

    def _one(self, query: Select[Any], time: int) -> Mark | None:
        row = self._connection.execute(query, {**self._of_key, "time": time}).one_or_none()
        return None if row is None else _MARK_ROWS.decoded(row, mark_of)
