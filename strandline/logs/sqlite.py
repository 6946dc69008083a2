"""The embedded log, append side: one SQLite file per stream, any number of writer processes."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from strandline.core.segment import NewSegment, Segment, SegmentGraph
from strandline.fork import OwningProcess
from strandline.logs import Event, Memo, Position, Transaction, check_head, check_size
from strandline.logs.buffered_transaction import BufferedTransaction, OpenTransactions
from strandline.logs.durable import sync
from strandline.logs.errors import (
    LogBusy,
    LogExists,
    LogMissing,
    LogUnavailable,
)
from strandline.logs.identity import (
    alone_in,
    check_identity,
    give_identity,
    remove_leftovers,
    repeat_identity,
)
from strandline.logs.layout import (
    DEFINITION,
    END_OFFSETS,
    FIRST_OFFSET,
    MEMO_DEFINITION,
    MEMOS,
    PAGE_BYTES,
    SEGMENTS,
    check_format,
    segment_of,
)
from strandline.logs.route import Route
from strandline.logs.sqlite_reader import LOG_BUSY_TIMEOUT_MS

TRUNCATE_ROWS: Final = 10_000  # removed in one transaction; other writers go on between two transactions

Value = TypeVar("Value")


def system_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(eq=False, slots=True)
class _LogCommit:
    """What one commit writes: the ends of its segments behind it, and whether the file is known to have it."""

    ends: Position = field(default_factory=dict)
    is_done: bool = False


class SqliteLog:
    """The append side of an embedded log. Threads may share one; each process opens its own.

        log = SqliteLog.create("orders.log", segments=2)

    Every append is one transaction, on disk (with a full sync) before it returns. Writers take turns, so
    appends of many events at a time are fast. Errors are in `strandline.logs.errors`.

    After an exception that interrupted a commit, such as Ctrl-C, the next call asks the file whether it was done. Locks
    are taken without a generator around them: an exception that interrupts one would leave its lock locked.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], int] = system_clock_ms,
        busy_timeout_ms: int = LOG_BUSY_TIMEOUT_MS,
    ) -> None:
        """Opens the log at a path. Raises LogMissing, NotALog or LogVersion."""
        self.path = Path(path)
        self._clock = clock
        self._busy_timeout_ms = busy_timeout_ms
        self._lock = threading.Lock()
        self._positions: Position = {}
        self._unsettled: _LogCommit | None = None  # the commit whose outcome is not recorded yet
        self._open = OpenTransactions()
        self._connection = _open(self.path, busy_timeout_ms)
        self._origin = OwningProcess(f"the log object for {str(self.path)!r}")
        self._origin.keep(self._connection)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        segments: int | Sequence[NewSegment],
        *,
        clock: Callable[[], int] = system_clock_ms,
        busy_timeout_ms: int = LOG_BUSY_TIMEOUT_MS,
    ) -> Self:
        """Opens the log at a path; creates it if it does not exist.

        `segments` is a number ("0", "1", … with equal shares of [0, 1)) or ranges that tile [0, 1). Raises
        LogExists if the log exists and began with other segments. Several processes may create the same log at
        once. Files that SQLite left beside a removed log of that name are removed.
        """
        if isinstance(segments, int):
            wanted = SegmentGraph.equal_shares(segments, created_at=0)
        else:
            wanted = SegmentGraph.of_ranges(segments, created_at=0)
        file = Path(path)
        if not file.exists():
            _create_file(file, wanted)
        log = cls(file, clock=clock, busy_timeout_ms=busy_timeout_ms)
        found = [(one.id, one.low, one.high) for one in log.segments() if not one.predecessors]
        if sorted(found) != sorted((one.id, one.low, one.high) for one in wanted):
            log.close()
            raise LogExists(path=str(file), segments=tuple(name for name, _, _ in found))
        return log

    # -- the Log protocol ------------------------------------------------------------------------------------

    def append(self, events: Iterable[Event]) -> Position:
        """Appends events, all of them or none; returns the position behind them in each of their segments.

        Raises UnknownSegment, SegmentSealed, LogSealed or InvalidEvent, LogBusy if other writers held the log for
        too long, and LogUnavailable (for instance if the disk is full); nothing is written then.
        """
        rows = list(events)  # before the lock: a slow iterator must not delay other writers
        for event in rows:
            check_size(event)
        return self._commit(rows, None, _LogCommit())

    def flush(self) -> Position:
        return self.positions()  # an append returns when it is durable

    def positions(self) -> Position:
        return self._read(lambda: dict(self._positions))

    def end_offsets(self) -> Position:
        return self._read(self._ends)

    def begin(self) -> Transaction:
        """A transaction. Its events wait in memory, so that it delays no other writer before its commit."""
        transaction = _Transaction(self)
        self._open.add(transaction)
        return transaction

    def in_transaction(self, besides: Transaction | None = None) -> bool:
        if not self._open:
            return False
        if self._unsettled is not None and not self._lock.locked():
            self.positions()  # asks the file about an interrupted commit, and waits for none that is under way
        return self._open.has_others(besides)

    def memo(self, name: str) -> str | None:
        def find() -> str | None:
            if self._connection.execute(MEMOS).fetchone() is None:
                return None
            found = self._connection.execute("SELECT text FROM memo WHERE name = ?", (name,)).fetchone()
            return str(found[0]) if found else None

        return self._read(find)

    def close(self) -> None:
        if self._origin.is_here:  # SQLite: closing is not safe in a forked process
            with self._lock:
                self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- segments --------------------------------------------------------------------------------------------

    def segments(self) -> list[Segment]:
        """All segments, sealed ones too, in the order of creation."""
        return self._read(lambda: _segments(self._connection))

    def scale(self, seal: Iterable[str], create: Sequence[NewSegment]) -> Position:
        """Seals segments and creates their successors in one transaction; returns the final offsets.

        Raises InvalidScale unless the successors cover exactly the sealed ranges. A repeated call changes nothing.
        """

        def change() -> Position:
            ends = self._ends()
            graph = SegmentGraph(_segments(self._connection))
            finals = {name: _final(graph[name], ends[name]) for name in seal}
            _store(self._connection, graph.scale(finals, create, created_at=0))
            return finals

        return self._write(change)

    def seal(self) -> Position:
        """Seals every segment: nothing can be appended any more. Returns the final offset of each."""

        def change() -> Position:
            ends = self._ends()
            graph = SegmentGraph(_segments(self._connection))
            _store(self._connection, graph.seal_all(ends))
            return {one.id: _final(one, ends[one.id]) for one in graph}

        return self._write(change)

    def truncate(self, head: Position) -> Position:
        """Removes the events below these offsets; returns the new first offset of each of these segments.

        The newest event of a segment stays, because it gives the segment's end. The file keeps its size, and uses the
        space again. Raises UnknownSegment or NotInLog, and then removes nothing. After LogBusy or LogUnavailable a
        repeated call goes on.
        """
        ends = self.end_offsets()
        check_head(head, ends)
        return {segment: self._truncate(segment, min(offset, ends[segment] - 1)) for segment, offset in head.items()}

    # -- within ----------------------------------------------------------------------------------------------

    def _commit(self, events: Sequence[Event], memo: Memo | None, commit: _LogCommit) -> Position:
        """Appends events and stores the memo, in one transaction, and records that in `commit`."""
        if not events and memo is None:
            return {}

        def change() -> Position:
            ends: Position = {}
            self._insert(events, ends)
            if memo is not None:
                self._connection.execute(MEMO_DEFINITION)
                self._connection.execute("INSERT OR REPLACE INTO memo VALUES (?, ?)", (memo.name, memo.text))
            commit.ends = ends
            self._unsettled = commit
            return ends

        return self._write(change)

    def _is_done(self, commit: _LogCommit) -> bool:
        """Whether the file has what a commit wrote."""
        return bool(commit.ends) and self._read(lambda: commit.is_done)

    def _read(self, work: Callable[[], Value]) -> Value:
        """Does work in this thread's turn. Raises UsedAfterFork before that: a forked child may wait for ever."""
        self._origin.check()
        with self._lock, self._errors():
            self._settle()
            return work()

    def _write(self, work: Callable[[], Value]) -> Value:
        """Does work in one write transaction, in this thread's turn; any error rolls it back.

        A failed commit is rolled back too: SQLite does not show a transaction whose sync failed, and the next
        one overwrites it.
        """
        self._origin.check()
        with self._lock, self._errors():
            self._settle()
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                result = work()
                repeat_identity(self._connection)
                self._connection.execute("COMMIT")
            except BaseException as error:
                if isinstance(error, sqlite3.Error):
                    self._unsettled = None
                self._roll_back()
                raise
            self._record_commit()
            return result

    def _settle(self) -> None:
        """Finishes a call that an exception interrupted: rolls back what was not committed, and records what was."""
        self._roll_back()
        if self._unsettled is not None:
            ends = self._ends()
            if any(ends.get(segment, 0) < end for segment, end in self._unsettled.ends.items()):
                self._unsettled = None
            self._record_commit()

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            # First this: after the rollback, an open transaction no longer shows that it was not done.
            self._unsettled = None
            self._connection.execute("ROLLBACK")

    def _record_commit(self) -> None:
        commit = self._unsettled
        if commit is not None:
            self._positions.update(commit.ends)
            commit.is_done = True
            self._unsettled = None

    def _ends(self) -> Position:
        return dict(self._connection.execute(END_OFFSETS).fetchall())

    def _insert(self, events: Sequence[Event], ends: Position) -> None:
        """Inserts events at the ends of their segments, and puts the new ends into `ends`. Call it in a transaction."""
        # Read again each time, under the write lock: another process may have scaled since.
        route = Route(str(self.path), _segments(self._connection))
        now = self._clock()
        rows: list[tuple[str | int | bytes | None, ...]] = []
        for event in events:
            segment = route.segment(event)
            offset = ends.get(segment)
            if offset is None:
                offset = self._next_offset(segment)
            rows.append((segment, offset, event.key, event.value, now))
            ends[segment] = offset + 1
        self._connection.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?)", rows)

    def _truncate(self, segment: str, until: int) -> int:
        """Removes events in slices, so that no writer waits long; returns the segment's new first offset."""

        def remove() -> int | None:
            (first,) = self._connection.execute(FIRST_OFFSET, (segment,)).fetchone()
            begins = 0 if first is None else int(first)
            stop = min(until, begins + TRUNCATE_ROWS)
            if stop <= begins:
                return begins
            self._connection.execute("DELETE FROM event WHERE segment = ? AND offset < ?", (segment, stop))
            return None

        while True:
            begins = self._write(remove)
            if begins is not None:
                return begins

    def _next_offset(self, segment: str) -> int:
        found = self._connection.execute(
            "SELECT offset + 1 FROM event WHERE segment = ? ORDER BY offset DESC LIMIT 1", (segment,)
        ).fetchone()
        return int(found[0]) if found else 0

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise LogBusy(path=str(self.path), waited_ms=self._busy_timeout_ms) from error
            raise LogUnavailable(path=str(self.path), reason=str(error)) from error


