"""Blocks of up to 32 consecutive marks: the marks of a full block are packed.

A cut is a row of lanes (`lanes.py`). Cuts never go back, so a packed block keeps its first cut whole, and of each cut
only the difference to the first, in the narrowest cells that hold the difference of the last one and a free top bit. A
segment that does not move within a block has no cells. Only this module needs numpy.

    first (a whole row) · lanes that move · deltas (a row of cells for each mark) · fields (times, …)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import gt
from sys import getsizeof
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from strandline.core.lanes import LANE_BITS, LANE_BYTES, Place, offset_in, top_bits, without_lane
from strandline.limits import TIME_BOUND_MS

BLOCK_MARKS: Final = 32

Matrix: TypeAlias = NDArray[np.int64]  # a row for each mark
# From a mark of the block on, marks leave out these writers. A change is rare.
Excluded: TypeAlias = tuple[tuple[int, tuple[str, ...]], ...]
NOBODY: Final[Excluded] = ((0, ()),)

# Bytes of a cell, and the code of such numbers.
CELLS: Final[dict[int, Literal["b", "h", "i", "q"]]] = {1: "b", 2: "h", 4: "i", 8: "q"}
_TYPES: Final = {cell: np.dtype(f"<i{cell}") for cell in CELLS}
_LANES: Final = _TYPES[LANE_BYTES]
FIELDS: Final = 5
_TIME, _UPPER, _NEWEST, _KNOWN, _CREATED = range(FIELDS)


class Fields(NamedTuple):
    """What a mark has besides its place and its cut."""

    time: int
    upper: int
    newest: int | None
    created_at: int
    excluded: tuple[str, ...]

    @property
    def numbers(self) -> tuple[int, int, int, int, int]:
        """As a block has them: `newest` counts if it is known, else it is the time."""
        known, newest = (0, self.time) if self.newest is None else (1, self.newest)
        return self.time, self.upper, newest, known, self.created_at


class FieldColumns(NamedTuple):
    """The fields of consecutive marks, each with a value for every mark."""

    time: Sequence[int]
    upper: Sequence[int]
    newest: Sequence[int | None]
    created_at: Sequence[int]
    excluded: Sequence[tuple[str, ...]]

    @property
    def numbers(self) -> Matrix:
        """As a block has them, a row for each field."""
        newest = [time if each is None else each for each, time in zip(self.newest, self.time, strict=True)]
        known = [each is not None for each in self.newest]
        return np.array((self.time, self.upper, newest, known, self.created_at), np.int64)


class NotRising(Exception):
    """A mark does not follow on the one before it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@lru_cache(maxsize=64)
def _within(lanes: int, bits: int) -> int:
    """In each of so many lanes, the bits that a cell of a block holds: all of its own but the top one."""
    return int.from_bytes(((1 << (bits - 1)) - 1).to_bytes(LANE_BYTES, "little") * lanes, "little")


@lru_cache(maxsize=64)
def _beyond(lanes: int, bits: int) -> int:
    """In each of so many lanes, the other bits."""
    return _within(lanes, bits) ^ (1 << LANE_BITS * lanes) - 1


def narrowest(top: int) -> int:
    """The bytes of the narrowest cells that hold whole numbers from 0 to `top` and a free top bit."""
    return next(cell for cell in CELLS if top < 1 << (8 * cell - 1))


class Block(ABC):
    """Consecutive marks, each by its number in the block. `first` is the first cut."""

    __slots__ = ("count", "excluded", "first")

    count: int
    excluded: Excluded
    first: int

    @abstractmethod
    def value(self, field: int, n: int) -> int:
        """A field of a mark."""

    def time(self, n: int) -> int:
        return self.value(_TIME, n)

    def upper(self, n: int) -> int:
        return self.value(_UPPER, n)

    def newest(self, n: int) -> int | None:
        return self.value(_NEWEST, n) if self.value(_KNOWN, n) else None

    def excluded_at(self, n: int) -> tuple[str, ...]:
        """The writers that a mark leaves out."""
        for begin, names in reversed(self.excluded):
            if begin <= n:
                return names
        raise AssertionError("the first entry is that of the first mark")

    def fields(self, n: int) -> Fields:
        return Fields(self.time(n), self.upper(n), self.newest(n), self.value(_CREATED, n), self.excluded_at(n))

    @property
    def least_newest(self) -> int | None:
        """The least `newest` that is known."""
        known = (self.newest(n) for n in range(self.count))
        return min((newest for newest in known if newest is not None), default=None)

    def last_below(self, time: int) -> int | None:
        """The last mark whose `newest` is known and below a time."""
        for n in reversed(range(self.count)):
            newest = self.newest(n)
            if newest is not None and newest < time:
                return n
        return None


