"""Writers as documents and back: whole, one to a row, and as flushes changed them, in the rows of a log.

What a flush changed is one row, however many writers it concerns: a row costs more than what is in it. A writer's own
row is written again when the log lets go of what is newer (`controller.commit.writer_log`). Who loads a stream reads
both: each row as of its `through`, and after it what the log has with a greater seq.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec
from sqlalchemy import BindParameter, Connection, bindparam

from controller.limits import ITEM_CHARACTERS
from controller.storage import schema
from controller.storage.checksums import CHECKSUMS, MISSING, corrupt
from controller.storage.rows import AnyRow, Values, rows_of
from controller.storage.steps import Step, pages
from controller.yielding import Steps
from strandline.core.cut import NOTHING, Cut
from strandline.core.writer import KeptNote, KeyState, Phase, Writer

Document: TypeAlias = tuple[Any, ...]  # a StoredWriter, put together without one: every note makes some


class StoredKeyState(msgspec.Struct, array_like=True, frozen=True):
    """A standing with its history or, unless `whole`, what came to that. An entry without a cut has the position's."""

    phase: Phase
    floor: int | None
    time: int | None
    newest: int | None
    has_noted: bool
    lost_at: int | None
    told_floor: int | None
    whole: bool
    history: list[tuple[int, dict[str, int] | None, int | None]]
    earlier_time: int | None = None


class StoredWriter(msgspec.Struct, array_like=True, frozen=True):
    """A writer. Without `noted`, it noted what its position says. Without a standing, which every writer has, it says
    that the writer of this name is forgotten. Without `served_at`, it was stored before revision 0009, when nothing had
    been unserved yet as far as the store knows."""

    name: str
    heard_at: int
    tail: bool
    epoch: int | None
    closed: bool
    closed_epoch: int | None
    excluded_at: int | None
    noted: dict[str, int] | None
    position: dict[str, int]
    key_states: dict[str, StoredKeyState]
    registration: str | None = None
    served_at: int | None = None


_encoder = msgspec.json.Encoder()
_writer = msgspec.json.Decoder(StoredWriter)
_writers = msgspec.json.Decoder(list[StoredWriter])


# -- writing -------------------------------------------------------------------------------------------------------


def document_of(writer: Writer, *, whole: bool) -> Document:
    """The writer as of now, with its whole history or with what came to it since the last time."""
    position = writer.position
    key_states = {}
    for key, each in writer.key_states.items():
        rewritten, entries = each.drain()
        if whole:
            rewritten, entries = True, each.history
        key_states[key] = (
            each.phase, each.floor, each.time, each.newest, each.has_noted, each.lost_at, each.told_floor, rewritten,
            [(time, None if cut is position else cut.offsets, newest) for time, cut, newest in entries],
            each.earlier_time,
        )  # fmt: skip
    noted, offsets = writer.noted, position.offsets
    return (
        writer.name, writer.heard_at, writer.tail, writer.epoch, writer.closed, writer.closed_epoch,
        writer.excluded_at, None if noted == offsets else noted, offsets, key_states, writer.registration,
        writer.served_at,
    )  # fmt: skip


def forgotten_document(name: str) -> Document:
    """What the log has of a writer that is forgotten."""
    return name, 0, False, None, True, None, None, None, {}, {}


def state_values(stream: str, writer: Writer, through: int, fence: int) -> Values:
    """The row of a writer, which has everything up to a seq of the log."""
    state = _encoder.encode(document_of(writer, whole=True)).decode()
    return {"stream": stream, "name": writer.name, "state": state, "through": through, "fence": fence}


def change_values(stream: str, seq: int, writers: Sequence[Document], fence: int) -> Values:
    """The row of the log with what changed in these writers."""
    return {"stream": stream, "seq": seq, "writers": _encoder.encode(writers).decode(), "fence": fence}


# -- reading -------------------------------------------------------------------------------------------------------


_state, _change = schema.writer_state.c, schema.writer_change.c
_PAGE: Final[BindParameter[int]] = bindparam("rows")
_STATES = rows_of(schema.writer_state).where(_state.name > bindparam("after")).order_by(_state.name).limit(_PAGE)
_CHANGES = rows_of(schema.writer_change).where(_change.seq > bindparam("after")).order_by(_change.seq).limit(_PAGE)


_STATE_ROWS: Final = CHECKSUMS[schema.writer_state]
_CHANGE_ROWS: Final = CHECKSUMS[schema.writer_change]


def state_of(row: AnyRow) -> StoredWriter:
    return _writer.decode(row.state)


def changes_of(row: AnyRow) -> list[StoredWriter]:
    return _writers.decode(row.writers)


