"""Whether a log keeps what marks promised, segment by segment.

A mark (T, C) means that every event older than T lies below C. So in one segment an event is *late* if it lies at or
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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, TypeAlias

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


@dataclass(slots=True)
class LateCounts:
    """Late events by what is said of them."""

    broken: int = 0
    left_out: int = 0
    most_late_ms: int = 0

    def count(self, late: LateEvent) -> None:
        self.left_out += late.left_out
        self.broken += not late.left_out
        self.most_late_ms = max(self.most_late_ms, late.late_by_ms)


@dataclass(slots=True)
class AuditCounts(LateCounts):
    """All events. `unpromised` lie below the first mark that is known: nothing was promised."""

    events: int = 0
    unpromised: int = 0
    without_time: int = 0


class LeftOut:
    """Which writers marks leave out, from when to when. It takes marks in order, and keeps what changes."""

    def __init__(self) -> None:
        self.reached: int | None = None
        # By writer, the periods in which it was left out: the last mark that counted it, and the last that did not.
        self._periods: dict[str, list[tuple[int, int]]] = {}
        # Where it changes: the first mark, and the least begin of the periods of those that it leaves out.
        self._longest: list[tuple[int, int]] = []

    def take(self, time: int, excluded: Sequence[str]) -> None:
        """The next mark, and whom it leaves out."""
        before = BEFORE_ALL if self.reached is None else self.reached
        self.reached = longest = time
        for writer in excluded:
            periods = self._periods.setdefault(writer, [])
            goes_on = bool(periods) and periods[-1][1] == before
            since = periods.pop()[0] if goes_on else before
            periods.append((since, time))
            longest = min(longest, since)
        if longest == time:
            longest = TIME_BOUND_MS
        if not self._longest or self._longest[-1][1] != longest:
            self._longest.append((time, longest))

    def by_all_marks(self, time: int, mark_time: int, writer: str | None = None) -> bool:
        """Whether there is a writer, or it is this one, that every mark later than `time` and up to that of
        `mark_time` leaves out. That mark was taken, and is later than `time`."""
        if writer is not None:
            return self._covers(writer, time, mark_time)
        return self._longest[bisect_right(self._longest, mark_time, key=itemgetter(0)) - 1][1] <= time

    def writers(self, time: int, mark_time: int) -> list[str]:
        """All writers that every mark later than `time` and up to that of `mark_time` leaves out, in order."""
        return sorted(each for each in self._periods if self._covers(each, time, mark_time))

    def _covers(self, writer: str, time: int, mark_time: int) -> bool:
        periods = self._periods.get(writer, [])
        place = bisect_left(periods, mark_time, key=itemgetter(1))
        return place < len(periods) and periods[place][0] <= time


class SegmentAudit:
    """Judges the events of one segment in the order of their offsets."""

    def __init__(self, segment: str, start: int, entries: Iterable[IndexEntry], left_out: Asked) -> None:
        """`entries` is its time index from the entry at or below the first offset on; an entry is taken when an event
        needs it. `left_out` is `LeftOut.by_all_marks`, or what asks it once it has taken the marks."""
        self.segment = segment
        self.counts = AuditCounts()
        self._start = self._reached = start
        self._left_out = left_out
        self._coming = iter(entries)
        self._entry: IndexEntry | None = None
        self._next = next(self._coming, None)

    def check(self, offset: int, time: int, *, appended_at: int = 0, writer: str | None = None) -> LateEvent | None:
        """Counts an event; returns it if it is late."""
        self._move_to(offset)
        entry, late = self._entry, None
        if entry is not None and time < entry.time:
            left_out = self._left_out(time, entry.time, writer)
            late = LateEvent(self.segment, offset, time, entry.time, appended_at, writer, left_out)
            self.counts.count(late)
        self.counts.events += 1
        self.counts.unpromised += entry is None
        self._reached = offset + 1
        return late

    def skip(self, offset: int) -> None:
        """Counts an event that has no time."""
        self._move_to(offset)
        self.counts.without_time += 1
        self._reached = offset + 1

    def end(self, offset: int) -> int:
        """Everything below an offset was judged; returns the offset of the newest mark, which may lie above."""
        self._move_to(offset)
        self._reached = offset
        ahead = [each for each in (self._entry, self._next) if each is not None]
        return max((each.offset for each in [*ahead, *self._coming]), default=0)

    @property
    def position(self) -> int:
        """Where the next audit begins: what lies below is settled."""
        if self._next is not None:
            return self._reached
        return max(self._start, 0 if self._entry is None else self._entry.offset)

    def _move_to(self, offset: int) -> None:
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