class _Transaction(BufferedTransaction):
    """Events that appear in the log all at once. They wait in memory until `commit`, at most TRANSACTION_BYTES.

    A commit that an exception interrupted, such as Ctrl-C, was done or was not; the file shows which. If it was done, a
    second try returns its position and writes nothing.
    """

    def __init__(self, log: SqliteLog) -> None:
        written = _LogCommit()
        super().__init__(lambda events, memo: log._commit(events, memo, written))
        self._log = log
        self._written = written

    def commit(self, memo: Memo | None = None) -> Position:
        return dict(self._written.ends) if self._has_ended() else super().commit(memo)

    def abort(self) -> None:
        if self._outcome is None and self._written.ends:
            with contextlib.suppress(LogUnavailable):  # a log that is closed
                self._has_ended()
        super().abort()

    @property
    def is_open(self) -> bool:
        return self._outcome is None and not self._written.is_done

    def _check_open(self) -> None:
        self._has_ended()
        super()._check_open()

    def _has_ended(self) -> bool:
        """Whether an interrupted commit was done, which ends the transaction now."""
        if self._outcome is not None or not self._log._is_done(self._written):
            return False
        self._end("committed")
        return True


def _final(segment: Segment, end: int) -> int:
    return end if segment.final_offset is None else segment.final_offset


