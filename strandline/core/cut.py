"""Cuts: an offset for every segment of a stream. They form a lattice, not a line.

A cut is *closed*: if it reaches into a segment, it contains that segment's predecessors up to their final offsets
(`SegmentGraph.cut` ensures this). Then the order is the order of the offsets, segment by segment:

    a.le(b)      a lies wholly at or below b
    a.join(b)    the least cut at or above both: the greater offset everywhere
    a.meet(b)    the greatest cut at or below both: the lesser offset everywhere

For two cuts neither `a.le(b)` nor `b.le(a)` need hold; they are then incomparable, and `<` is not defined.
"""

from __future__ import annotations

import struct
from collections.abc import ItemsView, Iterable, Mapping
from typing import Any, Final

from strandline.core.packed_integers import LANE_BITS, Columns, LanePosition
from strandline.core.shape import Shape, shape_of

FEW_TIMES: Final = 8  # to look up an offset costs a part of what it costs to unpack all of a cut


class Cut:
    """An offset for each segment; a segment at 0 is left out. Immutable; equal if the offsets are equal.

    It is kept as a row of a shape (`strandline.core.shape`), whose lanes are all above 0.
    """

    __slots__ = ("row", "shape")
    row: int
    shape: Shape

    def __init__(self, offsets: Mapping[str, int]) -> None:
        """Takes closed offsets. Raises ValueError for one that is no whole number from 0 to 2^63 - 1.
        `SegmentGraph.cut` closes a position."""
        try:
            if not all(offsets.values()):
                offsets = {segment: offset for segment, offset in offsets.items() if offset}
            shape = shape_of(tuple(offsets))
            row = shape.row(shape.pick(offsets))
        except struct.error:
            raise _misfit(offsets) from None
        _set_shape(self, shape)
        _set_row(self, row)

    @staticmethod
    def of_row(shape: Shape, row: int) -> Cut:
        """The cut with this row of a shape, in which no lane is 0."""
        cut = object.__new__(Cut)
        _set_shape(cut, shape)
        _set_row(cut, row)
        return cut

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a cut cannot be changed: {name}")

    def __reduce__(self) -> tuple[type[Cut], tuple[dict[str, int]]]:
        return Cut, (self.offsets,)

    def offset(self, segment: str) -> int:
        """The offset in a segment, 0 if the cut does not reach into it."""
        return self.shape.offset(self.row, segment)

    @property
    def offsets(self) -> dict[str, int]:
        """All offsets above 0, by segment: a new dict each time."""
        return self.shape.offsets(self.row)

    def place_in(self, columns: Columns) -> LanePosition:
        """The cut as lanes."""
        return columns.place(self.row, self.shape.names)

    def items(self) -> ItemsView[str, int]:
        return self.offsets.items()

    def le(self, other: Cut) -> bool:
        """Whether this cut lies wholly at or below the other."""
        shape, there = self.shape, other.shape
        if shape is there:
            tops = shape.tops
            return ((other.row | tops) - self.row) & tops == tops
        if len(shape.names) > len(there.names):
            return False  # each of its offsets is above 0
        offset = other.offsets.get if len(there.names) < FEW_TIMES * len(shape.names) else other.offset
        for segment, mine in self.items():  # noqa: SIM110  # a plain loop is faster
            if mine > (offset(segment) or 0):
                return False
        return True

    def join(self, other: Cut) -> Cut:
        """The least cut at or above both; this one itself, if it is."""
        shape = self.shape
        if shape is other.shape:
            row = shape.join(self.row, other.row)
            return self if row is self.row else other if row is other.row else Cut.of_row(shape, row)
        ours = self.offsets
        here = ours.get
        more = {segment: offset for segment, offset in other.items() if offset > here(segment, 0)}
        return Cut(ours | more) if more else self

    def meet(self, other: Cut) -> Cut:
        """The greatest cut at or below both."""
        theirs = other.offsets
        return Cut({segment: min(offset, theirs[segment]) for segment, offset in self.items() if segment in theirs})

    def without(self, segment: str) -> Cut:
        """The cut without a segment that the log does not have."""
        return Cut({name: offset for name, offset in self.items() if name != segment})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cut) and self.row == other.row and self.shape.names == other.shape.names

    def __hash__(self) -> int:
        return hash((self.shape.names, self.row))

    def __bool__(self) -> bool:
        """Whether anything lies below the cut."""
        return self.row != 0

    def __len__(self) -> int:
        """How many segments it reaches into."""
        return len(self.shape.names)

    def __repr__(self) -> str:
        inside = ", ".join(f"{segment}: {offset}" for segment, offset in self.items())
        return f"Cut({{{inside}}})"


# These set what an assignment may not, and do it faster than `object.__setattr__`.
_set_shape: Final = Cut.__dict__["shape"].__set__
_set_row: Final = Cut.__dict__["row"].__set__


def _misfit(offsets: Mapping[str, Any]) -> ValueError:
    """The error for offsets of which one has no place in a lane."""
    segment, offset = next(
        each for each in offsets.items() if not hasattr(each[1], "__index__") or not 0 <= each[1] < 2 ** (LANE_BITS - 1)
    )
    if not hasattr(offset, "__index__"):
        wrong = "no whole number"
    else:
        wrong = "negative: 0 means nothing" if offset < 0 else "too large: it has to be below 2^63"
    return ValueError(f"offset {offset!r} of segment {segment!r} is {wrong}")


NOTHING: Final = Cut({})


def join_all(cuts: Iterable[Cut]) -> Cut:
    """The least cut at or above all of them; NOTHING for no cuts."""
    rows: dict[Shape, int] = {}
    for cut in cuts:
        join_row(rows, cut.shape, cut.row)
    return cut_of_rows(rows)


def join_row(rows: dict[Shape, int], shape: Shape, row: int) -> None:
    """Joins a row to that of its shape among these."""
    joined = rows.get(shape)
    rows[shape] = row if joined is None else shape.join(joined, row)


def cut_of_rows(rows: Mapping[Shape, int]) -> Cut:
    """The least cut at or above a row of each of several shapes."""
    if len(rows) == 1:
        ((shape, row),) = rows.items()
        return Cut.of_row(shape, row)
    offsets: dict[str, int] = {}
    reached = offsets.get
    for shape, row in rows.items():
        for segment, offset in shape.offsets(row).items():
            if offset > reached(segment, 0):
                offsets[segment] = offset
    return Cut(offsets)
