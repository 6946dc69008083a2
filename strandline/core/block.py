"""Packs up to 64 consecutive marks. Only this module and `chain.py`, which has all marks, need numpy.

A segment is a column. Cuts never go back, so a block keeps its first cut whole, and of each other cut only the
difference to the first, in the narrowest cells that hold the difference of the last. A column that does not change
within a block has no cells.

    key (first cut) · columns that change · deltas (64 rows of these) · fields (times, …)
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from strandline.core.mark import Mark

BLOCK_MARKS: Final = 64

Row: TypeAlias = NDArray[np.int64]
Packed: TypeAlias = NDArray[np.integer[Any]]

# The greatest number in each type of cell. The widest is signed: numpy turns uint64 with int64 into floats.
_CELLS: Final = {np.dtype(kind): int(np.iinfo(kind).max) for kind in ("u1", "u2", "u4", "i8")}
# The rows of a block's fields. The row `newest` holds the mark's time if `newest` is unknown.
_FIELDS: Final = 5
_TIME, _UPPER, _NEWEST, _KNOWN, _CREATED = range(_FIELDS)


def narrowest(top: int) -> np.dtype[Any]:
    """The narrowest cells that hold whole numbers from 0 to `top`."""
    return next(kind for kind, most in _CELLS.items() if top <= most)


class Block:
    """Up to 64 consecutive marks. Rows in arguments have at least as many columns as the block."""

    __slots__ = ("columns", "count", "deltas", "fields", "key", "least")

    def __init__(self, key: Row, cells: np.dtype[Any]) -> None:
        self.count = 0
        self.key = key
        self.columns: Packed | None = None  # the columns of `deltas`, ascending; None: all
        self.deltas: Packed = np.zeros((BLOCK_MARKS, len(key)), cells)
        self.fields: Packed = np.zeros((_FIELDS, BLOCK_MARKS), np.int64)  # differences to `least`
        self.least: Row = np.zeros(_FIELDS, np.int64)

    def append(self, row: Row, mark: Mark) -> None:
        if len(row) > len(self.key):
            self._refit(len(row), self.deltas.dtype)
        added = row - self.key
        top = int(added.max(initial=0))
        if top > _CELLS[self.deltas.dtype]:
            self._refit(len(row), narrowest(top))
        known, newest = (0, mark.time) if mark.newest is None else (1, mark.newest)
        self.fields[:, self.count] = (mark.time, mark.upper, newest, known, mark.created_at)
        self.deltas[self.count] = added
        self.count += 1

    def _refit(self, width: int, cells: np.dtype[Any]) -> None:
        before = len(self.key)
        deltas: Packed = np.zeros((BLOCK_MARKS, width), cells)
        deltas[: self.count, :before] = self.deltas[: self.count]
        self.deltas = deltas
        self.key = np.concatenate((self.key, np.zeros(width - before, np.int64)))

    def close(self, width: int) -> None:
        """Packs a full block into the least memory; `width` is the number of columns in use."""
        added = self.deltas[-1, :width]
        cells = narrowest(int(added.max(initial=0)))
        columns = added.nonzero()[0]
        self.key = self.key[:width].copy()
        if len(columns) == width:
            self.deltas = self.deltas[:, :width].astype(cells, order="C")
        else:
            self.columns = columns.astype(narrowest(width))
            self.deltas = self.deltas[:, columns].astype(cells, order="C")
        self.least = self.fields.min(axis=1).astype(np.int64)
        above = self.fields - self.least[:, np.newaxis]
        self.fields = above.astype(narrowest(int(above.max())))

    def clear(self, column: int) -> None:
        """Sets the offsets of one column to 0 in every cut."""
        if column < len(self.key):
            self.key[column] = 0
            place = self._place(column)
            if place is not None:
                self.deltas[:, place] = 0

    def row(self, n: int) -> Row:
        row = self.key.copy()
        if self.columns is None:
            row += self.deltas[n]
        else:
            row[self.columns] += self.deltas[n]
        return row

    def offset(self, n: int, column: int) -> int:
        if column >= len(self.key):
            return 0
        place = self._place(column)
        return int(self.key[column]) + (0 if place is None else int(self.deltas[n, place]))

    def time(self, n: int) -> int:
        return int(self.fields[_TIME, n]) + int(self.least[_TIME])

    def values(self, n: int) -> tuple[int, int, int | None, int]:
        """A mark's `time`, `upper`, `newest` and `created_at`."""
        time, upper, newest, known, created_at = (self.fields[:, n] + self.least).tolist()
        return time, upper, newest if known else None, created_at

    def newest(self) -> tuple[Row, NDArray[np.bool_]]:
        """The `newest` of every mark, and which of these are known."""
        newest, known = (self.fields[which, : self.count] + self.least[which] for which in (_NEWEST, _KNOWN))
        return newest, known > 0

    def starts_below(self, row: Row) -> bool:
        """Whether the first cut lies wholly at or below the row."""
        return not (self.key > row[: len(self.key)]).any()

    def starts_above(self, row: Row, reach: int) -> bool:
        """Whether the first cut lies wholly at or above the row, whose columns from `reach` on are 0."""
        return reach <= len(self.key) and not (self.key < row[: len(self.key)]).any()

    def count_below(self, row: Row) -> int:
        """How many cuts lie wholly at or below the row. The first one must."""
        room = row[: len(self.key)] - self.key
        if self.columns is not None:
            room = room[self.columns]
        # Limits above the last delta change nothing; capping them keeps the comparisons narrow.
        limits = np.minimum(room, self.deltas[self.count - 1]).astype(self.deltas.dtype)
        return bisect_left(range(self.count), True, lo=1, key=lambda n: (self.deltas[n] > limits).any())

    def count_not_above(self, row: Row) -> int:
        """How many cuts do not lie wholly at or above the row."""
        width = len(self.key)
        if row[width:].any() or (self.row(self.count - 1) < row[:width]).any():
            return self.count
        # The last cut is above, so the needed deltas fit the cells, and a constant column needs none.
        need = np.maximum(row[:width] - self.key, 0)
        if self.columns is not None:
            need = need[self.columns]
        limits = need.astype(self.deltas.dtype)
        return bisect_left(range(self.count), True, key=lambda n: not (self.deltas[n] < limits).any())

    @property
    def packed_bytes(self) -> int:
        """The size of the arrays."""
        arrays = (self.key, self.deltas, self.fields, self.columns)
        return sum(array.nbytes for array in arrays if array is not None)

    def _place(self, column: int) -> int | None:
        if self.columns is None:
            return column
        place = int(np.searchsorted(self.columns, column))
        return place if place < len(self.columns) and self.columns[place] == column else None