class OpenBlock(Block):
    """A block to which marks are added. Nothing is packed."""

    __slots__ = ("_fields", "rows")

    def __init__(self) -> None:
        self.count = 0
        self.first = 0
        self.excluded = NOBODY
        self.rows: list[int] = []
        self._fields = array("q")

    def append(self, row: int, fields: Fields) -> None:
        if not self.rows:
            self.first = row
            self.excluded = ((0, fields.excluded),) if fields.excluded else NOBODY
        elif fields.excluded != self.excluded[-1][1]:
            self.excluded += ((self.count, fields.excluded),)
        self.rows.append(row)
        self._fields.extend(fields.numbers)
        self.count += 1

    def value(self, field: int, n: int) -> int:
        return self._fields[FIELDS * n + field]

    def row(self, n: int) -> int:
        return self.rows[n]

    def offset(self, n: int, lane: int) -> int:
        return offset_in(self.rows[n], lane)

    def count_passed(self, place: Place) -> int:
        """How many cuts lie wholly at or below a position. The first one must."""
        low, high = 1, self.count
        while low < high:
            middle = (low + high) // 2
            if place.passes(self.rows[middle]):
                low = middle + 1
            else:
                high = middle
        return low

    def count_before(self, place: Place) -> int:
        """How many cuts do not lie wholly at or above a position."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if place.is_within(self.rows[middle]):
                high = middle
            else:
                low = middle + 1
        return low

    def clear(self, lane: int) -> None:
        """Sets the offsets of one lane to 0 in every cut."""
        self.rows = [without_lane(row, lane) for row in self.rows]
        self.first = self.rows[0]

    def packed(self, lanes: int) -> PackedBlock:
        """The same marks packed; `lanes` is the number of lanes in use."""
        size = lanes * LANE_BYTES
        joined = b"".join([row.to_bytes(size, "little") for row in self.rows])
        rows = np.frombuffer(joined, _LANES).reshape(self.count, lanes)
        fields = np.frombuffer(self._fields, np.int64).reshape(self.count, FIELDS)
        return pack(rows, fields.T, self.excluded)

    @property
    def size_bytes(self) -> int:
        """The size of rows and fields, without what Python's objects add."""
        return sum(map(_digits_bytes, self.rows)) + len(self._fields) * self._fields.itemsize


