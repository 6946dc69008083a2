"""The marks of one stream and key, packed. Only this module and `block.py` need numpy.

64 consecutive marks make a block; the last block is not packed until it is full. "At or below a position" and "at or
above it" are monotone along the chain, so a lookup is a binary search over the first cuts of the blocks and another one
within a block. A million marks of 256 segments that grow by less than 1000 per mark take 0.56 GB.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat
from operator import itemgetter

import numpy as np

from strandline.core.block import BLOCK_MARKS, Block, Row, narrowest
from strandline.core.cut import Cut
from strandline.core.mark import Mark
from strandline.core.window import check_follows


class MarkChain:
    """The marks of one (stream, key), oldest first. `append` adds at the end, and pruning removes from the front."""

    def __init__(self, key: str, first_seq: int = 1) -> None:
        """`first_seq` is the seq of the first mark to come: 1, unless the store has pruned earlier marks."""
        if first_seq < 1:
            raise ValueError(f"a mark's seq counts from 1, not {first_seq}")
        self.key = key
        self._first_seq = first_seq
        self._base = first_seq  # the seq of the first mark of the first block
        self._count = 0  # marks from `_base` on, including pruned marks of the first block
        self._blocks: list[Block] = []
        self._columns: dict[str, int] = {}
        self._segments: list[str] = []  # by column
        self._last: Mark | None = None
        self._last_row: Row = np.zeros(0, np.int64)  # the last cut, with spare columns
        # (seq, the writers that marks from there on leave out). A change is rare.
        self._excluded: list[tuple[int, tuple[str, ...]]] = [(first_seq, ())]
        # (least `newest`, seq of the first mark) of full blocks, rising in both. A block is left out if a later one
        # has an equal or lesser `newest`, because `start` then never finds its answer in the earlier one.
        self._lows: list[tuple[int, int]] = []

    # -- appending and pruning -------------------------------------------------------------------------------

    def append(self, mark: Mark) -> None:
        """Adds the next mark. This takes 17 µs for a cut of 256 segments.

        Raises ValueError, and changes nothing, if its seq is not the next one, its key is another, its time is not
        above the last mark's, or its cut goes back in a segment.
        """
        last = self._last
        if last is not None:
            check_follows(last, mark)
        elif mark.seq != self._first_seq or mark.key != self.key:
            raise ValueError(f"mark {mark.seq} of key {mark.key!r} is not {self._first_seq} of {self.key!r}")
        if last is None or mark.cut is not last.cut:
            self._reach(mark)
        if self._count % BLOCK_MARKS == 0:
            cells = self._blocks[-1].deltas.dtype if self._blocks else narrowest(0)
            self._blocks.append(Block(self._last_row.copy(), cells))
        self._blocks[-1].append(self._last_row, mark)
        self._count += 1
        self._last = mark
        if mark.excluded != self._excluded[-1][1]:
            self._excluded.append((mark.seq, mark.excluded))
        if self._count % BLOCK_MARKS == 0:
            self._close_block()

    def prune(self, head: Cut) -> int:
        """Drops the marks wholly at or below the head, except the newest of these. Returns their number."""
        return self.prune_before_seq(self._base + self._passed_count(self._row(head)[0]) - 1)

    def prune_before_seq(self, seq: int) -> int:
        """Drops the marks with a lesser seq, except the newest of all; returns their number. Frees whole blocks."""
        before = self._first_seq
        self._first_seq = max(before, min(seq, self.last_seq))
        blocks, _ = divmod(self._first_seq - self._base, BLOCK_MARKS)
        del self._blocks[:blocks]
        self._base += blocks * BLOCK_MARKS
        self._count -= blocks * BLOCK_MARKS
        del self._lows[: bisect_left(self._lows, self._base, key=itemgetter(1))]
        del self._excluded[: bisect_right(self._excluded, self._first_seq, key=itemgetter(0)) - 1]
        return self._first_seq - before

    def drop_segment(self, segment: str) -> None:
        """Sets a segment's offset to 0 in every cut. This takes 25 ms for a million marks.

        Its empty column stays, in case the segment is created later.
        """
        column = self._columns.get(segment)
        if column is None or self._last is None:
            return
        for block in self._blocks:
            block.clear(column)
        self._last_row[column] = 0
        self._last = replace(self._last, cut=self._last.cut.without(segment))

    # -- looking by seq and by time --------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._base + self._count - self._first_seq

    def __iter__(self) -> Iterator[Mark]:
        return (self[seq] for seq in self._seqs)

    def __getitem__(self, seq: int) -> Mark:
        """The mark with a seq; raises IndexError if the chain does not have it (any more, or yet)."""
        block, n = self._find(seq)
        time, upper, newest, created_at = block.values(n)
        offsets = zip(self._segments, block.row(n).tolist(), strict=False)
        return Mark(
            seq=seq,
            key=self.key,
            time=time,
            upper=upper,
            cut=Cut._trusted({segment: offset for segment, offset in offsets if offset}),
            newest=newest,
            excluded=self._excluded[bisect_right(self._excluded, seq, key=itemgetter(0)) - 1][1],
            created_at=created_at,
        )

    @property
    def first_seq(self) -> int:
        """The seq of the oldest mark; in an empty chain, of the next one to come."""
        return self._first_seq

    @property
    def last_seq(self) -> int:
        """The seq of the newest mark; `first_seq` - 1 in an empty chain."""
        return self._base + self._count - 1

    @property
    def last(self) -> Mark | None:
        """The newest mark."""
        return self._last

    @property
    def packed_bytes(self) -> int:
        """The size of the arrays. Python's objects add about 1 kB for every 64 marks."""
        return sum(block.packed_bytes for block in self._blocks)

    def after(self, seq: int, limit: int) -> list[Mark]:
        """The marks after a seq, oldest first, at most `limit`."""
        first = max(seq + 1, self._first_seq)
        return [self[n] for n in range(first, min(first + limit, self.last_seq + 1))]

    def time_at(self, seq: int) -> int:
        """The time of a mark; raises IndexError if the chain does not have it."""
        block, n = self._find(seq)
        return block.time(n)

    def offset_at(self, seq: int, segment: str) -> int:
        """The offset of a mark's cut in one segment; raises IndexError if the chain does not have the mark."""
        (block, n), column = self._find(seq), self._columns.get(segment)
        return 0 if column is None else block.offset(n, column)

    def floor(self, time: int) -> Mark | None:
        """The newest mark at or before a time."""
        count = bisect_right(self._seqs, time, key=self.time_at)
        return self[self._first_seq + count - 1] if count else None

    def ceiling(self, time: int) -> Mark | None:
        """The oldest mark at or after a time."""
        count = bisect_left(self._seqs, time, key=self.time_at)
        return self[self._first_seq + count] if count < len(self) else None

    def start(self, time: int) -> Mark | None:
        """The last mark whose `newest` is known and below a time: no event at or after that time lies below its cut.

        `newest` need not rise from mark to mark. Costs a binary search over blocks and a scan of two blocks.
        """
        candidates = [len(self._blocks) - 1] if self._blocks else []
        lower = bisect_left(self._lows, time, key=itemgetter(0))
        if lower:
            candidates.append((self._lows[lower - 1][1] - self._base) // BLOCK_MARKS)
        for number in candidates:
            newest, known = self._blocks[number].newest()
            found = (known & (newest < time)).nonzero()[0]
            if len(found):
                seq = self._base + number * BLOCK_MARKS + int(found[-1])
                return self[seq] if seq >= self._first_seq else None
        return None

    # -- lookup by position ----------------------------------------------------------------------------------

    def passed(self, position: Cut) -> Mark | None:
        """The newest mark whose cut is wholly at or below the position."""
        seq = self._base + self._passed_count(self._row(position)[0]) - 1
        return self[seq] if seq >= self._first_seq else None

    def ahead(self, position: Cut) -> Mark | None:
        """The first mark not yet passed whose cut is wholly at or above the position."""
        row, all_known = self._row(position)
        if not all_known:
            return None
        reached = row.nonzero()[0]
        reach = int(reached[-1]) + 1 if len(reached) else 0
        count = bisect_left(self._blocks, True, key=lambda block: block.starts_above(row, reach))
        if count:
            count = (count - 1) * BLOCK_MARKS + self._blocks[count - 1].count_not_above(row)
        seq = max(self._base + count, self._first_seq)
        if seq > self.last_seq:
            return None
        block, n = self._find(seq)
        if not (block.row(n) > row[: len(block.key)]).any():
            # Its cut is the position itself: this mark and the next ones with the same cut are passed.
            seq = self._base + self._passed_count(row)
        return self[seq] if seq <= self.last_seq else None

    def _passed_count(self, row: Row) -> int:
        """How many marks, from the start of the first block, have cuts at or below the row."""
        count = bisect_left(self._blocks, True, key=lambda block: not block.starts_below(row))
        return (count - 1) * BLOCK_MARKS + self._blocks[count - 1].count_below(row) if count else 0

    @property
    def _seqs(self) -> range:
        return range(self._first_seq, self.last_seq + 1)

    def _find(self, seq: int) -> tuple[Block, int]:
        if not self._first_seq <= seq <= self.last_seq:
            here = f"{self._first_seq} to {self.last_seq}" if len(self) else "none"
            raise IndexError(f"there is no mark {seq} of key {self.key!r} here, but {here}")
        number, n = divmod(seq - self._base, BLOCK_MARKS)
        return self._blocks[number], n

    def _row(self, cut: Cut) -> tuple[Row, bool]:
        """The cut by column, and whether all of its segments have a column."""
        offsets = cut.offsets
        row = np.zeros(len(self._last_row), np.int64)
        known = len(self._segments)
        row[:known] = np.fromiter(map(offsets.get, self._segments, repeat(0)), np.int64, known)
        return row, bool(np.count_nonzero(row) == len(offsets))

    def _reach(self, mark: Mark) -> None:
        """Makes a mark's cut the last row, and adds missing columns. Raises ValueError if the cut goes back."""
        row, all_known = self._row(mark.cut)
        back = (row < self._last_row).nonzero()[0]
        if len(back):
            segment, least = self._segments[back[0]], self._last_row[back[0]]
            at = mark.cut.offset(segment)
            raise ValueError(f"the cut of mark {mark.seq} goes back in segment {segment!r}: {at} is below {least}")
        if not all_known:
            for segment, _ in mark.cut.items():
                if segment not in self._columns:
                    self._columns[segment] = len(self._segments)
                    self._segments.append(segment)
            if len(self._segments) > len(row):
                # Spare columns, so that not every new column costs a copy.
                self._last_row = np.zeros(max(len(self._segments), len(row) * 5 // 4), np.int64)
            row, _ = self._row(mark.cut)
        self._last_row = row

    def _close_block(self) -> None:
        self._blocks[-1].close(len(self._segments))
        newest, known = self._blocks[-1].newest()
        if known.any():
            low = int(newest[known].min())
            while self._lows and self._lows[-1][0] >= low:
                self._lows.pop()
            self._lows.append((low, self.last_seq - BLOCK_MARKS + 1))
