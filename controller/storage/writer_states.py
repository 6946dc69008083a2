"""Writers as documents and back: each whole in a row of its own, and the changes of each commit in a log.

A commit adds one row to the log, however many writers it changed: a row costs more than its content. Before a row of
the log is removed that a writer's state needs, the writer's own row is written (`controller.commit.writer_log`).
Loading a stream reads both: each writer's row, and the changes with a seq greater than its `through`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import FromClause, Select, select

from controller.storage import schema
from controller.storage.given_rows import NUMBER, TEXT, given_rows, with_given_rows
from controller.storage.rows import AnyRow, Query, Values, rows_of
from controller.storage.unreadable import MISSING, corrupt, decoded
from strandline.core.cut import NOTHING, Cut
from strandline.core.writer import KeptNote, KeyState, Phase, StreamWriter

Document: TypeAlias = tuple[Any, ...]  # a StoredWriter as a plain tuple, which is cheaper: every note makes some


class StoredKeyState(msgspec.Struct, array_like=True, frozen=True):
    """A writer's state in one key, with its history or, unless `whole`, the new entries of it. An entry without a cut
    has the writer's position as its cut."""

    phase: Phase
    floor: int | None
    time: int | None
    newest: int | None
    has_noted: bool
    lost_at: int | None
    answered_floor: int | None
    whole: bool
    history: list[tuple[int, dict[str, int] | None, int | None]]
    earlier_time: int | None = None


class StoredWriter(msgspec.Struct, array_like=True, frozen=True):
    """A writer. If `noted` is None, it equals the position. If `key_states` is empty, the writer is forgotten."""

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
    served_at: int = 0
    life: int = 0


_encoder = msgspec.json.Encoder()
_writer = msgspec.json.Decoder(StoredWriter)
_writers = msgspec.json.Decoder(list[StoredWriter])


# -- writing -------------------------------------------------------------------------------------------------------


def document_of(writer: StreamWriter, *, whole: bool) -> tuple[Document, bool]:
    """The writer's current state, with its whole history or with the entries since the last document.

    Also returns whether it has the whole history in each key, so that no earlier document is needed.
    """
    position = writer.position
    key_states, complete = {}, True
    for key, each in writer.key_states.items():
        rewritten, entries = each.drain()
        if whole:
            rewritten, entries = True, each.history
        complete = complete and rewritten
        key_states[key] = (
            each.phase, each.floor, each.time, each.newest, each.has_noted, each.lost_at, each.answered_floor,
            rewritten,
            [(note.time, None if note.cut is position else note.cut.offsets, note.newest) for note in entries],
            each.earlier_time,
        )  # fmt: skip
    noted, offsets = writer.noted, position.offsets
    named = None if noted is position or noted == position else noted.offsets
    document = (
        writer.name, writer.heard_at, writer.tail, writer.epoch, writer.closed, writer.closed_epoch,
        writer.excluded_at, named, offsets, key_states, writer.registration,
        writer.served_at, writer.life,
    )  # fmt: skip
    return document, complete


def forgotten_document(name: str) -> Document:
    """The log's document for a forgotten writer."""
    return name, 0, False, None, True, None, None, None, {}, {}


def state_values(stream: str, writer: StreamWriter, through: int) -> Values:
    """The row of a writer, with everything up to seq `through` of the log."""
    document, _ = document_of(writer, whole=True)
    state = _encoder.encode(document).decode()
    return {"stream": stream, "name": writer.name, "state": state, "through": through}


def change_values(stream: str, seq: int, writers: Sequence[Document], stamp: int) -> Values:
    """The row of the log with the changes of these writers."""
    return {"stream": stream, "seq": seq, "writers": _encoder.encode(writers).decode(), "stamp": stamp}


# -- reading -------------------------------------------------------------------------------------------------------


_state, _change = schema.writer_state.c, schema.writer_change.c
STATES: Final = rows_of(schema.writer_state).order_by(_state.name)  # of the writers of a stream
CHANGES: Final = rows_of(schema.writer_change).order_by(_change.seq)  # its log


def state_of(row: AnyRow) -> StoredWriter:
    return _writer.decode(row.state)


def changes_of(row: AnyRow) -> list[StoredWriter]:
    return _writers.decode(row.writers)


@dataclass(slots=True)
class StoredLog:
    """An index of the log as the store has it."""

    rows: deque[tuple[int, Collection[str], int]] = field(default_factory=deque)  # seq, changed writers, states
    newest: dict[str, int] = field(default_factory=dict)  # by writer, its last row, unless it was forgotten since
    first: dict[str, int] = field(default_factory=dict)  # by writer, the first row without which its state is lost
    states: int = 0  # the documents in all rows; a row without any counts as one
    seq: int = 0  # the greatest of any row

    def add(
        self,
        seq: int,
        names: Collection[str],
        unknown: Iterable[str],
        whole: Iterable[str] = (),
        forgotten: Collection[str] = (),
    ) -> None:
        """Adds a row that changed these writers. The own rows of `unknown` do not have this change yet; of them, the
        row has those in `whole` with all of their histories.

        Writers in `forgotten` were forgotten before the row's changes: a change of the same name is of a newer writer.
        """
        self.seq = max(self.seq, seq)
        states = max(1, len(names) + len(forgotten))
        self.rows.append((seq, names, states))
        self.states += states
        newest, first = self.newest, self.first
        for name in forgotten:
            newest.pop(name, None)
            first.pop(name, None)
        for name in names:
            newest[name] = seq
        for name in unknown:
            first.setdefault(name, seq)
        for name in whole:
            first[name] = seq


