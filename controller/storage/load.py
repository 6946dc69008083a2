"""Loads streams and their marks from a store, as domain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection, bindparam, select

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
_NEWEST = _OF_KEY.where(_mark.seq > bindparam("after")).order_by(_mark.seq).limit(bindparam("rows"))
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
            key_state.drop_passed(last_times[key])


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
