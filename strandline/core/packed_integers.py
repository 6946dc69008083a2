"""Cuts as whole numbers: each segment has a lane of 64 bits, so that two whole cuts are compared by one subtraction.

    lane                          1        0
    b, with the top bits set      1 25     1 45
    a                             0 20     0 50
    their difference              1  5     0 …        a lane keeps its top bit where a is not above b

No lane borrows from its neighbour, since offsets leave the top bit free. Lanes that a number does not have are 0, so
a new segment changes no number that was made before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import itemgetter
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

Values: TypeAlias = tuple[int, ...]

LANE_BITS: Final = 64
LANE_BYTES: Final = LANE_BITS // 8


@lru_cache(maxsize=64)
def top_bits(lanes: int) -> int:
    """The top bit of each of so many lanes."""
    return int.from_bytes((bytes(LANE_BYTES - 1) + b"\x80") * lanes, "little")


@lru_cache(maxsize=64)
def packing(lanes: int) -> tuple[Callable[..., bytes], Callable[[bytes], Values]]:
    """How so many offsets become the bytes of a row, and these become offsets."""
    packed = Struct(f"<{lanes}q")
    return packed.pack, packed.unpack


class LanePosition(NamedTuple):
    """A position as lanes. `above` has their top bits set, which are `tops`; `known` says whether every segment of the
    position has a lane."""

    row: int
    above: int
    tops: int
    known: bool

    def passes(self, row: int) -> bool:
        """Whether the row lies wholly at or below the position."""
        return (self.above - row) & self.tops == self.tops

    def is_within(self, row: int) -> bool:
        """Whether the row lies wholly at or above the position."""
        return ((row | self.tops) - self.row) & self.tops == self.tops


class Columns:
    """The lanes of a stream's segments, in the order in which marks first reached them."""

    __slots__ = ("_arranged", "_places", "names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: tuple[str, ...] = ()
        self._places: dict[str, int] = {}
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        """Gives each segment that has no lane the next one."""
        for name in names:
            self._places.setdefault(name, len(self._places))
        self.names = tuple(self._places)
        self._arranged: _Arranged | None = None  # as for the last place in another order: readers name the same ones

    def lane(self, segment: str) -> int | None:
        return self._places.get(segment)

    def place(self, row: int, segments: tuple[str, ...]) -> LanePosition:
        """A row with a lane for each of these segments, above 0, as a place."""
        known = True
        if segments != self.names:
            arranged = self._arranged
            if arranged is None or segments != arranged.segments:
                arranged = self._arranged = _Arranged(segments, self._places)
            row, known = arranged.row(row), arranged.known
        tops = top_bits(len(self.names))
        return LanePosition(row, row | tops, tops, known)

    def offset(self, row: int, segment: str) -> int:
        """The offset of a row in a segment, 0 if that has no lane."""
        lane = self._places.get(segment)
        return 0 if lane is None else offset_in(row, lane)

    def offsets(self, row: int) -> dict[str, int]:
        """The offsets above 0 of a row."""
        lanes = len(self.names)
        values = packing(lanes)[1](row.to_bytes(lanes * LANE_BYTES, "little"))
        return {name: offset for name, offset in zip(self.names, values, strict=True) if offset}


class _Arranged:
    """How rows with a lane for each of some segments get the lanes of a stream."""

    __slots__ = ("_bytes", "_pack", "_pick", "_unpack", "known", "segments")

    def __init__(self, segments: tuple[str, ...], lanes: dict[str, int]) -> None:
        self.segments = segments
        self.known = all(map(lanes.__contains__, segments))
        self._bytes = len(segments) * LANE_BYTES
        self._unpack, self._pack = packing(len(segments))[1], packing(len(lanes))[0]
        at = {name: number for number, name in enumerate(segments)}
        taken = [at.get(name, len(segments)) for name in lanes]  # behind the last offset is a 0
        self._pick: Callable[[Values], Values] = (
            itemgetter(*taken) if len(taken) > 1 else lambda values: tuple(values[number] for number in taken)
        )

    def row(self, row: int) -> int:
        values = (*self._unpack(row.to_bytes(self._bytes, "little")), 0)
        return int.from_bytes(self._pack(*self._pick(values)), "little")


def offset_in(row: int, lane: int) -> int:
    """The offset in one lane of a row."""
    return row >> (lane * LANE_BITS) & ((1 << LANE_BITS) - 1)


def without_lane(row: int, lane: int) -> int:
    """The row with 0 in one lane."""
    return row ^ (offset_in(row, lane) << (lane * LANE_BITS))
