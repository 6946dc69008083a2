"""Loads streams and their marks from a store, as domain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import Connection, Select, Table, and_, bindparam, select

from controller.storage import schema
from controller.storage.heads import HEAD_COLUMNS, Head
from controller.storage.kinds import KINDS, kind_of
from controller.storage.marks import excluded_of, newest_marks
from controller.storage.paged_reads import FIRST_STEPS, ITEM_CHARACTERS, Step, Steps, next_step, pages
from controller.storage.rows import (
    AnyRow,
    StreamOrigin,
    by_stream,
    config_of,
    cut_of,
    mark_of,
    numbers_of,
    original_of,
    page_of,
    remainders_of,
    rows_of,
    segment_of,
    to_json,
)
from controller.storage.subjects import Kind, Subject
from controller.storage.unreadable import MISSING, check_name_of, corrupt, decoded, made_of_rows
from controller.storage.writer_states import StoredLog, stored_changes, stored_states, writer_steps
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
MARK_ITEMS: Final = 8  # the work of loading a mark

# Built once: building a query costs more than running it.
_head, _segment = schema.head.c, schema.segment.c
_SEGMENTS: Final = page_of(rows_of(schema.segment).where(_segment.id > bindparam("after")).order_by(_segment.id))


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


def stream_steps(connection: Connection, name: str, unserved: Unserved) -> Steps[StoredStream | None]:
    """Loads a stream from one snapshot, in steps, all of which one thread must run, or close; None if it does not
    exist. `unserved` is that of the controller.

    The time is proportional to the number of rows and to the size of each.
    """
    with connection.begin(), made_of_rows(stream=name):
        return (yield from _stream_steps(connection, name, unserved))


class Large(Enum):
    """In place of a stream."""

    LARGE = auto()  # it takes more steps than are at hand


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
    if any(len(rows) == ROWS_AT_ONCE for rows in found[2:]):
        half = len(names) // 2
        if not half:
            return [LARGE]
        return [each for some in (names[:half], names[half:]) for each in ready_streams(connection, some, unserved)]
    streams, marks, segments, states, changes = map(by_stream, found, ("name", "known_stream", *["stream"] * 3))

    def made(name: str) -> FoundStream:
        if name not in streams:
            return None
        steps = _made(streams[name][0], marks[name], segments[name], states[name], changes[name], unserved)
        try:
            with made_of_rows(stream=name):
                for _ in range(FIRST_STEPS):
                    if (done := next_step(steps)) is not None:
                        return done.result
        except StoreCorrupt as error:
            return error
        steps.close()
        return LARGE

    return list(map(made, names))


def _stream_steps(connection: Connection, name: str, unserved: Unserved) -> Steps[StoredStream | None]:
    kind = kind_of(connection)
    rows = connection.execute(_streams(kind.name), {"names": to_json([name])}).all()
    if not rows:
        return None
    query, given = newest_marks(kind.name, [name])
    marks = connection.execute(query, given).all()
    segments = pages(connection, _SEGMENTS, {"stream": name}, "", "id", lambda row: len(row.predecessors))
    states, changes = stored_states(connection, name), stored_changes(connection, name)
    return (yield from _made(rows[0], marks, segments, states, changes, unserved))


def _made(
    row: AnyRow,
    marks: Iterable[AnyRow],
    segments: Iterable[AnyRow],
    states: Iterable[AnyRow],
    changes: Iterable[AnyRow],
    unserved: Unserved,
) -> Steps[StoredStream]:
    """Makes a stream of its rows."""
    name, found, step = row.name, decoded(schema.stream, row, stream_of), Step()
    head = Head(*[getattr(row, f"head_{each}") for each in Head._fields])
    chains, first_seqs = yield from _newest_marks(name, marks, step)
    last_marks = [chain.last for chain in chains.values() if chain.last is not None]
    graph, places, noted_at = yield from _segments(name, segments, bool(row.open), step)
    stored = yield from writer_steps(name, states, changes)
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
        if step.did(1 + len(writer.key_states)):
            yield
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


def _newest_marks(name: str, rows: Iterable[AnyRow], step: Step) -> Steps[tuple[dict[str, MarkChain], dict[str, int]]]:
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
        if step.did(MARK_ITEMS + len(row.cut) // ITEM_CHARACTERS):
            yield
    return chains, first_seqs


def _segments(
    name: str, rows: Iterable[AnyRow], open: bool, step: Step
) -> Steps[tuple[SegmentGraph, dict[str, int], dict[str, int]]]:
    """The segments of a stream, their places, and when each was last noted."""
    segments, places, noted_at = dict[int, Segment](), dict[str, int](), dict[str, int]()
    for row in rows:
        segments[row.place] = decoded(schema.segment, row, segment_of)
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