class PackedBlock(Block):
    """A packed block."""

    __slots__ = ("above", "cell", "deltas", "least", "moving", "width")

    def __init__(
        self,
        count: int,
        first: int,
        moving: NDArray[np.int32] | None,
        cell: int,
        deltas: bytes,
        least: Sequence[int],
        above: array[int],
        excluded: Excluded,
    ) -> None:
        """`moving` are the lanes of the cells, None for all from the first on; `above` are the fields, each less its
        `least`."""
        self.count = count
        self.first = first
        self.moving = moving
        self.cell = cell
        self.deltas = deltas
        self.width = len(deltas) // (cell * count)  # the cells of a mark
        self.least = tuple(least)
        self.above = above
        self.excluded = excluded

    def value(self, field: int, n: int) -> int:
        return self.least[field] + self.above[field * self.count + n]

    def row(self, n: int) -> int:
        size = self.cell * self.width
        added = np.frombuffer(self.deltas[n * size : (n + 1) * size], _TYPES[self.cell]).astype(_LANES)
        if self.moving is not None and len(added):
            spread = np.zeros(int(self.moving.max()) + 1, _LANES)
            spread[self.moving] = added
            added = spread
        return self.first + int.from_bytes(added.tobytes(), "little")

    def offset(self, n: int, lane: int) -> int:
        at = lane if self.moving is None else next(iter((self.moving == lane).nonzero()[0].tolist()), self.width)
        begin = (n * self.width + at) * self.cell
        added = int.from_bytes(self.deltas[begin : begin + self.cell], "little") if at < self.width else 0
        return offset_in(self.first, lane) + added

    def count_passed(self, place: Place) -> int:
        """How many cuts lie wholly at or below a position. The first one must."""
        room, bits = place.row - self.first, 8 * self.cell
        beyond = room & _beyond(place.lanes, bits)
        if beyond:  # in such a lane the position is above every cut: the greatest number of a cell says so
            reached = (beyond | place.tops) - (place.tops >> (LANE_BITS - 1)) & place.tops
            room |= reached - (reached >> (LANE_BITS - 1))
        tops = top_bits(self.width, bits)
        above = tops | self._cells(room & _within(place.lanes, bits), place.lanes)
        deltas, size = self.deltas, self.width * self.cell
        low, high = 1, self.count
        while low < high:
            middle = (low + high) // 2
            begin = middle * size
            if (above - int.from_bytes(deltas[begin : begin + size], "little")) & tops == tops:
                low = middle + 1
            else:
                high = middle
        return low

    def count_before(self, place: Place) -> int:
        """How many cuts do not lie wholly at or above a position."""
        needed, bits = place.beyond(self.first), 8 * self.cell
        if not needed:
            return 0
        if needed & _beyond(place.lanes, bits) or self._moves_too_little(needed, place.lanes):
            return self.count
        tops = top_bits(self.width, bits)
        wanted = self._cells(needed, place.lanes)
        deltas, size = self.deltas, self.width * self.cell
        low, high = 1, self.count
        while low < high:
            middle = (low + high) // 2
            begin = middle * size
            if ((int.from_bytes(deltas[begin : begin + size], "little") | tops) - wanted) & tops == tops:
                high = middle
            else:
                low = middle + 1
        return low

    def _cells(self, row: int, lanes: int) -> int:
        """The lanes of a row that move within the block, as cells, which hold each of them."""
        given = row.to_bytes(lanes * LANE_BYTES, "little")
        if self.moving is not None:
            moving = np.frombuffer(given, _LANES)[self.moving]
            return int.from_bytes(moving.astype(_TYPES[self.cell]).tobytes(), "little")
        cells = memoryview(given).cast(CELLS[self.cell])[:: LANE_BYTES // self.cell]
        return int.from_bytes(cells[: self.width], "little")

    def _moves_too_little(self, needed: int, lanes: int) -> bool:
        """Whether a row has something in a lane that does not move within the block."""
        if self.width == lanes:
            return False
        if self.moving is None:
            return bool(needed >> (LANE_BITS * self.width))
        values = np.frombuffer(needed.to_bytes(lanes * LANE_BYTES, "little"), _LANES)
        return bool(np.count_nonzero(values) != np.count_nonzero(values[self.moving]))

    def clear(self, lane: int) -> None:
        """Sets the offsets of one lane to 0 in every cut."""
        self.first = without_lane(self.first, lane)
        cells = np.frombuffer(self.deltas, _TYPES[self.cell]).reshape(self.count, -1).copy()
        cells[:, np.arange(self.width) == lane if self.moving is None else self.moving == lane] = 0
        self.deltas = cells.tobytes()

    def parts(self, lanes: int) -> tuple[int, bytes, bytes | None, int, bytes, tuple[int, ...], bytes, Excluded]:
        """What it consists of, as bytes of little-endian numbers."""
        moving = np.arange(self.width) if self.moving is None else self.moving
        return (
            self.count,
            self.first.to_bytes(lanes * LANE_BYTES, "little"),
            None if len(moving) == lanes and self.moving is None else moving.astype("<i4").tobytes(),
            self.cell,
            self.deltas,
            self.least,
            np.array(self.above, _LANES).tobytes(),
            self.excluded,
        )

    @classmethod
    def of_parts(
        cls,
        lanes: int,
        count: int,
        first: bytes,
        moving: bytes | None,
        cell: int,
        deltas: bytes,
        least: tuple[int, ...],
        above: bytes,
        excluded: Excluded,
    ) -> PackedBlock:
        """The block of these parts. Raises ValueError if they do not fit together."""
        if not 1 <= count <= BLOCK_MARKS or cell not in CELLS:
            raise ValueError(f"it has {count} marks in cells of {cell} bytes")
        width = lanes if moving is None and deltas else len(moving or b"") // 4
        sizes = (len(first), len(deltas), len(above), len(moving or b"") % 4)
        if sizes != (lanes * LANE_BYTES, count * width * cell, count * FIELDS * LANE_BYTES, 0):
            raise ValueError(f"{count} marks of {lanes} segments in cells of {cell} bytes do not have {sizes} bytes")
        to = None if moving is None else np.frombuffer(moving, "<i4").astype(np.int32)
        if to is not None and len(to) and (to.min() < 0 or to.max() >= lanes or len(np.unique(to)) < len(to)):
            raise ValueError(f"the lanes {to.tolist()} are not different ones of {lanes}")
        numbers = np.frombuffer(above, _LANES)
        if numbers.min() < 0 or not excluded or excluded[0][0] != 0:
            raise ValueError("its fields are below their least, or it does not say who is left out")
        return cls(count, int.from_bytes(first, "little"), to, cell, deltas, least, narrowed(numbers), excluded)

    def moved(self, lanes: Sequence[int]) -> PackedBlock:
        """The same marks with each lane elsewhere."""
        to = np.array(lanes, np.int32)
        values = np.frombuffer(self.first.to_bytes(len(to) * LANE_BYTES, "little"), _LANES)
        row = np.zeros(int(to.max(initial=-1)) + 1, _LANES)
        row[to] = values
        moving = to[: self.width] if self.moving is None else to[self.moving]
        first = int.from_bytes(row.tobytes(), "little")
        return PackedBlock(self.count, first, moving, self.cell, self.deltas, self.least, self.above, self.excluded)

    @property
    def least_newest(self) -> int | None:
        # Mostly it is known of all marks or of none.
        return self.least[_NEWEST] if self.least[_KNOWN] else super().least_newest

    @property
    def size_bytes(self) -> int:
        """The size of rows and fields, without what Python's objects add."""
        moving = 0 if self.moving is None else self.moving.nbytes
        return _digits_bytes(self.first) + moving + len(self.deltas) + len(self.above) * self.above.itemsize


def check_block(block: PackedBlock, begin: int, *, last: bool) -> None:
    """Raises ValueError unless a block that came from elsewhere is full or the last one, and its marks from `begin` on
    follow on each other."""
    if block.count <= begin or (block.count < BLOCK_MARKS and not last):
        raise ValueError(f"it has {block.count} marks")
    deltas = np.frombuffer(block.deltas, _TYPES[block.cell]).reshape(block.count, -1)
    times, uppers = ([block.value(field, n) for n in range(begin, block.count)] for field in (_TIME, _UPPER))
    if any(later <= time for time, later in pairwise(times)) or any(map(gt, times, uppers)):
        raise ValueError("the times of its marks do not rise")
    if times[0] <= -TIME_BOUND_MS or max(uppers) >= TIME_BOUND_MS:
        raise ValueError("a time of it is not within 2^53")
    first = np.frombuffer(block.first.to_bytes(-(-block.first.bit_length() // 64) * 8, "little"), _LANES)
    if (deltas[0].any() or (deltas[1:] < deltas[:-1]).any()) or (first < 0).any():
        raise ValueError("a cut of it goes back")


def pack(rows: Matrix, fields: NDArray[Any], excluded: Excluded) -> PackedBlock:
    """Packs marks: their cuts as rows of lanes, and for each field a row with its value in every mark."""
    count, lanes = rows.shape
    first = rows[0]
    most = rows[-1] - first
    moving = most.nonzero()[0].astype(np.int32)
    cell = narrowest(int(most.max(initial=0)))
    added = (rows if len(moving) == lanes else rows[:, moving]) - (first if len(moving) == lanes else first[moving])
    least = fields.min(axis=1)
    above = fields - least[:, np.newaxis]
    return PackedBlock(
        count,
        int.from_bytes(first.astype(_LANES).tobytes(), "little"),
        None if len(moving) == lanes else moving,
        cell,
        added.astype(_TYPES[cell]).tobytes(),
        least.tolist(),
        narrowed(above),
        excluded,
    )


def pack_all(cuts: Iterable[int], lanes: int, fields: FieldColumns, before: int) -> list[PackedBlock]:
    """Packs consecutive marks into blocks: their offsets one after the other, each mark with the same lanes, and their
    fields. The first block begins `before` marks earlier, and has the first mark in their place.

    Raises NotRising with the number of a mark whose time or cut does not follow on the one before it.
    """
    numbers, excluded = fields.numbers, fields.excluded
    count = numbers.shape[1]
    rows = np.fromiter(cuts, np.int64).reshape(count, lanes)
    risen = (numbers[_TIME, 1:] > numbers[_TIME, :-1]) & (rows[1:] >= rows[:-1]).all(axis=1)
    if not risen.all():
        raise NotRising(int(np.argmin(risen)) + 1)
    if before:
        rows = np.concatenate((rows[:1].repeat(before, axis=0), rows))
        numbers = np.concatenate((numbers[:, :1].repeat(before, axis=1), numbers), axis=1)
    named = [*[excluded[0]] * before, *excluded] if any(excluded) else []
    return [
        pack(rows[n : n + BLOCK_MARKS], numbers[:, n : n + BLOCK_MARKS], _changes(named[n : n + BLOCK_MARKS]))
        for n in range(0, before + count, BLOCK_MARKS)
    ]


def _changes(excluded: Sequence[tuple[str, ...]]) -> Excluded:
    """Where the writers that are left out change."""
    return tuple((n, names) for n, names in enumerate(excluded) if not n or names != excluded[n - 1]) or NOBODY


def narrowed(numbers: NDArray[np.int64]) -> array[int]:
    """Numbers from 0 up, in the narrowest cells."""
    cell = narrowest(int(numbers.max()))
    return array(CELLS[cell], numbers.astype(f"i{cell}").tobytes())


def _digits_bytes(row: int) -> int:
    return getsizeof(row) - getsizeof(0)
