"""Whether a log keeps what marks promised, segment by segment.

A mark (T, C) says that every event older than T lies below C. So in one segment an event is *late* if it lies at or
above the cut of a mark that is later than it:

    marks      11:58         12:00           12:04
    offset     0       20    40       60     85       90
    events             11:59          11:59           12:03
                       kept           late            late
                                 (for 12:00)     (for 12:04)

The time index has, for each offset, the latest mark whose cut lies there or below, and with it the greatest time that
was promised. A mark speaks for the writers that it counts. So a late event breaks a promise unless one writer is left
out by *every* mark that the event is late for: then that writer may have written it, and no mark spoke for it.

Cuts never go back. So once the cut of a mark lies above an event, no later mark can change what is said of it: it is
*settled*. An audit that is repeated goes on from the first event that is not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, TypeAlias

from strandline.core.checks import check_whole
from strandline.core.time_index import IndexEntry
from strandline.limits import TIME_BOUND_MS

BEFORE_ALL: Final = -TIME_BOUND_MS  # earlier than any mark
Asked: TypeAlias = Callable[[int, int, str | None], bool]


@dataclass(frozen=True, slots=True)
class LateEvent:
    """An event at or above the cut of the mark of `mark_time`, the latest such mark, and older than it. `writer` is
    None where the event does not say it. `left_out`: no mark spoke for whoever may have written it."""

    segment: str
    offset: int
    time: int
    mark_time: int
    appended_at: int
    writer: str | None
    left_out: bool

    @property
    def late_by_ms(self) -> int:
        return self.mark_time - self.time

    @property
    def counts(self) -> WriterCounts:
        """What it adds to the counts of its writer."""
        return WriterCounts(int(not self.left_out), int(self.left_out), self.late_by_ms)


@dataclass(slots=True)
class AuditCounts:
    """Events by what is said of them. `unpromised` lie below the first mark that is known: nothing was promised."""

    events: int = 0
    broken: int = 0
    left_out: int = 0
    unpromised: int = 0
    without_time: int = 0
    most_late_ms: int = 0

    def add(self, other: AuditCounts) -> None:
        self.events += other.events
        self.broken += other.broken
        self.left_out += other.left_out
        self.unpromised += other.unpromised
        self.without_time += other.without_time
        self.most_late_ms = max(self.most_late_ms, other.most_late_ms)


@dataclass(slots=True)
class WriterCounts:
    """The late events of one writer."""

    broken: int = 0
    left_out: int = 0
    most_late_ms: int = 0

    def add(self, other: WriterCounts) -> None:
        self.broken += other.broken
        self.left_out += other.left_out
        self.most_late_ms = max(self.most_late_ms, other.most_late_ms)


class LeftOut:
    """Which writers marks leave out, from when to when. It is told of marks in order, and keeps what changes."""

    def __init__(self, most_periods: int) -> None:
        """Of more than so many periods the oldest are dropped; what is asked about them counts as left out."""
        self._most = check_whole("most_periods", most_periods, least=2)
        self._excluded: tuple[str, ...] = ()
        self._since: dict[str, int] = {}  # by writer that is left out now: the last mark that counted it
        self._periods: dict[str, list[tuple[int, int]]] = {}  # ended ones: the last mark that counted it, the last not
        self._count = 0
        # Where the writers change that are left out: the first mark with them, and the least time in _since.
        self._changes: list[tuple[int, int | None]] = []
        self.reached: int | None = None
        self.known_from = BEFORE_ALL

    def take(self, time: int, excluded: Sequence[str]) -> None:
        """The next mark, and whom it leaves out."""
        before = BEFORE_ALL if self.reached is None else self.reached
        self.reached = time
        names = tuple(excluded)
        if names == self._excluded:
            return
        for writer in self._since.keys() - set(names):
            self._periods.setdefault(writer, []).append((self._since.pop(writer), before))
            self._count += 1
        for writer in names:
            self._since.setdefault(writer, before)
        self._excluded = names
        self._changes.append((time, min(self._since.values(), default=None)))
        while self._count + len(self._changes) > self._most and len(self._changes) > 1:
            self._drop()

    def by_all_marks(self, time: int, mark_time: int, writer: str | None = None) -> bool:
        """Whether there is a writer, or it is this one, that every mark later than `time` and up to that of
        `mark_time` leaves out. That mark was taken, and is later than `time`."""
        if mark_time < self.known_from:
            return True
        if writer is not None:
            return self._covers(writer, time, mark_time)
        place = bisect_right(self._changes, mark_time, key=itemgetter(0)) - 1
        counted = self._changes[place][1] if place >= 0 else None
        return counted is not None and counted <= time

    def writers(self, time: int, mark_time: int) -> list[str]:
        """All writers that every mark later than `time` and up to that of `mark_time` leaves out, in order."""
        names = self._periods.keys() | self._since.keys()
        return sorted(each for each in names if self._covers(each, time, mark_time))

    def _covers(self, writer: str, time: int, mark_time: int) -> bool:
        since = self._since.get(writer)
        if since is not None and since <= time:
            return True
        ended = self._periods.get(writer, [])
        place = bisect_left(ended, mark_time, key=itemgetter(1))
        return place < len(ended) and ended[place][0] <= time

    def _drop(self) -> None:
        """Drops the older half."""
        self._changes = self._changes[len(self._changes) // 2 :]
        self.known_from = self._changes[0][0]
        remaining = {
            writer: [each for each in ended if each[1] >= self.known_from] for writer, ended in self._periods.items()
        }
        self._periods = {writer: ended for writer, ended in remaining.items() if ended}
        self._count = sum(map(len, self._periods.values()))


@dataclass(slots=True)
class SegmentAudit:
    """Judges the events of one segment in the order of their offsets.

    `entries` is its time index from the entry at or below the first offset on; an entry is taken when an event needs
    it. `left_out` is `LeftOut.by_all_marks`, or what asks it once it was told of the marks. `settled` counts the
    events below `position`, `open` those from there on, about which a later mark may say more.
    """

    segment: str
    position: int
    entries: Iterable[IndexEntry]
    left_out: Asked
    settled: AuditCounts = field(default_factory=AuditCounts)
    open: AuditCounts = field(default_factory=AuditCounts)
    _coming: Iterator[IndexEntry] = field(init=False)
    _next: IndexEntry | None = field(init=False, default=None)
    _begun: bool = field(init=False, default=False)
    _entry: IndexEntry | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._coming = iter(self.entries)

    def check(self, offset: int, time: int, *, appended_at: int = 0, writer: str | None = None) -> LateEvent | None:
        """Counts an event; returns it if it is late."""
        self._move_to(offset)
        entry, late = self._entry, None
        if entry is not None and time < entry.time:
            left_out = self.left_out(time, entry.time, writer)
            late = LateEvent(self.segment, offset, time, entry.time, appended_at, writer, left_out)
        counts = self._counts(offset)
        counts.events += 1
        if entry is None:
            counts.unpromised += 1
        if late is not None:
            counts.left_out += late.left_out
            counts.broken += not late.left_out
            counts.most_late_ms = max(counts.most_late_ms, late.late_by_ms)
        return late

    def skip(self, offset: int) -> None:
        """Counts an event that has no time."""
        self._move_to(offset)
        self._counts(offset).without_time += 1

    def is_settled(self, offset: int) -> bool:
        """Whether the cut of a mark lies above an offset to which it has come."""
        return self._next is not None and offset < self._next.offset

    def end(self, offset: int) -> int:
        """Everything below an offset was judged; returns the offset of the newest mark, which may lie above."""
        self._move_to(offset)
        newest = max((each.offset for each in self._coming), default=0)
        for each in (self._entry, self._next):
            newest = max(newest, 0 if each is None else each.offset)
        self.position = max(self.position, min(offset, newest))
        return newest

    def _counts(self, offset: int) -> AuditCounts:
        if not self.is_settled(offset):
            return self.open
        self.position = offset + 1
        return self.settled

    def _move_to(self, offset: int) -> None:
        if not self._begun:
            self._next, self._begun = next(self._coming, None), True
        while self._next is not None and self._next.offset <= offset:
            self._entry, self._next = self._next, next(self._coming, None)


@dataclass(frozen=True, slots=True)
class NotedWriter:
    """A writer as the controller knows it: how far it noted a segment, and the greatest time that it noted."""

    writer: str
    state: str
    offset: int
    time: int | None

    def suspicion(self, late: LateEvent) -> int:
        """0: it noted a later time than the event's, and a position above it. 1: it noted a later time at a position
        that is not above it: if it wrote the event, its newest note is untrue. 2: it noted no later time: if it wrote
        the event, it had not come so far."""
        if self.time is None or self.time <= late.time:
            return 2
        return 0 if self.offset > late.offset else 1


def could_have_written(late: LateEvent, writers: Iterable[NotedWriter]) -> list[NotedWriter]:
    """The writers that noted the segment of a late event: by suspicion, then by their names."""
    return sorted([each for each in writers if each.offset], key=lambda each: (each.suspicion(late), each.writer))
