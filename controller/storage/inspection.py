"""Checks a store and reports what is wrong. Changes nothing; a controller may go on serving.

    the database   SQLite's own `integrity_check` and `foreign_key_check`; PostgreSQL has `pg_amcheck`
    each row       it can be read
    marks          no seq is missing, times rise, cuts never go back and stay within the segments
    writers        positions are within the segments, epochs were given out, no floor is above the last mark
    all of them    a head, and a log that reaches to its version

All checks see one snapshot. Memory holds a few rows at once, and the segments of one stream at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import URL, Column, Connection, Select, Table, select
from sqlalchemy.exc import DBAPIError

from controller.storage import schema, upgrade
from controller.storage.diagnosis import diagnose
from controller.storage.groups import parts_of
from controller.storage.heads import Head, head_of
from controller.storage.kinds import kind_of, parse_url
from controller.storage.load import stream_of
from controller.storage.marks import MarkRows
from controller.storage.refusals import shown
from controller.storage.rows import AnyRow, segment_of
from controller.storage.subjects import Kind, Subject
from controller.storage.transaction import refusing
from controller.storage.unreadable import MISSING, check_name_of, corrupt, decoded, printable
from controller.storage.writer_states import StoredWriter, changes_of, state_of
from strandline.core.chain import check_follows
from strandline.core.mark import Mark
from strandline.core.segment import SegmentGraph
from strandline.errors import StoreCorrupt, StrandlineError

CHECK_ROWS: Final = 100  # in memory at once during a check, besides the segments and the journal of one stream


class FaultKind(StrEnum):
    """The kind of a fault. REMEDIES has what to do about each."""

    DATABASE = "database"
    ROW = "row"
    ORDER = "order"
    MISSING = "missing"


REMEDIES: Final = {
    FaultKind.DATABASE: "The database itself is damaged: stop the controller and restore a backup.",
    FaultKind.ROW: "Rows cannot be read: restore a backup, or delete their stream or reader group, and begin again.",
    FaultKind.ORDER: "Rows contradict each other: restore a backup, or delete their stream or group, and begin again.",
    FaultKind.MISSING: "Rows are missing: restore a backup, or delete their stream or reader group, and begin again.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFault:
    """A fault of a store, and the row that shows it."""

    kind: FaultKind
    stream: str | None = None
    group: str | None = None
    table: str | None = None
    row: str | None = None
    reason: str

    def __str__(self) -> str:
        whose = [f"stream {self.stream!r}"] if self.stream is not None else []
        whose += [f"reader group {self.group!r}"] if self.group is not None else []
        where = [f"table {self.table}"] if self.table is not None else []
        which = [f"row with {self.row}"] if self.row is not None else []
        return f"{', '.join([*whose, *where, *which]) or 'the database'}: {self.reason}"


@contextmanager
def reading(url: URL) -> Iterator[Connection]:
    """A read-only connection to a database, whatever is in it. Raises StoreRefused."""
    engine = kind_of(url).inspecting(url)
    try:
        with refusing(url), engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def opened(url: str) -> Iterator[Connection]:
    """A read-only connection to an existing store, or to an SQLite backup. Raises StoreRefused."""
    parsed = parse_url(url)
    with reading(parsed) as connection:
        with connection.begin():
            upgrade.check_ours(connection, shown(parsed))
            upgrade.check(connection)
        yield connection


class Inspection:
    """Checks a store once. `rows`, `streams` and `groups` count what was checked so far."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.rows = self.streams = self.groups = 0

    def faults(self) -> Iterator[StoreFault]:
        """Yields each fault as it is found."""
        snapshot = self._connection.begin()
        try:
            yield from self._guarded(self._database())
            yield from self._guarded(self._every(schema.stream))
            yield from self._guarded(self._every(schema.reader_group))
        finally:
            snapshot.rollback()  # nothing was changed, and in a damaged file of SQLite COMMIT fails

    def _guarded(self, faults: Iterator[StoreFault]) -> Iterator[StoreFault]:
        """Yields these faults. A failure of the database is a fault too, and ends only this part of the check."""
        nested = self._connection.begin_nested()
        try:
            yield from faults
        except (DBAPIError, ValueError, TypeError, OverflowError) as error:  # the driver raises these for odd values
            lines = str(getattr(error, "orig", error)).strip().splitlines() or [type(error).__name__]
            reason = f"the next rows could not be read: {diagnose(error).reason} ({printable(lines[0])})"
            yield StoreFault(kind=FaultKind.DATABASE, reason=reason)
        finally:
            nested.rollback()

    def _database(self) -> Iterator[StoreFault]:
        for table, reason in kind_of(self._connection).faults(self._connection):
            yield StoreFault(kind=FaultKind.DATABASE, table=table, reason=reason)

    def _rows(self, query: Select[Any]) -> Iterator[AnyRow]:
        for row in self._connection.execute(query.execution_options(yield_per=CHECK_ROWS)):
            self.rows += 1
            yield row

    def _rows_of(self, table: Table, owner: str, *order: Column[Any]) -> Iterator[AnyRow]:
        """The rows of a stream or group."""
        column = next(iter(table.primary_key))
        return self._rows(select(table).where(column == owner).order_by(*(order or table.primary_key)))

    # -- streams and groups --------------------------------------------------------------------------------------

    def _every(self, table: Table) -> Iterator[StoreFault]:
        """Checks all streams or groups."""
        of_one = self._stream if table is schema.stream else self._group
        for row in self._rows(select(table).order_by(table.c.name)):
            try:
                check_name_of(table, row.name)
                decoded(table, row, stream_of if table is schema.stream else parts_of)
            except StoreCorrupt as error:
                yield _fault(error)
                continue
            kind = Kind.STREAM if table is schema.stream else Kind.GROUP
            head = head_of(self._connection, Subject(kind, row.name))
            if head is None:
                missing = corrupt(schema.head, {"kind": kind.value, "name": row.name}, MISSING)
                yield replace(_fault(missing), kind=FaultKind.MISSING, **{kind.value: row.name})
                continue
            yield from self._guarded(of_one(row, head))

    def _stream(self, row: AnyRow, head: Head) -> Iterator[StoreFault]:
        self.streams += 1
        known = _Known(row.name, row.epochs)
        yield from self._segments(known, row)
        yield from self._marks(known)
        yield from self._writers(known)
        yield from self._changes(known, head)

    def _segments(self, known: _Known, stream: AnyRow) -> Iterator[StoreFault]:
        segments, whole = [], True
        for row in self._rows_of(schema.segment, known.stream, schema.segment.c.place):
            try:
                segments.append(decoded(schema.segment, row, segment_of))
            except StoreCorrupt as error:
                whole = False
                yield _fault(error)
        if not whole:
            return
        missing = {name for each in segments for name in each.predecessors}.difference(each.id for each in segments)
        for name in sorted(missing):
            values = {"stream": known.stream, "id": name}
            yield replace(_fault(corrupt(schema.segment, values, MISSING)), kind=FaultKind.MISSING)
        if missing:
            return
        try:
            known.graph = SegmentGraph(segments, open=bool(stream.open))
        except (ValueError, StrandlineError) as error:
            yield StoreFault(kind=FaultKind.MISSING, stream=known.stream, table=schema.segment.name, reason=str(error))

    def _marks(self, known: _Known) -> Iterator[StoreFault]:
        table = schema.mark
        key: str | None = None
        last: Mark | None = None
        seq: int | None = None
        made = MarkRows(self._connection, known.stream, "")
        for row in self._rows_of(table, known.stream):
            if row.key != key:
                key, last, seq = row.key, None, None
                made = MarkRows(self._connection, known.stream, row.key)
            try:
                mark = made.mark(row)
            except StoreCorrupt as error:
                yield _fault(error)
                known.unread_keys.add(row.key)
                # The seq itself may be wrong: it counts only if it is the expected one.
                seq, last = (seq + 1 if seq is not None and row.seq == seq + 1 else seq), None
                continue
            if seq is not None and mark.seq != seq + 1:
                yield _missing(row, seq + 1, mark.seq - 1)
            elif last is not None:
                yield from _succession(row, last, mark)
            yield from known.position_faults(table, row, mark.cut.offsets)
            last, seq = mark, mark.seq
            known.last_times[mark.key] = mark.time

    def _writers(self, known: _Known) -> Iterator[StoreFault]:
        table = schema.writer_state
        for row in self._rows_of(table, known.stream):
            try:
                writer = decoded(table, row, state_of)
            except StoreCorrupt as error:
                yield _fault(error)
                continue
            if writer.name != row.name:
                yield _of_row(table, row, f"it holds the state of another writer, {writer.name!r}")
            yield from known.writer_faults(table, row, writer)

    def _changes(self, known: _Known, head: Head) -> Iterator[StoreFault]:
        table = schema.writer_change
        before: int | None = None
        for row in self._rows_of(table, known.stream):
            try:
                writers = decoded(table, row, changes_of)
            except StoreCorrupt as error:
                yield _fault(error)
                before = before + 1 if before is not None and row.seq == before + 1 else before
                continue
            if before is not None and row.seq != before + 1:
                yield _missing(row, before + 1, row.seq - 1)
            before = row.seq
            for writer in writers:
                yield from known.writer_faults(table, row, writer)
        if before != head.version:
            reason = f"the log ends at {before}, and the stream has version {head.version}"
            yield StoreFault(kind=FaultKind.MISSING, stream=known.stream, table=table.name, reason=reason)

    def _group(self, row: AnyRow, _head: Head) -> Iterator[StoreFault]:
        self.groups += 1
        for table in (schema.reader, schema.reader_position):
            for each in self._rows_of(table, row.name):
                try:
                    decoded(table, each, lambda _: None)
                except StoreCorrupt as error:
                    yield _fault(error)
                    continue
                if table is schema.reader and each.epoch > row.epochs:
                    yield _of_row(table, each, _not_given_out(f"its epoch {each.epoch}", row.epochs))


