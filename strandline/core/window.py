"""The place of a position among the marks: the TimeWindow.

    marks     T1      T2      T3      T4      T5          each a time and a cut; the cuts form a chain
              ├───────┤                                   cuts wholly at or below the position: passed
                              ├───────┤                   neither: the readers are spread over these
                                              ├────►      cuts wholly at or above it: ahead
    window = (time of T2, upper of T5)

Cuts never go back, so "passed" is true of the first marks only, and "at or above" of the last ones only: binary
search finds both bounds. This module does not need numpy: a reader that keeps its marks in a list needs nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from strandline.core.cut import Cut
from strandline.core.mark import Mark


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Everything older than `lower` has been read. `upper` bounds every time that was noted for anything read, as of
    the mark that gives `upper`.

    Neither is guessed: there is no `lower` before the first mark, and no `upper` past the last one. `complete` and
    `mark_seq` are those of the mark that gave `lower`; without one, True and null.
    """

    lower: int | None
    upper: int | None
    complete: bool = True
    end_of_stream: bool = False
    mark_seq: int | None = None

    def __post_init__(self) -> None:
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError(f"a window needs lower <= upper, not {self.lower} and {self.upper}")
        if self.lower is None and (self.mark_seq is not None or not self.complete):
            raise ValueError(f"no lower, so no mark can have given it: {self.mark_seq}, {self.complete}")


class Sides(NamedTuple):
    """What the marks on either side of a position say: of the newest one passed its time, whether it is complete, and
    its seq; of the first one ahead its `upper`. Without one passed they are None, True and None."""

    lower: int | None
    complete: bool
    seq: int | None
    upper: int | None


def sides_of(passed: Mark | None, ahead: Mark | None) -> Sides:
    upper = None if ahead is None else ahead.upper
    return Sides(None, True, None, upper) if passed is None else Sides(passed.time, passed.complete, passed.seq, upper)


class Marks(Protocol):
    """The marks of one stream and key, for a window: `chain.MarkChain`, or `ListedMarks`.

    A mark is passed if its cut lies wholly at or below the position. The one ahead is the first that is not passed and
    whose cut lies wholly at or above it.
    """

    def sides(self, position: Cut) -> Sides: ...


def time_window(marks: Marks, position: Cut, end: Cut | None) -> TimeWindow:
    """The window at a position. `end` is the cut above all events, None while the stream is not sealed.

    `SegmentGraph.end` may exist before that: an open stream without segments, or with sealed segments only, can
    go on.
    """
    return window_between(marks.sides(position), position, end)


def window_between(sides: Sides, position: Cut, end: Cut | None, resting: Mark | None = None) -> TimeWindow:
    """The window at a position.

    `resting` is the mark of the idle advance in an ingestion stream. It follows all other marks, and is not stored: it
    gives bounds, but no seq.
    """
    lower, complete, seq, upper = sides
    window = TimeWindow(lower, upper, complete, end is not None and end.le(position), seq)
    if resting is None or upper is not None:
        return window
    if resting.cut.le(position):
        return replace(window, lower=resting.time, complete=resting.complete)
    return replace(window, upper=resting.upper) if position.le(resting.cut) else window


def check_follows(last: Mark, mark: Mark) -> None:
    """Raises ValueError if a mark cannot directly follow another. Does not check the cut."""
    if mark.seq != last.seq + 1:
        raise ValueError(f"mark {mark.seq} cannot follow mark {last.seq}: the next is {last.seq + 1}")
    if mark.key != last.key:
        raise ValueError(f"mark {mark.seq} is for key {mark.key!r}, the ones before it for {last.key!r}")
    if mark.time <= last.time:
        raise ValueError(f"the time of mark {mark.seq} is {mark.time}, which must be above {last.time}")


class ListedMarks:
    """Marks in a list, for small readers and tests: a lookup compares log2(marks) whole cuts."""

    def __init__(self, marks: Iterable[Mark] = ()) -> None:
        """Takes marks of one key, oldest first, without a gap in seq. Raises ValueError for others."""
        self._marks: list[Mark] = []
        self.extend(marks)

    def append(self, mark: Mark) -> None:
        """Adds the next mark; the first may have any seq. Raises ValueError, and then changes nothing."""
        if self._marks:
            last = self._marks[-1]
            check_follows(last, mark)
            if not last.cut.le(mark.cut):
                raise ValueError(f"the cut of mark {mark.seq} goes back, from {last.cut} to {mark.cut}")
        self._marks.append(mark)

    def extend(self, marks: Iterable[Mark]) -> None:
        """Adds marks. Raises ValueError for one that does not follow on."""
        for mark in marks:
            self.append(mark)

    def __len__(self) -> int:
        return len(self._marks)

    def __iter__(self) -> Iterator[Mark]:
        return iter(self._marks)

    def __getitem__(self, seq: int) -> Mark:
        """The mark with a seq; raises IndexError if the list does not have it."""
        if not self.first_seq <= seq <= self.last_seq:
            raise IndexError(f"there is no mark {seq} here, but {self.first_seq} to {self.last_seq}")
        return self._marks[seq - self.first_seq]

    @property
    def first_seq(self) -> int:
        return self._marks[0].seq if self._marks else 1

    @property
    def last_seq(self) -> int:
        return self.first_seq + len(self._marks) - 1

    def time_at(self, seq: int) -> int:
        return self._marks[seq - self.first_seq].time

    def offset_at(self, seq: int, segment: str) -> int:
        return self._marks[seq - self.first_seq].cut.offset(segment)

    def prune_before_seq(self, seq: int) -> int:
        """Drops the marks with a lesser seq, except the newest of all; returns their number."""
        count = max(0, min(seq - self.first_seq, len(self._marks) - 1))
        del self._marks[:count]
        return count

    def sides(self, position: Cut) -> Sides:
        return sides_of(self.passed(position), self.ahead(position))

    def passed(self, position: Cut) -> Mark | None:
        count = self._passed_count(position)
        return self._marks[count - 1] if count else None

    def ahead(self, position: Cut) -> Mark | None:
        covering = bisect_left(self._marks, True, key=lambda mark: position.le(mark.cut))
        first = max(covering, self._passed_count(position))
        return self._marks[first] if first < len(self._marks) else None

    def _passed_count(self, position: Cut) -> int:
        return bisect_left(self._marks, True, key=lambda mark: not mark.cut.le(position))