@dataclass(frozen=True, slots=True)
class StoredWriters:
    """The writers of a stream by name, and their log."""

    writers: dict[str, StreamWriter]
    log: StoredLog


def made_writers(stream: str, states: Iterable[AnyRow], changes: Iterable[AnyRow]) -> StoredWriters:
    """Makes the writers of a stream, and its log, of their rows in order."""
    found = StoredWriters({}, StoredLog())
    of_stream = {"stream": stream}
    writers, log, through = found.writers, found.log, dict[str, int]()

    def take(stored: StoredWriter, before: StreamWriter | None) -> str:
        writer = writers[stored.name] = _applied(stored, before)
        return writer.name

    for row in states:
        name = take(decoded(schema.writer_state, row, state_of), None)
        through[name] = row.through
        log.seq = max(log.seq, row.through)
    for row in changes:
        if log.rows and row.seq != (follows := log.rows[-1][0] + 1):
            raise corrupt(schema.writer_change, {**of_stream, "seq": follows}, MISSING)
        names, unknown, whole, forgotten = list[str](), list[str](), list[str](), list[str]()
        for stored in decoded(schema.writer_change, row, changes_of):
            before = writers.get(stored.name)
            if not stored.key_states:
                forgotten.append(stored.name)
                if row.seq > through.get(stored.name, 0):
                    writers.pop(stored.name, None)
                continue
            if row.seq > through.get(stored.name, 0):
                names.append(take(stored, before))
                unknown.append(names[-1])
                if all(each.whole for each in stored.key_states.values()):
                    whole.append(names[-1])
            else:
                assert before is not None  # its own row is newer
                names.append(before.name)  # one string for each name, however often it is in the log
        log.add(row.seq, names, unknown, whole, forgotten)
    return found


class StoredChange(NamedTuple):
    """A row of the log."""

    seq: int
    stamp: int
    writers: list[StoredWriter]


def changes_since(database: str, since: Mapping[str, int]) -> Query:
    """Selects the log of each of these streams from a seq on; that row itself comes first, unless the log no longer has
    it. `log_of` is what the rows of a stream mean."""
    return _CHANGES_SINCE[database], given_rows({"stream": stream, "seq": seq} for stream, seq in since.items())


def log_of(rows: Iterable[AnyRow]) -> list[StoredChange]:
    """Raises StoreCorrupt if one is missing, or cannot be read."""
    changes: list[StoredChange] = []
    for row in rows:
        writers = decoded(schema.writer_change, row, changes_of)
        if changes and row.seq != (follows := changes[-1].seq + 1):
            raise corrupt(schema.writer_change, {"stream": row.stream, "seq": follows}, MISSING)
        changes.append(StoredChange(row.seq, row.stamp, writers))
    return changes


def _changes_since(given: FromClause) -> Select[Any]:
    query = select(schema.writer_change).join(given, _change.stream == given.c.stream)
    return query.where(_change.seq >= given.c.seq).order_by(_change.stream, _change.seq)


_CHANGES_SINCE: Final = with_given_rows({"stream": TEXT, "seq": NUMBER}, _changes_since)


def changed_writers(
    changes: Iterable[StoredChange], known: Mapping[str, StreamWriter]
) -> tuple[set[str], list[StreamWriter]]:
    """What these changes, in order, make of writers: the names of those that were forgotten, of which some may have
    come back, and all that changed and were not forgotten since. The `known` ones stay as they are."""
    forgotten, changed = set[str](), dict[str, StreamWriter]()
    for change in changes:
        for stored in change.writers:
            name = stored.name
            if stored.key_states:
                before = changed.get(name)
                if before is None and name not in forgotten:
                    before = known.get(name)
                changed[name] = _applied(stored, before)
            else:
                forgotten.add(name)
                changed.pop(name, None)
    return forgotten, list(changed.values())


def _applied(stored: StoredWriter, before: StreamWriter | None) -> StreamWriter:
    """The stored writer; `before` is the same writer from earlier rows."""
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
            answered_floor=each.answered_floor,
        )
        if each.history:
            key_state.history = [
                KeptNote(time, position if cut is None else _cut(cut), newest) for time, cut, newest in each.history
            ]
        if not each.whole and before is not None and key in before.key_states:
            key_state.history = before.key_states[key].history + key_state.history
    return StreamWriter(
        name=stored.name,
        heard_at=stored.heard_at,
        served_at=stored.served_at,
        tail=stored.tail,
        life=stored.life,
        epoch=stored.epoch,
        closed=stored.closed,
        closed_epoch=stored.closed_epoch,
        excluded_at=stored.excluded_at,
        registration=stored.registration,
        noted=position if stored.noted is None else _cut(stored.noted),
        position=position,
        key_states=key_states,
    )


def _cut(offsets: dict[str, int]) -> Cut:
    return Cut(offsets) if offsets else NOTHING
