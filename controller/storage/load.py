"""Loads streams and their marks from a store, as domain values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Connection, ScalarSelect, Select, and_, bindparam, func, select

from controller.storage import schema
from controller.storage.heads import Head, head_of
from controller.storage.marks import MarkRows
from controller.storage.paged_reads import FIRST_STEPS, ITEM_CHARACTERS, Step, Steps, next_step, pages
from controller.storage.rows import (
    AnyRow,
    StreamOrigin,
    config_of,
    cut_of,
    numbers_of,
    original_of,
    page_of,
    remainders_of,
    rows_of,
    segment_of,
)
from controller.storage.subjects import Kind, Subject
from controller.storage.unreadable import MISSING, check_name_of, corrupt, decoded, made_of_rows
from controller.storage.writer_states import StoredLog, writer_steps
from strandline.core.aggregate import Remainder
from strandline.core.chain import MarkChain
from strandline.core.config import StreamConfig
from strandline.core.cut import Cut
from strandline.core.segment import Segment, SegmentGraph
from strandline.core.served_time import Unserved
from strandline.core.stream import Stream
from strandline.core.writer import StreamWriter
from strandline.errors import StoreCorrupt, StrandlineError

LOADED_MARKS: Final = 256  # of each key, read when a stream is loaded
MARK_ITEMS: Final = 8  # the work of loading a mark
QUERY_ITEMS: Final = 32  # the work of running a query

# Built once: building a query costs more than running it.
_head = schema.head.c
_STREAM: Final = (
    select(schema.stream, _head.standing)
    .outerjoin(schema.head, and_(_head.kind == Kind.STREAM.value, _head.name == schema.stream.c.name))
    .where(schema.stream.c.name == bindparam("stream"))
)
_segment = schema.segment.c
_SEGMENTS: Final = page_of(rows_of(schema.segment).where(_segment.id > bindparam("after")).order_by(_segment.id))
_mark = schema.mark.c


def _keys() -> Select[Any]:
    """The keys of a stream, in order, each with the seqs of its oldest and newest mark. It looks each of them up, since
    there may be millions of marks."""
    of_stream = _mark.stream == bindparam("stream")

    def first_key(*further: ColumnElement[bool]) -> ScalarSelect[str]:
        in_order = select(_mark.key).where(of_stream, *further).order_by(_mark.key, _mark.seq)
        return in_order.limit(1).scalar_subquery()

    keys = select(first_key().label("key")).cte("keys", recursive=True)
    keys = keys.union_all(select(first_key(_mark.key > keys.c.key)).where(keys.c.key.is_not(None)))
    of_key = of_stream, _mark.key == keys.c.key
    first, last = (select(end(_mark.seq)).where(*of_key).scalar_subquery() for end in (func.min, func.max))
    found = select(keys.c.key, first.label("first"), last.label("last"))
    return found.where(keys.c.key.is_not(None))


_KEYS: Final = _keys()
_OF_KEY = rows_of(schema.mark).where(_mark.key == bindparam("key"))
_NEWEST: Final = page_of(_OF_KEY.where(_mark.seq > bindparam("after")).order_by(_mark.seq))


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


def ready_streams(connection: Connection, wanted: Sequence[tuple[str, Unserved]]) -> list[FoundStream]:
    """Loads several streams from one snapshot, as far as FIRST_STEPS suffice for all of them. One whose rows
    cannot be read is found as its error."""
    with connection.begin():
        steps_left = iter(range(FIRST_STEPS))
        return [_ready_stream(connection, name, unserved, steps_left) for name, unserved in wanted]


def _ready_stream(connection: Connection, name: str, unserved: Unserved, steps_left: Iterator[int]) -> FoundStream:
    steps = _stream_steps(connection, name, unserved)
    try:
        with made_of_rows(stream=name):
            for _ in itertools.chain([0], steps_left):
                if (done := next_step(steps)) is not None:
                    return done.result
    except StoreCorrupt as error:
        return error
    steps.close()
    return LARGE


def _stream_steps(connection: Connection, name: str, unserved: Unserved) -> Steps[StoredStream | None]:
    row = connection.execute(_STREAM, {"stream": name}).one_or_none()
    head = head_of(connection, Subject(Kind.STREAM, name))
    if row is None or head is None:
        return None
    found = decoded(schema.stream, row, stream_of)
    step = Step()
    chains, first_seqs = yield from _newest_marks(connection, name, step)
    last_marks = [chain.last for chain in chains.values() if chain.last is not None]
    graph, places, noted_at = yield from _segments(connection, name, row.open, step)
    stored = yield from writer_steps(connection, name)
    stream = Stream.restored(
        name,
        found.config,
        graph,
        sealed=row.sealed,
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


def _newest_marks(connection: Connection, name: str, step: Step) -> Steps[tuple[dict[str, MarkChain], dict[str, int]]]:
    """By key: the newest marks, and the seq of the oldest stored mark."""
    chains, first_seqs = dict[str, MarkChain](), dict[str, int]()
    for key, first, last in connection.execute(_KEYS, {"stream": name}).all():
        of_key, before = {"stream": name, "key": key}, max(first, last - LOADED_MARKS + 1) - 1
        chain = chains[key] = MarkChain()
        made = MarkRows(connection, name, key)
        first_seqs[key] = first
        for rows in pages(connection, _NEWEST, of_key, before, "seq", lambda row: len(row.cut)):
            for row in rows:
                mark = made.mark(row)
                try:
                    chain.append(mark)
                except ValueError as error:
                    raise corrupt(schema.mark, dict(row._mapping), str(error)) from error
                if step.did(MARK_ITEMS + len(row.cut) // ITEM_CHARACTERS):
                    yield
        if chain.last is None:
            raise corrupt(schema.mark, {**of_key, "seq": first}, "its key is not one that can be looked up")
        if chain.first_seq > before + 1:
            raise missing_mark(name, key, before + 1)
        if step.did(2 * QUERY_ITEMS):
            yield
    return chains, first_seqs


def _segments(
    connection: Connection, name: str, open: bool, step: Step
) -> Steps[tuple[SegmentGraph, dict[str, int], dict[str, int]]]:
    """The segments of a stream, their places, and when each was last noted."""
    segments, places, noted_at = dict[int, Segment](), dict[str, int](), dict[str, int]()
    for page in pages(connection, _SEGMENTS, {"stream": name}, "", "id", lambda row: len(row.predecessors)):
        for row in page:
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
