"""The place of a position among the marks: the TimeWindow.

    marks     T1      T2      T3      T4      T5          each a time and a cut; the cuts form a chain
              ├───────┤                                   cuts wholly at or below the position: passed
                              ├───────┤                   neither: the readers are spread over these
                                              ├────►      cuts wholly at or above it: ahead
    window = (time of T2, upper of T5)

Cuts never go back, so "passed" is true of the first marks only, and "at or above" of the last ones only: binary
search finds both bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from strandline.core.chain import MarkChain, Sides
from strandline.core.cut import Cut
from strandline.core.mark import Mark
from strandline.core.time_units import as_datetime


class Bounds(Protocol):
    """What has two bounds in milliseconds."""

    @property
    def lower(self) -> int | None: ...
    @property
    def upper(self) -> int | None: ...


class BoundsAsDates:
    """The bounds of a window as datetimes."""

    __slots__ = ()

    @property
    def lower_at(self: Bounds) -> datetime | None:
        """`lower` as a datetime in UTC."""
        return as_datetime(self.lower)

    @property
    def upper_at(self: Bounds) -> datetime | None:
        """`upper` as a datetime in UTC."""
        return as_datetime(self.upper)


@dataclass(frozen=True, slots=True)
class TimeWindow(BoundsAsDates):
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


def time_window(marks: MarkChain, position: Cut, end: Cut | None) -> TimeWindow:
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