@dataclass(slots=True)
class StoredLog:
    """A log as the store has it: its rows, each with whom it concerns, and who is forgotten with it; by writer, in how
    many rows it is since it was forgotten last, and the first of these that its own row does not know; the greatest seq
    that any row has."""

    rows: deque[tuple[int, Collection[str], Collection[str]]] = field(default_factory=deque)
    forgotten: dict[str, int] = field(default_factory=dict)  # the seq of the last row that says so
    times: dict[str, int] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    states: int = 0
    seq: int = 0

    def add(self, seq: int, names: Collection[str], unknown: Iterable[str], forgotten: Collection[str] = ()) -> None:
        """Adds a row that concerns some writers, and `unknown` as the first that their own rows do not know.

        Those that are `forgotten` with it were so before; what it has of others of these names is newer.
        """
        self.seq = max(self.seq, seq)
        self.rows.append((seq, names, forgotten))
        self.states += len(names) + len(forgotten)
        times, first = self.times, self.first
        for name in forgotten:
            times.pop(name, None)
            first.pop(name, None)
            self.forgotten[name] = seq
        for name in names:
            times[name] = times.get(name, 0) + 1
        for name in unknown:
            first.setdefault(name, seq)


@dataclass(frozen=True, slots=True)
class StoredWriters:
    """The writers of a stream by name, and their log."""

    writers: dict[str, Writer]
    log: StoredLog


def writer_steps(connection: Connection, stream: str) -> Steps[StoredWriters]:
    """The writers of a stream, and its log. Within a transaction of the caller's."""
    found, step = StoredWriters({}, StoredLog()), Step()
    of_stream = {"stream": stream}
    writers, log, through = found.writers, found.log, dict[str, int]()

    def take(stored: StoredWriter, before: Writer | None) -> str:
        writer = writers[stored.name] = _applied(stored, before)
        return writer.name

    for page in pages(connection, _STATES, of_stream, "", "name", lambda row: len(row.state)):
        for row in page:
            name = take(_STATE_ROWS.decoded(row, state_of), None)
            through[name] = row.through
            log.seq = max(log.seq, row.through)
            if step.did(1 + len(writers[name].key_states) + len(row.state) // ITEM_CHARACTERS):
                yield
    for page in pages(connection, _CHANGES, of_stream, 0, "seq", lambda row: len(row.writers)):
        for row in page:
            if step.did(len(row.writers) // ITEM_CHARACTERS):
                yield
            if log.rows and row.seq != (follows := log.rows[-1][0] + 1):
                raise corrupt(schema.writer_change, {**of_stream, "seq": follows}, MISSING)
            names, unknown, forgotten = list[str](), list[str](), list[str]()
            for stored in _CHANGE_ROWS.decoded(row, changes_of):
                before = writers.get(stored.name)
                if not stored.key_states:
                    forgotten.append(stored.name)
                    if row.seq > through.get(stored.name, 0):
                        writers.pop(stored.name, None)
                    continue
                if row.seq > through.get(stored.name, 0):
                    names.append(take(stored, before))
                    unknown.append(names[-1])
                else:
                    assert before is not None  # its own row knows more
                    names.append(before.name)  # one string for each name, however often it is in the log
                if step.did(1 + len(stored.key_states)):
                    yield
            log.add(row.seq, names, unknown, forgotten)
    return found


def _applied(stored: StoredWriter, before: Writer | None) -> Writer:
    """The writer as it was stored, given what was stored of it before."""
    position = _cut(stored.position)
    key_states = {}
    for key, each in stored.key_states.items():
        key_state = key_states[key] = KeyState(
            phase=each.phase,
            floor=each.floor,
            time=each.time,
            earlier_time=each.earlier_time,
            newest=each.newest,
            has_noted=each.has_noted,
            lost_at=each.lost_at,
            told_floor=each.told_floor,
        )
        if each.history:
            key_state.history = [
                KeptNote(time, position if cut is None else _cut(cut), newest) for time, cut, newest in each.history
            ]
        if not each.whole and before is not None and key in before.key_states:
            key_state.history = before.key_states[key].history + key_state.history
    return Writer(
        name=stored.name,
        heard_at=stored.heard_at,
        served_at=stored.heard_at if stored.served_at is None else stored.served_at,
        tail=stored.tail,
        epoch=stored.epoch,
        closed=stored.closed,
        closed_epoch=stored.closed_epoch,
        excluded_at=stored.excluded_at,
        registration=stored.registration,
        noted=dict(stored.position) if stored.noted is None else stored.noted,
        position=position,
        key_states=key_states,
    )


def _cut(offsets: dict[str, int]) -> Cut:
    return Cut._trusted(offsets) if offsets else NOTHING
