"""Logs: where the events themselves live. Strandline keeps only positions in them.

A writer needs little of a log, and `Log` is all of it: to append, to know how far its own appends are
acknowledged, and where the log ends. A reader needs exact ranges: `LogReader`. `strandline.logs.contract` has the tests
that every log must pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from strandline.core.segment import Segment
from strandline.errors import TooMany, UnknownSegment
from strandline.limits import BATCH_ROWS, EVENT_BYTES, MEMO_BYTES
from strandline.logs.errors import InvalidEvent, NotInLog
from strandline.names import check_name

if TYPE_CHECKING:
    import pyarrow as pa

Position = dict[str, int]  # segment → next free slot: everything below it is written


@dataclass(frozen=True, slots=True)
class Event:
    """What is appended: to `segment`, or, where that is None, to the segment that the key belongs to."""

    value: bytes | None
    key: bytes | None = None
    segment: str | None = None

    def __post_init__(self) -> None:
        if self.value is not None and type(self.value) is not bytes:
            raise InvalidEvent(name="value", value=self.value, wanted="bytes or None")
        if self.key is not None and type(self.key) is not bytes:
            raise InvalidEvent(name="key", value=self.key, wanted="bytes or None")
        if self.key is None and self.segment is None:
            raise InvalidEvent(name="key", value=None, wanted="a key or a segment, so that it has a place to go")

    @property
    def size_bytes(self) -> int:
        return len(self.value or b"") + len(self.key or b"")


def check_size(event: Event) -> None:
    """Raises InvalidEvent where an event is larger than EVENT_BYTES, which bounds a reader's batches."""
    if event.size_bytes > EVENT_BYTES:
        raise InvalidEvent(
            name="size", value=event.size_bytes, wanted=f"key and value have at most {EVENT_BYTES} bytes"
        )


def check_range(known: Collection[str], segment: str, start: int, end: int) -> None:
    """Raises UnknownSegment for a segment that is not among those of the log, and NotInLog for what is no range."""
    if segment not in known:
        raise UnknownSegment(segment=segment, known=tuple(known)[:10])
    if not 0 <= start <= end:
        raise NotInLog(segment=segment, start=start, end=end, found=0)


def check_head(head: Position, ends: Position) -> None:
    """Raises UnknownSegment, and NotInLog for an offset beyond the end: whoever truncates a log starts with this."""
    for segment, offset in head.items():
        check_range(ends, segment, offset, offset)
        if offset > ends[segment]:
            raise NotInLog(segment=segment, start=offset, end=offset, found=0)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it stands in the log; `appended_at` is when, in ms, by the log's own clock or its writer's."""

    segment: str
    offset: int
    key: bytes | None
    value: bytes | None
    appended_at: int


@dataclass(frozen=True, slots=True)
class Memo:
    """What a writer keeps with a commit, to find it after a crash. A log keeps the last one of each name."""

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
        """Adds events; no one sees them yet. Raises TransactionOver after a commit or an abort."""
        ...

    def commit(self, memo: Memo | None = None) -> Position:
        """Makes all of it durable and visible; returns the position behind it in each segment it wrote to.

        The memo is kept with it: both, or neither.
        """
        ...

    def abort(self) -> None:
        """Forgets all of it. Harmless when it is over already."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Log(Protocol):
    """The append side of a log, as one writer uses it. One thread appends; meanwhile others may call what only asks:
    `flush`, `positions`, `end_offsets`, `memo`.
    """

    def append(self, events: Iterable[Event]) -> Position:
        """Appends events, in order in each segment, all of them or none.

        Returns the position behind them in each segment they went to, as far as it is acknowledged: a log
        that acknowledges later leaves out what it does not know yet, and `flush` waits for it.
        """
        ...

    def flush(self) -> Position:
        """Waits until every append so far is acknowledged or has failed, and returns `positions()`.

        While a transaction is open it says nothing of that: it returns the position without it, or raises
        TransactionUnderWay.

        An append that failed after it had returned is raised here, once; after that it counts as never made: who
        made it appends it again, or gives it up. Appends that come during the wait need not be waited for.
        """
        ...

    def positions(self) -> Position:
        """How far this writer's own appends are acknowledged. Never past one that is still under way, or that
        failed without anyone having been told, and nothing of a transaction before its commit.

        It starts empty with each new object: what an earlier process wrote is not its own.
        """
        ...

    def end_offsets(self) -> Position:
        """The end of every segment, whoever wrote it, as of one moment; 0 where nothing is written."""
        ...

    def begin(self) -> Transaction:
        """Starts a transaction."""
        ...

    def memo(self, name: str) -> str | None:
        """The text of the memo that was committed last under a name, whichever process did it."""
        ...

    def close(self) -> None:
        """Gives up what it holds open. A transaction that is still under way is aborted."""
        ...


class TruncatableLog(Protocol):
    """A log that can remove its oldest events."""

    def truncate(self, head: Position) -> Position:
        """Removes what lies below these offsets; returns where each of these segments begins now.

        Done again, or below what is gone already, it changes nothing. Raises UnknownSegment, and NotInLog for an offset
        beyond the end, and then removes nothing.
        """
        ...


class LogReader(Protocol):
    """The read side of a log: where it ends, and exact ranges of it.

    For one thread at a time, and not to be sent to another process: open one there.
    """

    def end_offsets(self) -> Position:
        """The end of every segment, up to which `read` may go, as of one moment."""
        ...

    def segments(self) -> list[Segment]:
        """All segments, sealed ones too, predecessors before successors."""
        ...

    def read(self, segment: str, start: int, end: int, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Every event from `start` up to, not including, `end`, as Arrow batches with `event_schema()`.

        A log may have offsets at which no event stands (a commit's marker, a compacted record): they are passed
        over. Raises UnknownSegment, and NotInLog where the range is not wholly there: never less than was asked for.
        """
        ...

    def rows(self, segment: str, start: int, end: int) -> Iterator[StoredEvent]:
        """The same as `read`, one event at a time."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
