"""A log in memory whose acknowledgements the test controls. It passes the contract of `strandline.logs.contract`."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum, auto
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from strandline.core.segment import NewSegment, Segment, SegmentGraph
from strandline.errors import StrandlineError, UnknownSegment
from strandline.logs import BATCH_ROWS, Event, Memo, Position, StoredEvent, Transaction, check_size
from strandline.logs.buffered_transaction import BufferedTransaction, OpenTransactions
from strandline.logs.columns import event_schema
from strandline.logs.errors import NotAcknowledged, NotInLog
from strandline.logs.route import Route
from strandline.testing.clock import ManualClock

if TYPE_CHECKING:
    import pyarrow as pa

PATH: Final = "scripted"  # its name in errors
FLUSH_BOUND_S: Final = 10.0  # a flush fails after this: the test forgot to acknowledge


class Acknowledge(StrEnum):
    """When appends enter the log and count as acknowledged."""

    AT_ONCE = auto()
    """When they return."""
    ON_FLUSH = auto()
    """With the next flush, as behind a network."""
    BY_HAND = auto()
    """When the test calls `acknowledge`."""


class ScriptedLog:
    """A log in memory, empty at first. Any number of writers and readers may share it, in any threads."""

    def __init__(self, segments: int | Sequence[NewSegment] = 1, *, clock: Callable[[], int] | None = None) -> None:
        """`segments` is a number ("0", "1", … with equal shares of [0, 1)) or ranges that tile [0, 1)."""
        if isinstance(segments, int):
            self._graph = SegmentGraph.equal_shares(segments, created_at=0)
        else:
            self._graph = SegmentGraph.of_ranges(segments, created_at=0)
        self._clock = clock if clock is not None else ManualClock()
        self._slots: dict[str, list[StoredEvent | None]] = {one.id: [] for one in self._graph}
        self._memos: dict[str, str] = {}
        self._lock = threading.Lock()

    def writer(self, acknowledge: Acknowledge = Acknowledge.AT_ONCE) -> ScriptedLogWriter:
        """The append side of one process."""
        return ScriptedLogWriter(self, acknowledge)

    def reader(self) -> ScriptedLogReader:
        return ScriptedLogReader(self)

    def segments(self) -> list[Segment]:
        """All segments, sealed ones too, predecessors before successors."""
        with self._lock:
            return list(self._graph)

    def end_offsets(self) -> Position:
        """The end of every segment. Events that are not acknowledged yet do not count."""
        with self._lock:
            return self._ends()

    def scale(self, seal: Iterable[str], create: Sequence[NewSegment]) -> Position:
        """Seals segments and creates their successors; returns the final offsets. Raises InvalidScale."""
        with self._lock:
            ends = self._ends()
            finals = {name: ends[self._graph[name].id] for name in seal}
            self._graph.scale(finals, create, created_at=0)
            for one in self._graph:
                self._slots.setdefault(one.id, [])
            return finals

    def seal(self) -> Position:
        """Seals every segment: nothing can be appended any more. Returns the final offset of each."""
        with self._lock:
            self._graph.seal_all(self._ends())
            return self._ends()

    def skip(self, segment: str, count: int = 1) -> None:
        """Leaves offsets without an event, as for a commit's marker."""
        with self._lock:
            self._slots[self._graph[segment].id].extend(itertools.repeat(None, count))

    # -- for its writers and readers ---------------------------------------------------------------------------------

    def check(self, events: Iterable[Event]) -> None:
        """Raises the errors of appending these events, and appends nothing."""
        with self._lock:
            route = Route(PATH, self._graph)
            for event in events:
                check_size(event)
                route.segment(event)

    def put(self, events: Iterable[Event], memo: Memo | None = None) -> Position:
        """Appends all events or none, and keeps the memo with them; returns the position behind them."""
        with self._lock:
            route = Route(PATH, self._graph)
            placed = [(route.segment(event), event) for event in events]
            now = self._clock()
            ends: Position = {}
            for segment, event in placed:
                slots = self._slots[segment]
                slots.append(StoredEvent(segment, len(slots), event.key, event.value, now))
                ends[segment] = len(slots)
            if memo is not None:
                self._memos[memo.name] = memo.text
            return ends

    def between(self, segment: str, start: int, end: int) -> list[StoredEvent]:
        """The events of a range. Raises UnknownSegment, and NotInLog if the log does not hold the whole range."""
        with self._lock:
            slots = self._slots.get(segment)
            if slots is None:
                raise UnknownSegment.among(self._slots, segment)
            if not 0 <= start <= end <= len(slots):
                raise NotInLog(
                    segment=segment, start=start, end=end, found=max(0, min(end, len(slots)) - max(0, start))
                )
            return [event for event in slots[start:end] if event is not None]

    def memo(self, name: str) -> str | None:
        with self._lock:
            return self._memos.get(name)

    def _ends(self) -> Position:
        return {segment: len(slots) for segment, slots in self._slots.items()}


