"""Writers as documents and back: whole, one to a row, and as flushes changed them, in the rows of a log.

What a flush changed is one row, however many writers it concerns: a row costs more than what is in it. A writer's own
row is written anew when the log lets go of what is newer (`controller.services.writer_log`). Who loads a stream reads
both: each row as of its `through`, and after it what the log has with a greater seq.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import Connection

from controller.storage import schema
from controller.storage.rows import Values, rows_of
from strandline.cut import NOTHING, Cut
from strandline.writer import Entry, Phase, Standing, Writer

Document: TypeAlias = tuple[Any, ...]  # a StoredWriter, put together without one: every note makes some


class StoredStanding(msgspec.Struct, array_like=True, frozen=True):
    """A standing with its history or, unless `whole`, what came to that. An entry without a cut has the position's."""

    phase: str
    floor: int | None
    time: int | None
    newest: int | None
    has_noted: bool
    lost_at: int | None
    told_floor: int | None
    whole: bool
    history: list[tuple[int, dict[str, int] | None, int | None]]


class StoredWriter(msgspec.Struct, array_like=True, frozen=True):
    """A writer. Without `noted`, it noted what its position says. Without `served_at`, it was stored before revision
    0008, when nothing had been unserved yet as far as the store knows."""

    name: str
    heard_at: int
    tail: bool
    epoch: int | None
    closed: bool
    closed_epoch: int | None
    excluded_at: int | None
    noted: dict[str, int] | None
    position: dict[str, int]
    standings: dict[str, StoredStanding]
    served_at: int | None = None


_encoder = msgspec.json.Encoder()
_writer = msgspec.json.Decoder(StoredWriter)
_writers = msgspec.json.Decoder(list[StoredWriter])


# -- writing -------------------------------------------------------------------------------------------------------


def document_of(writer: Writer, *, whole: bool) -> Document:
    """The writer as of now, with its whole history or with what came to it since the last time."""
    position = writer.position
    standings = {}
    for key, each in writer.standings.items():
        rewritten, entries = each.drain()
        if whole:
            rewritten, entries = True, each.history
        standings[key] = (
            each.phase, each.floor, each.time, each.newest, each.has_noted, each.lost_at, each.told_floor, rewritten,
            [(time, None if cut is position else cut.offsets, newest) for time, cut, newest in entries],
        )  # fmt: skip
    noted, offsets = writer.noted, position.offsets
    return (
        writer.name, writer.heard_at, writer.tail, writer.epoch, writer.closed, writer.closed_epoch,
        writer.excluded_at, None if noted == offsets else noted, offsets, standings, writer.served_at,
    )  # fmt: skip


def state_values(stream: str, writer: Writer, through: int, fence: int) -> Values:
    """The row of a writer, which has everything up to a seq of the log."""
    state = _encoder.encode(document_of(writer, whole=True)).decode()
    return {"stream": stream, "name": writer.name, "state": state, "through": through, "fence": fence}


def change_values(stream: str, seq: int, writers: Sequence[Document], fence: int) -> Values:
    """The row of the log with what changed in these writers."""
    return {"stream": stream, "seq": seq, "writers": _encoder.encode(writers).decode(), "fence": fence}


# -- reading -------------------------------------------------------------------------------------------------------


_STATES = rows_of(schema.writer_state).order_by(schema.writer_state.c.name)
_CHANGES = rows_of(schema.writer_change).order_by(schema.writer_change.c.seq)


@dataclass(slots=True)
class StoredLog:
    """A log as the store has it: its rows, each with whom it concerns, and up to which seq the writers' own rows go."""

    rows: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    through: dict[str, int] = field(default_factory=dict)


def load_writers(connection: Connection, stream: str) -> tuple[list[Writer], StoredLog]:
    """The writers of a stream, by name, and its log. Within a transaction of the caller's."""
    log = StoredLog()
    writers: dict[str, Writer] = {}
    for row in connection.execute(_STATES, {"stream": stream}):
        writers[row.name] = _applied(_writer.decode(row.state), None)
        log.through[row.name] = row.through
    for row in connection.execute(_CHANGES, {"stream": stream}):
        stored = _writers.decode(row.writers)
        log.rows.append((row.seq, tuple([each.name for each in stored])))
        for each in stored:
            if row.seq > log.through.get(each.name, 0):
                writers[each.name] = _applied(each, writers.get(each.name))
    return [writers[name] for name in sorted(writers)], log


def _applied(stored: StoredWriter, before: Writer | None) -> Writer:
    """The writer as it was stored, given what was stored of it before."""
    position = _cut(stored.position)
    standings = {}
    for key, each in stored.standings.items():
        earlier: Iterable[Entry] = ()
        if not each.whole and before is not None and key in before.standings:
            earlier = before.standings[key].history
        came = [Entry(time, position if cut is None else _cut(cut), newest) for time, cut, newest in each.history]
        standings[key] = Standing(
            phase=Phase(each.phase),
            floor=each.floor,
            time=each.time,
            newest=each.newest,
            has_noted=each.has_noted,
            lost_at=each.lost_at,
            told_floor=each.told_floor,
            history=[*earlier, *came],
        )
    return Writer(
        name=stored.name,
        heard_at=stored.heard_at,
        served_at=stored.heard_at if stored.served_at is None else stored.served_at,
        tail=stored.tail,
        epoch=stored.epoch,
        closed=stored.closed,
        closed_epoch=stored.closed_epoch,
        excluded_at=stored.excluded_at,
        noted=dict(stored.position) if stored.noted is None else stored.noted,
        position=position,
        standings=standings,
    )


def _cut(offsets: dict[str, int]) -> Cut:
    return Cut._trusted(offsets) if offsets else NOTHING