@dataclass(slots=True)
class _Known:
    """What is known of a stream when its writers are checked."""

    stream: str
    epochs: int
    graph: SegmentGraph | None = None  # None: a segment cannot be read
    last_times: dict[str, int] = field(default_factory=dict)  # by key, of the newest mark
    unread_keys: set[str] = field(default_factory=set)

    def writer_faults(self, table: Table, row: AnyRow, writer: StoredWriter) -> Iterator[StoreFault]:
        """Yields what is impossible in a writer's row."""
        name = writer.name
        if writer.epoch is not None and writer.epoch > self.epochs:
            yield _of_row(table, row, _not_given_out(f"the epoch {writer.epoch} of writer {name!r}", self.epochs))
        yield from self.position_faults(table, row, writer.position)
        for key, key_state in writer.key_states.items():
            reached = [key_state.time, key_state.earlier_time, self.last_times.get(key)]
            floor, known = key_state.floor, [each for each in reached if each is not None]
            if floor is not None and key not in self.unread_keys and not any(each >= floor for each in known):
                reason = f"writer {name!r} has the floor {floor} in key {key!r}, and no mark has reached that time"
                yield _of_row(table, row, reason, FaultKind.MISSING)

    def position_faults(self, table: Table, row: AnyRow, position: Mapping[str, int]) -> Iterator[StoreFault]:
        """Yields where a position or a cut names an unknown segment, or an offset past the end of one."""
        if self.graph is None:
            return
        for segment, offset in position.items():
            if segment not in self.graph:
                if not self.graph.open:  # an open stream may have had it
                    yield _of_row(table, row, f"it names the segment {segment!r}, which the stream does not have")
                continue
            end = self.graph[segment].final_offset
            if end is not None and offset > end:
                yield _of_row(table, row, f"it names offset {offset} in the segment {segment!r}, which ends at {end}")