def _open(path: Path, busy_timeout_ms: int) -> sqlite3.Connection:
    if not path.is_file():
        raise LogMissing(path=str(path.absolute()))
    check_identity(path)
    connection = sqlite3.connect(path, timeout=busy_timeout_ms / 1000, isolation_level=None, check_same_thread=False)
    try:
        check_format(connection, str(path))
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _segments(connection: sqlite3.Connection) -> list[Segment]:
    return [segment_of(row) for row in connection.execute(SEGMENTS)]


def _create_file(path: Path, graph: SegmentGraph) -> None:
    """Makes the file under another name and links it to its path, which so has a complete log or none."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    draft.unlink(missing_ok=True)
    try:
        connection = sqlite3.connect(draft, isolation_level=None)
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(DEFINITION)
            _store(connection, list(graph))
            give_identity(connection)
        finally:
            connection.close()  # which also checkpoints the write-ahead file into the draft
        with alone_in(path.parent):
            remove_leftovers(path)
            with contextlib.suppress(FileExistsError):  # another process was first: its file is used
                os.link(draft, path)
        sync(path.parent)
    except (sqlite3.Error, OSError) as error:
        raise LogUnavailable(path=str(path), reason=str(error)) from error
    finally:
        draft.unlink(missing_ok=True)


def _store(connection: sqlite3.Connection, segments: Iterable[Segment]) -> None:
    connection.executemany(
        "INSERT INTO segment VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET final_offset = excluded.final_offset",
        [(one.id, one.low, one.high, json.dumps(one.predecessors), one.final_offset) for one in segments],
    )
