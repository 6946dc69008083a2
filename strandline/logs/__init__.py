"""Logs hold the events. Strandline keeps only positions in them.

`Log` is everything that a writer needs of a log: it appends, and has how far the writer's own appends are
acknowledged, and where the log ends. `LogReader` reads exact ranges. `strandline.logs.contract` has the tests that
every log must pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from strandline.core.segment import Segment
from strandline.errors import TooMany, UnknownSegment
from strandline.limits import MEMO_BYTES
from strandline.logs.errors import InvalidEvent, NotInLog
from strandline.names import check_name

if TYPE_CHECKING:
    import pyarrow as pa

EVENT_BYTES: Final = 1024 * 1024  # of an event, its key and its value together
BATCH_ROWS: Final = 65_536  # the most rows of an Arrow batch
BATCH_FIRST_ROWS: Final = 256  # the first batch shows the size of events; later ones grow towards BATCH_BYTES
BATCH_GROWTH_TIMES: Final = 4  # the most by which a batch is larger than the one before
BATCH_BYTES: Final = 16 * 1024 * 1024  # the approximate size of an Arrow batch

WANTED_EVENTS: Final = 'give a list of events, as [Event(b"…", key=b"…")]'
Position = dict[str, int]  # by segment, the next free offset: everything below it is written


@dataclass(frozen=True, slots=True)
class Event:
    """An event to append to `segment`, or, if that is None, to the segment of its key.

    For example:

        Event(b'{"time": 1700000000000}', key=b"customer-7")
    """

    value: bytes | None
    key: bytes | None = None
    segment: str | None = None

    def __post_init__(self) -> None:
        if self.value is not None and type(self.value) is not bytes:
            raise InvalidEvent(name="value", value=self.value, wanted="bytes or None")
        if self.key is not None and type(self.key) is not bytes:
            raise InvalidEvent(name="key", value=self.key, wanted="bytes or None")
        if self.key is None and self.segment is None:
            raise InvalidEvent(name="key", value=None, wanted="a key or a segment, which gives its place in the log")

    @property
    def size_bytes(self) -> int:
        return len(self.value or b"") + len(self.key or b"")


def check_size(event: Event) -> None:
    """Raises InvalidEvent for an event larger than EVENT_BYTES, which bounds a reader's batches."""
    if event.size_bytes > EVENT_BYTES:
        raise InvalidEvent(
            name="size", value=event.size_bytes, wanted=f"key and value have at most {EVENT_BYTES} bytes"
        )


def events_of(given: Iterable[Event]) -> list[Event]:
    """The events as a list. Raises InvalidEvent for anything else in their place, and for anything else among them."""
    if isinstance(given, Event | str | bytes):
        raise InvalidEvent(
            name="the type", value=f"{type(given).__name__}, with no list around it", wanted=WANTED_EVENTS
        )
    events: list[Event] = list(given)
    for each in events:
        if not isinstance(each, Event):
            raise InvalidEvent(name="the type", value=type(each).__name__, wanted=WANTED_EVENTS)
    return events


def check_range(known: Collection[str], segment: str, start: int, end: int) -> None:
    """Raises UnknownSegment for a segment that the log does not have, and NotInLog if `start` to `end` is no range."""
    if segment not in known:
        raise UnknownSegment.among(known, segment)
    if not 0 <= start <= end:
        raise NotInLog(segment=segment, start=start, end=end, found=0)


