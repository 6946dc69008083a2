"""What the writers of a key contribute to its next marks, gathered as their notes come.

A writer contributes its earliest kept note at or above the mark's time, else its last position. Its positions only
rise. So a position that it notes is in every mark above the time that it had noted before, and a mark's cut is the join
of all positions whose `above` is less than its time:

    noted          10@1     20@5     30@9
    above           –        10       20       a mark at 15 has 5, a mark at 25 has 9

The positions are gathered in spans of `above`, each with the join of its positions. A mark takes the spans below its
time as a whole, and divides at most one. So its cost depends on the number of spans, not on that of writers.

Most notes come after all others, and go into the last span until it is full. Requests that are taken in turns bring
some a little later, within spans that are full by then: these have room for as many again before they are divided.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from strandline.core.cut import Cut, join_row
from strandline.core.shape import Shape

SPAN_POSITIONS: Final = 256  # a span is full, and is divided if it has twice as many, unless all have the same `above`


class Given(NamedTuple):
    """A position, and the writer's time there. It is in every mark above `above`; None: in the next mark already."""

    above: int | None
    time: int | None
    cut: Cut


class Gathered:
    """The join of several positions, the greatest of their times, and their writers."""

    __slots__ = ("names", "rows", "time")

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.rows: dict[Shape, int] = {}  # the join of the positions of each shape
        self.time: int | None = None

    def add(self, name: str, time: int | None, cut: Cut) -> None:
        self.names.add(name)
        if time is not None:
            self.add_time(time)
        join_row(self.rows, cut.shape, cut.row)

    def add_time(self, time: int) -> None:
        if self.time is None or time > self.time:
            self.time = time


class PositionRange(Gathered):
    """Positions whose `above` is from `least` to `most`."""

    __slots__ = ("least", "most", "positions")

    def __init__(self, above: int) -> None:
        super().__init__()
        self.least = self.most = above
        self.positions = 0

    def put(self, above: int, name: str, time: int | None, cut: Cut) -> None:
        # What `add` does, without its calls: every note comes here.
        self.names.add(name)
        if time is not None and (self.time is None or time > self.time):
            self.time = time
        shape, rows = cut.shape, self.rows
        row = rows.get(shape)
        rows[shape] = cut.row if row is None else shape.join(row, cut.row)
        self.positions += 1
        if above > self.most:
            self.most = above
        elif above < self.least:
            self.least = above


class Contributions:
    """The contributions to the next marks of a key."""

    __slots__ = ("_full", "_given_by", "_next", "_spans", "_starts")

    def __init__(self, given_by: Callable[[str], Iterable[Given]], full: int = SPAN_POSITIONS) -> None:
        """`given_by` lists what a writer contributes now; it is called when a span is divided."""
        self._given_by = given_by
        self._full = full
        self._next = Gathered()  # what is in the next mark, whatever its time
        self._spans: list[PositionRange] = []
        self._starts: list[int] = []  # each span has the positions from its start up to the next span's

    def add(self, name: str, above: int | None, time: int | None, cut: Cut) -> None:
        """Adds a position that a writer noted."""
        if above is None:
            self._next.add(name, time, cut)
            return
        at = max(0, bisect_right(self._starts, above) - 1)
        span = self._spans[at] if self._spans else self._insert(0, above)
        if span.positions >= self._full and not span.least <= above <= span.most:
            at, span = self._beside(at, above)
        if above < self._starts[at]:
            self._starts[at] = above
        span.put(above, name, time, cut)
        if span.positions > 2 * self._full and span.least != span.most:
            self._divide(at, None)

    def add_time(self, time: int) -> None:
        """Makes the greatest time in the next mark at least this one."""
        self._next.add_time(time)

    def below(self, time: int) -> list[Gathered]:
        """What is in a mark at `time`."""
        return [self._next, *self._spans[: self._end_below(time)]]

    def take(self, time: int) -> list[Gathered]:
        """Removes and returns what is in a mark at `time`, which is made now."""
        taken: list[Gathered] = [self._next, *self._remove_below(time)]
        later = self._remove_below(time + 1)  # with an `above` of `time`: in every later mark
        assert len(later) <= 1, "positions with one `above` share a span"
        self._next = later[0] if later else Gathered()
        return taken

    def _remove_below(self, time: int) -> list[PositionRange]:
        end = self._end_below(time)
        removed = self._spans[:end]
        del self._spans[:end], self._starts[:end]
        return removed

    def _end_below(self, time: int) -> int:
        """How many spans are below a time, after the one that it is in is divided."""
        end = bisect_left(self._starts, time)
        if end and self._spans[end - 1].most >= time:
            self._divide(end - 1, time)
            end = bisect_left(self._starts, time)
        return end

    def _beside(self, at: int, above: int) -> tuple[int, PositionRange]:
        """The place and the span of what comes before or after a full one: its neighbour, if that is not full, or a new
        one."""
        full = self._spans[at]
        if above < full.least:  # before all spans, or between the start of this one and its first position
            self._starts[at] = full.least
        else:
            at += 1
            if at < len(self._spans) and self._spans[at].positions < self._full:
                return at, self._spans[at]
        return at, self._insert(at, above)

    def _insert(self, at: int, above: int) -> PositionRange:
        span = PositionRange(above)
        self._spans.insert(at, span)
        self._starts.insert(at, above)
        return span

    def _divide(self, at: int, time: int | None) -> None:
        """Divides a span into what is below a time and the rest, without a time into halves.

        Only what its writers still contribute stays: a new life or a thinned history makes other positions needless.
        """
        span = self._spans[at]
        found = []
        for name in span.names:
            for above, noted, cut in self._given_by(name):
                if above is not None and span.least <= above <= span.most:
                    found.append((above, name, noted, cut))
        if time is None:
            time = _middle(sorted(above for above, *_ in found))
        parts = []
        for side in ([each for each in found if each[0] < time], [each for each in found if each[0] >= time]):
            if side:
                part = PositionRange(side[0][0])
                for each in side:
                    part.put(*each)
                parts.append(part)
        self._spans[at : at + 1] = parts
        self._starts[at : at + 1] = [part.least for part in parts]


def _middle(aboves: list[int]) -> int:
    """A number that divides these, which are in order, about in half: some are below it, if they differ."""
    middle = aboves[len(aboves) // 2]
    return middle if middle > aboves[0] else next((above for above in aboves if above > middle), middle + 1)
