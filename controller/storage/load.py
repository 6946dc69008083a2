"""Loads streams and their marks from a store, as domain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import Connection, Select, Table, and_, select

from controller.storage import schema
from controller.storage.heads import HEAD_COLUMNS, Head
from controller.storage.kinds import KINDS, kind_of
from controller.storage.marks import excluded_of, newest_marks
from controller.storage.rows import (
    AnyRow,
    StreamOrigin,
    by_stream,
    config_of,
    cut_of,
    mark_of,
    numbers_of,
    original_of,
    remainders_of,
    rows_of,
    segment_of,
    to_json,
)
from controller.storage.subjects import Kind, Subject
from controller.storage.unreadable import MISSING, check_name_of, corrupt, decoded, made_of_rows
from controller.storage.writer_states import CHANGES, STATES, StoredLog, made_writers
from strandline.core.aggregate import Remainder
from strandline.core.chain import MarkChain
from strandline.core.config import StreamConfig
from strandline.core.cut import Cut
from strandline.core.segment import Segment, SegmentGraph
from strandline.core.served_time import Unserved
from strandline.core.stream import Stream
from strandline.core.writer import StreamWriter
from strandline.errors import StoreCorrupt, StrandlineError

ROWS_AT_ONCE: Final = 2_048  # of a table, for several streams together
CHARACTERS_AT_ONCE: Final = 1024 * 1024  # of what all that has of writers
FETCHED_ROWS: Final = 256  # of a large stream, in memory at once

# Built once: building a query costs more than running it.
_head = schema.head.c
_SEGMENTS: Final = rows_of(schema.segment).order_by(schema.segment.c.id)


@cache
def _streams(database: str) -> Select[Any]:
    """Selects streams with their heads."""
    head = [each.label(f"head_{each.name}") for each in HEAD_COLUMNS]
    of_stream = and_(_head.kind == Kind.STREAM.value, _head.name == schema.stream.c.name)
    query = select(schema.stream, _head.standing, *head).join(schema.head, of_stream)
    return query.where(KINDS[database].among(schema.stream.c.name, "names"))


@cache
def _first_rows(database: str, table: Table) -> Select[Any]:
    """Selects rows of streams in order, no more than are read at once."""
    query = select(table).where(KINDS[database].among(table.c.stream, "names")).order_by(*table.primary_key.columns)
    return query.limit(ROWS_AT_ONCE)


@dataclass(frozen=True, slots=True)
class StoredStream:
    """A stream as the store has it, with chains of the newest marks of each key."""

    stream: Stream
    origin: StreamOrigin
    head: Head
    chains: dict[str, MarkChain]
    first_seqs: dict[str, int]
    places: dict[str, int]  # of the segments; a dropped one leaves a gap
    noted_at: dict[str, int]  # when each segment was last noted, if that was stored
    standing: str
    log: StoredLog


def read_stream(
    connection: Connection, go_on: Callable[[], None], name: str, unserved: Unserved
) -> StoredStream | None:
    """Loads a stream, however large it is, from one snapshot; None if it does not exist. `unserved` is that of the
    controller; `go_on` is called now and then, and may end it by an error."""
    kind, of_stream = kind_of(connection), {"stream": name}

    def rows(query: Select[Any]) -> Iterator[AnyRow]:
        for some in connection.execute(query, of_stream, execution_options={"yield_per": FETCHED_ROWS}).partitions():
            go_on()
            yield from some

    with connection.begin(), made_of_rows(stream=name):
        found = connection.execute(_streams(kind.name), {"names": to_json([name])}).all()
        if not found:
            return None
        query, given = newest_marks(kind.name, [name])
        marks = connection.execute(query, given).all()
        return _made(found[0], marks, rows(_SEGMENTS), rows(STATES), rows(CHANGES), unserved)


class Large(Enum):
    """In place of a stream."""

    LARGE = auto()  # it is loaded by itself


LARGE: Final = Large.LARGE
FoundStream: TypeAlias = StoredStream | StoreCorrupt | Large | None


def ready_streams(connection: Connection, names: Sequence[str], unserved: Unserved) -> list[FoundStream]:
    """Loads several streams from one snapshot, in one round trip, as far as all of them are small. One whose rows
    cannot be read is found as its error."""
    kind, given = kind_of(connection), {"names": to_json(names)}
    of_streams = schema.segment, schema.writer_state, schema.writer_change
    with connection.begin():
        found = kind.select_all(
            connection,
            [
                (_streams(kind.name), given),
                newest_marks(kind.name, names),
                *((_first_rows(kind.name, table), given) for table in of_streams),
            ],
        )
    text = sum(len(row.state) for row in found[3]) + sum(len(row.writers) for row in found[4])
    if text > CHARACTERS_AT_ONCE or any(len(rows) == ROWS_AT_ONCE for rows in found[2:]):
        half = len(names) // 2
        if not half:
            return [LARGE]
        return [each for some in (names[:half], names[half:]) for each in ready_streams(connection, some, unserved)]
    streams, marks, segments, states, changes = map(by_stream, found, ("name", "known_stream", *["stream"] * 3))

    def made(name: str) -> FoundStream:
        if name not in streams:
            return None
        try:
            with made_of_rows(stream=name):
                return _made(streams[name][0], marks[name], segments[name], states[name], changes[name], unserved)
        except StoreCorrupt as error:
            return error

    return list(map(made, names))


def _made(
    row: AnyRow,
    marks: Iterable[AnyRow],
    segments: Iterable[AnyRow],
    states: Iterable[AnyRow],
    changes: Iterable[AnyRow],
    unserved: Unserved,
) -> StoredStream:
    """Makes a stream of its rows."""
    name, found = row.name, decoded(schema.stream, row, stream_of)
    head = Head(*[getattr(row, f"head_{each}") for each in Head._fields])
    chains, first_seqs = _newest_marks(name, marks)
    last_marks = [chain.last for chain in chains.values() if chain.last is not None]
    graph, places, noted_at = _segments(name, segments, bool(row.open))
    stored = made_writers(name, states, changes)
    stream = Stream.restored(
        name,
        found.config,
        graph,
        sealed=bool(row.sealed),
        epochs=row.epochs,
        head=found.head,
        clock=head.clock,
        writers=(),
        last_marks=last_marks,
        remainders=found.remainders,
        passed=found.passed,
        unserved=unserved,
    )
    last_times = {mark.key: mark.time for mark in last_marks}
    for writer in sorted(stored.writers.values(), key=lambda each: each.heard_at):  # as the stream keeps them by state
        _forget_passed(writer, last_times)
        stream.restore_writer(writer)
    return StoredStream(
        stream=stream,
        origin=StreamOrigin(head.identity, row.created_at, found.original),
        head=head,
        chains=chains,
        first_seqs=first_seqs,
        places=places,
        noted_at=noted_at,
        standing=row.standing,
        log=stored.log,
    )


class StreamRow(NamedTuple):
    """What the row of a stream has, besides plain columns."""

    config: StreamConfig
    original: tuple[tuple[str, float, float], ...] | None
    head: Cut
    remainders: dict[str, Remainder]
    passed: dict[str, int]


def stream_of(row: AnyRow) -> StreamRow:
    return StreamRow(
        config_of(row.config),
        original_of(row.original),
        cut_of(row.head),
        remainders_of(row.remainders),
        numbers_of(row.passed),
    )


def _forget_passed(writer: StreamWriter, last_times: dict[str, int]) -> None:
    """Drops entries below the last mark from the histories: the store does not record that they were dropped."""
    for key, key_state in writer.key_states.items():
        if key in last_times:
            key_state.drop_passed(last_times[key])


def _newest_marks(name: str, rows: Iterable[AnyRow]) -> tuple[dict[str, MarkChain], dict[str, int]]:
    """By key: the newest marks, and the seq of the oldest stored mark."""
    chains, first_seqs = dict[str, MarkChain](), dict[str, int]()
    excluded: tuple[object, tuple[str, ...]] = None, ()
    for row in rows:
        key = row.known_key
        if row.seq is None:
            raise corrupt(schema.mark, {"stream": name, "key": key, "seq": row.first_seq}, "it cannot be looked up")
        mark = decoded(schema.mark, row, mark_of)
        if row.excluded_since is not None:
            if excluded[0] != (since := (key, row.excluded_since)):
                excluded = since, excluded_of(row)
            mark = replace(mark, excluded=excluded[1])
        chain = chains.get(key)
        if chain is None:
            chain, first_seqs[key] = chains.setdefault(key, MarkChain()), row.first_seq
            if row.seq > (first := max(row.first_seq, row.after + 1)):
                raise missing_mark(name, key, first)
        try:
            chain.append(mark)
        except ValueError as error:
            raise corrupt(schema.mark, {"stream": name, "key": key, "seq": row.seq}, str(error)) from error
    return chains, first_seqs


def _segments(name: str, rows: Iterable[AnyRow], open: bool) -> tuple[SegmentGraph, dict[str, int], dict[str, int]]:
    """The segments of a stream, their places, and when each was last noted."""
    segments, places, noted_at = dict[int, Segment](), dict[str, int](), dict[str, int]()
    for row in rows:
        segments[row.place] = decoded(schema.segment, row, segment_of)
        places[row.id] = row.place
        if row.last_noted_at is not None:
            noted_at[row.id] = row.last_noted_at
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


def epochs_before(connection: Connection, subject: Subject) -> int:
    """An epoch that nothing of this name has passed, be it deleted, or lost when the store was restored. Runs within
    the caller's transaction."""
    restored_at = connection.execute(select(schema.service.c.restored_at)).scalar_one()
    return max(greatest_deleted_epoch(connection, subject.kind, subject.name), restored_at or 0)


def greatest_deleted_epoch(connection: Connection, kind: Kind, name: str) -> int:
    """The greatest epoch that deleted streams or groups of this name gave out, 0 without any."""
    table = schema.deleted
    query = select(table.c.epochs).where(table.c.kind == kind.value, table.c.name == name)
    return connection.execute(query).scalar_one_or_none() or 0


def missing_mark(stream: str, key: str, seq: int) -> StoreCorrupt:
    """The error for a mark that is missing."""
    return corrupt(schema.mark, {"stream": stream, "key": key, "seq": seq}, MISSING)
