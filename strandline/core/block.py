"""Up to 64 marks in a row, packed: with `chain.py`, which has them all, the only module that needs numpy.

A segment is a column. Cuts never go back, so a block keeps its first cut whole, and of the others only what they add to
it, in the narrowest cells that hold what the last one adds. A column that does not change within a block has no cells
there.

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

# What each kind of cell holds at most. The widest is signed: uint64 and int64 together become floats.
_CELLS: Final = {np.dtype(kind): int(np.iinfo(kind).max) for kind in ("u1", "u2", "u4", "i8")}
# The rows of a block's fields; `newest` holds the time where it is not known.
_FIELDS: Final = 5
_TIME, _UPPER, _NEWEST, _KNOWN, _CREATED = range(_FIELDS)


def narrowest(top: int) -> np.dtype[Any]:
    """The narrowest cells that hold whole numbers from 0 up to this."""
    return next(kind for kind, most in _CELLS.items() if top <= most)


class Block:
    """Up to 64 marks in a row. Rows handed in have at least as many columns as any block."""

    __slots__ = ("columns", "count", "deltas", "fields", "key", "least")

    def __init__(self, key: Row, cells: np.dtype[Any]) -> None:
        self.count = 0
        self.key = key
        self.columns: Packed | None = None  # those that `deltas` has, ascending; None: all
        self.deltas: Packed = np.zeros((BLOCK_MARKS, len(key)), cells)
        self.fields: Packed = np.zeros((_FIELDS, BLOCK_MARKS), np.int64)  # each above its `least`
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
        """Packs a full block into the least room; `width` is how many columns are in use."""
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
        """Makes it as if no cut had reached into this column."""
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
        """A mark's time, upper, newest and when it was made."""
        time, upper, newest, known, created_at = (self.fields[:, n] + self.least).tolist()
        return time, upper, newest if known else None, created_at

    def newest(self) -> tuple[Row, NDArray[np.bool_]]:
        """The marks' newest, and which of these are known."""
        newest, known = (self.fields[which, : self.count] + self.least[which] for which in (_NEWEST, _KNOWN))
        return newest, known > 0

    def starts_below(self, row: Row) -> bool:
        """Whether the first cut lies wholly at or below the row."""
        return not (self.key > row[: len(self.key)]).any()

    def starts_above(self, row: Row, reach: int) -> bool:
        """Whether the first cut lies wholly at or above the row, which has nothing from column `reach` on."""
        return reach <= len(self.key) and not (self.key < row[: len(self.key)]).any()

    def count_below(self, row: Row) -> int:
        """How many cuts lie wholly at or below the row, where it is known that the first one does."""
        room = row[: len(self.key)] - self.key
        if self.columns is not None:
            room = room[self.columns]
        # Room beyond the last delta is of no use, and without it the comparisons stay narrow.
        limits = np.minimum(room, self.deltas[self.count - 1]).astype(self.deltas.dtype)
        return bisect_left(range(self.count), True, lo=1, key=lambda n: (self.deltas[n] > limits).any())

    def count_not_above(self, row: Row) -> int:
        """How many cuts do not lie wholly at or above the row."""
        width = len(self.key)
        if row[width:].any() or (self.row(self.count - 1) < row[:width]).any():
            return self.count
        # The last cut is above, so what is needed fits the cells, and an unchanging column needs nothing.
        need = np.maximum(row[:width] - self.key, 0)
        if self.columns is not None:
            need = need[self.columns]
        limits = need.astype(self.deltas.dtype)
        return bisect_left(range(self.count), True, key=lambda n: not (self.deltas[n] < limits).any())

    @property
    def packed_bytes(self) -> int:
        """What its arrays hold."""
        arrays = (self.key, self.deltas, self.fields, self.columns)
        return sum(array.nbytes for array in arrays if array is not None)

    def _place(self, column: int) -> int | None:
        if self.columns is None:
            return column
        place = int(np.searchsorted(self.columns, column))
        return place if place < len(self.columns) and self.columns[place] == column else None
