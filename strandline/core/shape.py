"""Shapes: the segments of a cut, in order. A cut has a shape and a row, a whole number with a lane of 64 bits for each.

    shape        "0"     "1"     "2"
    row           45      25       7      lane 0 is the lowest

Writers of one stream mostly name the same segments, so that their cuts share a shape: two of them are compared, or
joined, by a few operations on their rows, whatever the number of segments (see `strandline.core.packed_integers`).
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Final

from strandline.core.packed_integers import LANE_BITS, LANE_BYTES, Values, offset_in, packing, top_bits
from strandline.limits import OFFSET_BOUND
from strandline.names import is_name

SHAPE_NAMES_REMEMBERED: Final = 1_048_576  # names of segments, in all the shapes that cuts share

LANE_BEYOND: Final = (1 << LANE_BITS) - OFFSET_BOUND  # the bits of a lane that no offset has


class Shape:
    """The names of segments, in order, and how their offsets are packed."""

    __slots__ = ("beyond", "names", "pack", "pick", "tops", "unpack", "valid")

    def __init__(self, names: tuple[str, ...]) -> None:
        """`names` are in order. `shape_of` has one shape for all who ask for the same names."""
        lanes = len(names)
        self.names = names
        self.pack, self.unpack = packing(lanes)
        self.pick: Callable[[Mapping[str, int]], Values] = _pick(names)  # the offsets of a position that names these
        self.tops = top_bits(lanes)
        self.beyond = _beyond(lanes)
        self.valid = all(map(is_name, names))  # whether each may be the name of a segment

    def __reduce__(self) -> tuple[Callable[[tuple[str, ...]], Shape], tuple[tuple[str, ...]]]:
        return shape_of, (self.names,)

    def row(self, values: Values) -> int:
        """Offsets as a row. Raises struct.error for one that is not a whole number from 0 to 2^63 - 1."""
        row = int.from_bytes(self.pack(*values), "little")
        if row & self.tops:
            raise struct.error("an offset is negative")
        return row

    def offsets(self, row: int) -> dict[str, int]:
        """The offsets of a row, by segment."""
        names = self.names
        return dict(zip(names, self.unpack(row.to_bytes(len(names) * LANE_BYTES, "little")), strict=True))

    def offset(self, row: int, segment: str) -> int:
        """The offset of a row in a segment, 0 if the shape lacks it."""
        names = self.names
        lane = bisect_left(names, segment)
        return offset_in(row, lane) if lane < len(names) and names[lane] == segment else 0

    def join(self, a: int, b: int) -> int:
        """The greater offset of two rows in each lane; one of the rows itself, if it lies at or above the other."""
        tops = self.tops
        reached = ((a | tops) - b) & tops  # the top bit of each lane in which b is at or below a
        if reached == tops:
            return a
        ours = reached - (reached >> (LANE_BITS - 1))  # the other bits of these lanes
        return b ^ ((a ^ b) & ours) if ours else b


@lru_cache(maxsize=64)
def _beyond(lanes: int) -> int:
    return int.from_bytes(LANE_BEYOND.to_bytes(LANE_BYTES, "little") * lanes, "little")


def _pick(names: tuple[str, ...]) -> Callable[[Mapping[str, int]], Values]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda offsets: tuple(map(offsets.__getitem__, names))


class _Shapes(dict[tuple[str, ...], Shape]):
    """The shapes that are known, by their names in each order in which these came.

    Once they have too many names together, all are forgotten. Cuts keep theirs, so that there may be two shapes of the
    same names.
    """

    names = 0

    def remember(self, names: tuple[str, ...], shape: Shape) -> None:
        self.names += len(names) + 1
        if self.names > SHAPE_NAMES_REMEMBERED:
            self.clear()
            self.names = len(names) + 1
        self[names] = shape


SHAPES: Final = _Shapes()


def shape_of(names: tuple[str, ...]) -> Shape:
    """The shape of these names, in whatever order they are."""
    found = SHAPES.get(names)
    if found is None:
        ordered = tuple(sorted(names))
        found = SHAPES.get(ordered) or Shape(ordered)
        SHAPES.remember(ordered, found)
        if names != ordered:
            SHAPES.remember(names, found)
    return found
