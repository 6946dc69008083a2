"""Cuts as whole numbers: each segment has a lane of 64 bits, so that two whole cuts are compared by one subtraction.

    lane                          1        0
    b, with the top bits set      1 25     1 45
    a                             0 20     0 50
    their difference              1  5     0 …        a lane keeps its top bit where a is not above b

No lane borrows from its neighbour, since offsets leave the top bit free. Lanes that a number does not have are 0, so
a new segment changes no number that was made before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import repeat
from struct import Struct
from typing import Final, NamedTuple

LANE_BITS: Final = 64
LANE_BYTES: Final = LANE_BITS // 8


@lru_cache(maxsize=64)
def top_bits(lanes: int, bits: int = LANE_BITS) -> int:
    """The top bit of each of so many lanes."""
    return int.from_bytes((bytes(bits // 8 - 1) + b"\x80") * lanes, "little")


class Place(NamedTuple):
    """A position as lanes. `above` has their top bits set, which are `tops`; `known` says whether every segment of the
    position has a lane."""

    row: int
    above: int
    tops: int
    lanes: int
    known: bool

    def passes(self, row: int) -> bool:
        """Whether the row lies wholly at or below the position."""
        return (self.above - row) & self.tops == self.tops

    def is_within(self, row: int) -> bool:
        """Whether the row lies wholly at or above the position."""
        return ((row | self.tops) - self.row) & self.tops == self.tops

    def beyond(self, row: int) -> int:
        """By how much the position is above the row, in each lane; 0 where it is not."""
        not_above = ((row | self.tops) - self.row) & self.tops
        ones = (not_above ^ self.tops) >> (LANE_BITS - 1)
        mask = (ones << LANE_BITS) - ones  # the whole lanes in which the position is above
        return (self.row & mask) - (row & mask)


class Columns:
    """The lanes of a stream's segments, in the order in which marks first reached them."""

    __slots__ = ("_in_order", "_lanes", "_places", "names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: list[str] = []
        self._places: dict[str, int] = {}
        self.add(names)

    def __len__(self) -> int:
        return len(self.names)

    def add(self, names: Iterable[str]) -> None:
        """Gives each segment that has no lane the next one."""
        for name in names:
            if name not in self._places:
                self._places[name] = len(self.names)
                self.names.append(name)
        self._lanes = Struct(f"<{len(self.names)}q")
        self._in_order = tuple(self.names)

    def lane(self, segment: str) -> int | None:
        return self._places.get(segment)

    def place_of_row(self, row: int, segments: tuple[str, ...]) -> Place | None:
        """A row with a lane for each of these segments as a place, if they are those that have lanes, in that order."""
        if segments != self._in_order:
            return None
        tops = top_bits(len(segments))
        return Place(row, row | tops, tops, len(segments), known=True)

    def place(self, offsets: Mapping[str, int]) -> Place:
        """Offsets above 0 as lanes."""
        values = list(map(offsets.get, self.names, repeat(0)))
        row = int.from_bytes(self._lanes.pack(*values), "little")
        tops = top_bits(len(values))
        return Place(row, row | tops, tops, len(values), len(values) - values.count(0) == len(offsets))

    def offsets(self, row: int) -> dict[str, int]:
        """The offsets above 0 of a row."""
        values = self._lanes.unpack(row.to_bytes(self._lanes.size, "little"))
        return {name: offset for name, offset in zip(self.names, values, strict=True) if offset}


def offset_in(row: int, lane: int) -> int:
    """The offset in one lane of a row."""
    return row >> (lane * LANE_BITS) & ((1 << LANE_BITS) - 1)


def without_lane(row: int, lane: int) -> int:
    """The row with 0 in one lane."""
    return row ^ (offset_in(row, lane) << (lane * LANE_BITS))