def check_head(head: Position, ends: Position) -> None:
    """Checks the argument of `truncate`: raises UnknownSegment, and NotInLog for an offset beyond the end."""
    for segment, offset in head.items():
        check_range(ends, segment, offset, offset)
        if offset > ends[segment]:
            raise NotInLog(segment=segment, start=offset, end=offset, found=0)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event in the log; `appended_at` is the time of the append in ms, by the clock of the log or of the writer."""

    segment: str
    offset: int
    key: bytes | None
    value: bytes | None
    appended_at: int


@dataclass(frozen=True, slots=True)
class Memo:
    """A text that a writer keeps with a commit, to find it after a crash. A log keeps the last one of each name."""

    name: str
    text: str

    def __post_init__(self) -> None:
        check_name("writer", self.name)
        if len(self.text.encode()) > MEMO_BYTES:
            raise TooMany(what="bytes in a memo", count=len(self.text.encode()), limit=MEMO_BYTES)


class Transaction(Protocol):
    """Events that appear in the log all at once, or not at all.

    Leaving the `with` block without a commit aborts.
    """

    def write(self, events: Iterable[Event]) -> None:
        """Adds events, all of them or none; readers do not see them yet. Raises TransactionOver after a commit or an
        abort."""
        ...

    def commit(self, memo: Memo | None = None) -> Position:
        """Makes all events durable and visible; returns the position behind them in each of their segments.

        The log keeps the events and the memo, or neither.
        """
        ...

    def abort(self) -> None:
        """Forgets all events. Does nothing if the transaction is over."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Log(Protocol):
    """The append side of a log, for one writer. One thread appends; other threads may call `flush`, `positions`,
    `end_offsets` and `memo` at the same time.

    A log to which the program also writes without the writer has `is_written_beside` true, and counts all events in
    `sent`. One that several writers may share counts in `failures_raised` the failed events that `flush` raised to any.
    """

    def append(self, events: Iterable[Event]) -> Position:
        """Appends events, in order in each segment, all of them or none.

        Returns the position behind them in each of their segments, as far as it is acknowledged: a log that
        acknowledges later leaves out unknown positions, and `flush` waits for them.
        """
        ...

    def flush(self) -> Position:
        """Waits until every append so far is acknowledged or has failed, and returns `positions()`.

        While a transaction is open, it returns the position without that transaction, or raises TransactionUnderWay.

        If an append failed after it had returned, this raises, once. After that the append counts as never made: the
        writer appends the events again, or gives them up. It need not wait for appends that come during the wait.
        """
        ...

    def positions(self) -> Position:
        """How far this writer's own appends are acknowledged: never past one that is under way or whose failure was not
        raised yet, and without a transaction before its commit.

        It is empty for a new object: the appends of an earlier process do not count.
        """
        ...

    def end_offsets(self) -> Position:
        """The end of every segment, with the appends of all writers, as of one moment; 0 for an empty segment."""
        ...

    def begin(self) -> Transaction:
        """Starts a transaction."""
        ...

    def in_transaction(self, besides: Transaction | None = None) -> bool:
        """Whether a transaction that was begun at this object, or by its producer, is neither committed nor aborted,
        other than `besides`. Writers note nothing then, since no position covers its events. It does not wait.

        One that was dropped without a commit or an abort counts until Python has freed it.
        """
        ...

    def memo(self, name: str) -> str | None:
        """The text of the last memo that any process committed under a name."""
        ...

    def close(self) -> None:
        """Releases its resources. Aborts a transaction that is still open."""
        ...


class TruncatableLog(Protocol):
    """A log that can remove its oldest events."""

    def truncate(self, head: Position) -> Position:
        """Removes the events below these offsets; returns the new first offset of each of these segments.

        A repeated call, or one below the first offset, changes nothing. Raises UnknownSegment, and NotInLog for an
        offset beyond the end, and then removes nothing.
        """
        ...


class LogReader(Protocol):
    """The read side of a log: its ends, and exact ranges.

    For one thread at a time. Another process must open its own.
    """

    def end_offsets(self) -> Position:
        """The end of every segment, up to which `read` may go, as of one moment."""
        ...

    def segments(self) -> list[Segment]:
        """All segments, sealed ones too, predecessors before successors."""
        ...

    def read(self, segment: str, start: int, end: int, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Every event from `start` up to, not including, `end`, as Arrow batches with `event_schema()`.

        A log may have offsets without an event (a commit's marker, a compacted record): they are skipped. Raises
        UnknownSegment, and NotInLog if the log does not hold the whole range, at the latest where a part is missing.
        """
        ...

    def rows(self, segment: str, start: int, end: int) -> Iterator[StoredEvent]:
        """Like `read`, one event at a time."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