# -- faults of rows --------------------------------------------------------------------------------------------------


def _fault(error: StoreCorrupt) -> StoreFault:
    where = {"stream": error.stream, "group": error.group, "table": error.table, "row": error.row}
    return StoreFault(kind=FaultKind.ROW, **where, reason=error.reason)


def _of_row(table: Table, row: AnyRow, reason: str, kind: FaultKind = FaultKind.ORDER) -> StoreFault:
    return replace(_fault(corrupt(table, dict(row._mapping), reason)), kind=kind)


def _missing(row: AnyRow, first: int, last: int) -> StoreFault:
    """The fault of the missing seqs `first` to `last` before this row."""
    reason = f"it is missing, with {last - first} more behind it" if last > first else MISSING
    table = schema.mark if "key" in row._mapping else schema.writer_change
    return replace(_fault(corrupt(table, {**row._mapping, "seq": first}, reason)), kind=FaultKind.MISSING)


def _succession(row: AnyRow, last: Mark, mark: Mark) -> Iterator[StoreFault]:
    """Yields why a mark cannot follow another."""
    try:
        check_follows(last, mark)
    except ValueError as error:
        yield _of_row(schema.mark, row, str(error))


def _not_given_out(what: str, newest: int) -> str:
    return f"{what} was not given out: the newest is {newest}"