class ScriptedLogWriter:
    """The append side of a scripted log. An append that is not acknowledged is under way, and not in the log yet.

    A transaction is in the log, and acknowledged, when its commit returns.
    """

    def __init__(self, log: ScriptedLog, acknowledge: Acknowledge) -> None:
        self._log = log
        self._mode = acknowledge
        self._positions: Position = {}
        self._under_way: deque[list[Event]] = deque()
        self._made = 0  # all appends, failed ones too
        self._failed: list[tuple[list[Event], str]] = []  # not reported yet
        self._refusals: deque[Exception] = deque()
        self._flushing = 0
        self._changed = threading.Condition()
        self._open = OpenTransactions()

    # -- for tests ---------------------------------------------------------------------------------------------------

    @property
    def under_way(self) -> int:
        """How many appends are neither acknowledged nor failed."""
        return len(self._under_way)

    def acknowledge(self, appends: int | None = None) -> None:
        """Puts the oldest appends under way into the log: this many, or all."""
        with self._changed:
            for _ in range(len(self._under_way) if appends is None else appends):
                self._settle()
            self._changed.notify_all()

    def fail(self, reason: str = "a scripted fault", appends: int = 1) -> None:
        """Fails the oldest appends under way: they never enter the log, and the next flush raises this, once."""
        with self._changed:
            for _ in range(appends):
                self._failed.append((self._under_way.popleft(), reason))
            self._changed.notify_all()

    def refuse(self, *errors: Exception) -> None:
        """Makes the next appends raise these errors, one each, and append nothing."""
        self._refusals.extend(errors)

    def wait_for_flush(self, timeout_s: float = FLUSH_BOUND_S) -> None:
        """Waits until another thread is in `flush`. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._flushing > 0, timeout_s):
                raise TimeoutError(f"no thread began to flush within {timeout_s} s")

    # -- the Log protocol --------------------------------------------------------------------------------------------

    def append(self, events: Iterable[Event]) -> Position:
        """See `Log.append`; also raises the errors of `refuse`."""
        rows = list(events)
        if self._refusals:
            raise self._refusals.popleft()
        self._log.check(rows)
        if not rows:
            return {}
        with self._changed:
            if self._mode is Acknowledge.AT_ONCE:
                return self._put(rows)
            self._made += 1
            self._under_way.append(rows)
            return {}

    def flush(self) -> Position:
        """See `Log.flush`. Raises NotAcknowledged for failed appends; one that is not acknowledged within FLUSH_BOUND_S
        fails."""
        with self._changed:
            if self._mode is Acknowledge.ON_FLUSH:
                while self._under_way:
                    self._settle()
            target = self._made
            self._flushing += 1
            self._changed.notify_all()
            try:
                done = self._changed.wait_for(lambda: self._made - len(self._under_way) >= target, FLUSH_BOUND_S)
            finally:
                self._flushing -= 1
            if not done:
                reason = f"the test did not call acknowledge() within {FLUSH_BOUND_S} s"
                self._failed += [(rows, reason) for rows in self._under_way]
                self._under_way.clear()
            self._raise_failed()
            return dict(self._positions)

    def positions(self) -> Position:
        with self._changed:
            return dict(self._positions)

    def end_offsets(self) -> Position:
        return self._log.end_offsets()

    def begin(self) -> Transaction:
        transaction = BufferedTransaction(self._commit)
        self._open.add(transaction)
        return transaction

    def in_transaction(self, besides: Transaction | None = None) -> bool:
        return self._open.has_others(besides)

    def memo(self, name: str) -> str | None:
        return self._log.memo(name)

    def close(self) -> None: ...

    # -- within ------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        rows = self._under_way.popleft()
        try:
            self._put(rows)
        except StrandlineError as error:  # its segment was sealed meanwhile
            self._failed.append((rows, str(error)))

    def _put(self, rows: list[Event], memo: Memo | None = None) -> Position:
        ends = self._log.put(rows, memo)
        self._positions.update(ends)
        return ends

    def _commit(self, events: list[Event], memo: Memo | None) -> Position:
        with self._changed:
            return self._put(events, memo)

    def _raise_failed(self) -> None:
        if self._failed:
            failed, self._failed = self._failed, []
            events = tuple(event for rows, _ in failed for event in rows)
            raise NotAcknowledged(path=PATH, count=len(events), reason=failed[0][1], events=events)


class ScriptedLogReader:
    """The read side of a scripted log. Closing it changes nothing."""

    def __init__(self, log: ScriptedLog) -> None:
        self._log = log

    def end_offsets(self) -> Position:
        return self._log.end_offsets()

    def segments(self) -> list[Segment]:
        return self._log.segments()

    def read(self, segment: str, start: int, end: int, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """See `LogReader.read`; needs pyarrow."""
        rows = self._log.between(segment, start, end)
        return (_batch_of(rows[first : first + batch_rows]) for first in range(0, len(rows), batch_rows))

    def rows(self, segment: str, start: int, end: int) -> Iterator[StoredEvent]:
        return iter(self._log.between(segment, start, end))

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def _batch_of(rows: Sequence[StoredEvent]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(
        [
            {
                "key": row.key,
                "value": row.value,
                "segment": row.segment,
                "offset": row.offset,
                "appended_at": row.appended_at * 1000,
            }
            for row in rows
        ],
        schema=event_schema(),
    )
