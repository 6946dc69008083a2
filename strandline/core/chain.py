"""The marks of one stream and key, packed.

32 consecutive marks make a block, the one with seq 1 begins the first; the last block is not packed until it is full.
"At or below a position" and "at or above it" are monotone along the chain, so a lookup is a binary search over the
first cuts of the blocks and another one within a block. A million marks of 256 segments that grow by less than 1000 per
mark take 0.58 GB.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter

from strandline.core.block import BLOCK_MARKS, Block, Fields, OpenBlock, PackedBlock
from strandline.core.cut import Cut
from strandline.core.lanes import Columns, Place
from strandline.core.mark import Mark
from strandline.core.mark_page import MarkPage, block_start, mark_in, moved, page_end
from strandline.core.window import Sides, check_follows


class MarkChain:
    """The marks of one (stream, key), oldest first. `append` adds at the end, and pruning removes from the front."""

    def __init__(self, key: str, first_seq: int = 1) -> None:
        """`first_seq` is the seq of the first mark to come: 1, unless the store has pruned earlier marks."""
        if first_seq < 1:
            raise ValueError(f"a mark's seq counts from 1, not {first_seq}")
        self.key = key
        self._first_seq = first_seq
        self._next_seq = first_seq
        self._base = block_start(first_seq)  # the seq with which the first block begins
        self._columns = Columns()
        self._blocks: list[PackedBlock | OpenBlock] = []
        self._last: Mark | None = None
        # (least `newest`, seq of the first mark) of full blocks, rising in both. A block is left out if a later one
        # has an equal or lesser `newest`, because `start` then never finds its answer in the earlier one.
        self._lows: list[tuple[int, int]] = []

    # -- appending and pruning -------------------------------------------------------------------------------

    def append(self, mark: Mark) -> None:
        """Adds the next mark.

        Raises ValueError, and changes nothing, if its seq is not the next one, its key is another, its time is not
        above the last mark's, or its cut goes back in a segment.
        """
        last = self.last
        if last is not None:
            check_follows(last, mark)
            if not last.cut.le(mark.cut):
                raise ValueError(_goes_back(last.cut, mark))
        elif mark.seq != self._first_seq or mark.key != self.key:
            raise ValueError(f"mark {mark.seq} of key {mark.key!r} is not {self._first_seq} of {self.key!r}")
        place = mark.cut.place_in(self._columns)
        if not place.known:
            self._columns.add(mark.cut.offsets)
            place = mark.cut.place_in(self._columns)
        fields = Fields(mark.time, mark.upper, mark.newest, mark.created_at, mark.excluded)
        block = self._open_block()
        # The chain may begin within a block: then the mark stands for those before it.
        for _ in range(block.count, (mark.seq - 1) % BLOCK_MARKS + 1):
            block.append(place.row, fields)
        self._next_seq += 1
        self._last = mark
        if block.count == BLOCK_MARKS:
            self._close(block)

    def extend(self, page: MarkPage) -> None:
        """Adds a page of marks. Full blocks are taken as they are.

        Raises ValueError for a mark that does not follow on the one before it.
        """
        if page.key != self.key or page.first_seq != self._next_seq:
            raise ValueError(f"mark {page.first_seq} of key {page.key!r} is not {self._next_seq} of {self.key!r}")
        start = block_start(page.first_seq)
        for block in moved(page, self._columns):
            begin = max(page.first_seq - start, 0)
            if block.count == BLOCK_MARKS and (not begin or not len(self)):
                self._adopt(block, begin)
            else:
                for n in range(begin, block.count):
                    self.append(mark_in(block, n, start + n, self.key, self._columns))
            start += BLOCK_MARKS

    def _adopt(self, block: PackedBlock, begin: int) -> None:
        if self._blocks:
            end = self._blocks[-1].count - 1
            place = self._columns.place(block.first, self._columns.names)
            if block.time(begin) <= self.time_at(self.last_seq) or not place.passes(self._blocks[-1].row(end)):
                raise ValueError(f"mark {self._next_seq} does not follow on the one before it")
        self._blocks.append(block)
        self._next_seq += BLOCK_MARKS - begin
        self._last = None  # unpacked when it is asked for
        self._count_low(block)

    def prune(self, head: Cut) -> int:
        """Drops the marks wholly at or below the head, except the newest of these. Returns their number."""
        return self.prune_before_seq(self._passed_seq(head.place_in(self._columns)))

    def prune_before_seq(self, seq: int) -> int:
        """Drops the marks with a lesser seq, except the newest of all; returns their number. Frees whole blocks."""
        before = self._first_seq
        self._first_seq = max(before, min(seq, self.last_seq))
        blocks = (self._first_seq - self._base) // BLOCK_MARKS
        del self._blocks[:blocks]
        self._base += blocks * BLOCK_MARKS
        del self._lows[: bisect_left(self._lows, self._base, key=itemgetter(1))]
        return self._first_seq - before

    def drop_segment(self, segment: str) -> None:
        """Sets a segment's offset to 0 in every cut. Its empty lane stays, in case the segment is created later."""
        lane = self._columns.lane(segment)
        if lane is not None:
            for block in self._blocks:
                block.clear(lane)
            self._last = None

    def _open_block(self) -> OpenBlock:
        if self._blocks and isinstance(block := self._blocks[-1], OpenBlock):
            return block
        self._blocks.append(block := OpenBlock())
        return block

    def _close(self, block: OpenBlock) -> None:
        self._blocks[-1] = block.packed(len(self._columns))
        self._count_low(block)

    def _count_low(self, block: Block) -> None:
        low = block.least_newest
        if low is not None:
            while self._lows and self._lows[-1][0] >= low:
                self._lows.pop()
            self._lows.append((low, self._next_seq - BLOCK_MARKS))

    # -- looking by seq and by time --------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._next_seq - self._first_seq

    def __iter__(self) -> Iterator[Mark]:
        return (self[seq] for seq in self._seqs)

    def __getitem__(self, seq: int) -> Mark:
        """The mark with a seq; raises IndexError if the chain does not have it (any more, or yet)."""
        block, n = self._find(seq)
        return mark_in(block, n, seq, self.key, self._columns)

    @property
    def first_seq(self) -> int:
        """The seq of the oldest mark; in an empty chain, of the next one to come."""
        return self._first_seq

    @property
    def last_seq(self) -> int:
        """The seq of the newest mark; `first_seq` - 1 in an empty chain."""
        return self._next_seq - 1

    @property
    def last(self) -> Mark | None:
        """The newest mark."""
        if self._last is None and len(self):
            self._last = self[self.last_seq]
        return self._last

    @property
    def packed_bytes(self) -> int:
        """The size of all rows and fields. Python's objects add about 0.5 kB for every block."""
        return sum(block.size_bytes for block in self._blocks)

    def after(self, seq: int, limit: int) -> list[Mark]:
        """The marks after a seq, oldest first, at most `limit`."""
        first = max(seq + 1, self._first_seq)
        return [self[n] for n in range(first, min(first + limit, self._next_seq))]

    def page(self, after: int, limit: int) -> MarkPage:
        """The same packed. `limit` is at least BLOCK_MARKS."""
        first = max(after + 1, self._first_seq)
        if first >= self._next_seq:
            return MarkPage(self.key, first, (), ())
        begin, end = ((seq - self._base) // BLOCK_MARKS for seq in (first, page_end(first, limit, self.last_seq)))
        lanes = len(self._columns)
        blocks = [each.packed(lanes) if isinstance(each, OpenBlock) else each for each in self._blocks[begin : end + 1]]
        return MarkPage(self.key, first, self._columns.names, blocks)

    def time_at(self, seq: int) -> int:
        """The time of a mark; raises IndexError if the chain does not have it."""
        block, n = self._find(seq)
        return block.time(n)

    def offset_at(self, seq: int, segment: str) -> int:
        """The offset of a mark's cut in one segment; raises IndexError if the chain does not have the mark."""
        (block, n), lane = self._find(seq), self._columns.lane(segment)
        return 0 if lane is None else block.offset(n, lane)

    def floor(self, time: int) -> Mark | None:
        """The newest mark at or before a time."""
        count = bisect_left(self._seqs, True, key=lambda seq: self.time_at(seq) > time)
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
            found = self._blocks[number].last_below(time)
            if found is not None:
                seq = self._base + number * BLOCK_MARKS + found
                return self[seq] if seq >= self._first_seq else None
        return None

    # -- lookup by position ----------------------------------------------------------------------------------

    def sides(self, position: Cut) -> Sides:
        """What the marks on either side of a position say."""
        place = position.place_in(self._columns)
        passed = self._passed_seq(place)
        ahead = self._ahead_seq(place, passed)
        upper = None
        if ahead <= self.last_seq:
            block, n = self._find(ahead)
            upper = block.upper(n)
        if passed < self._first_seq:
            return Sides(None, True, None, upper)
        block, n = self._find(passed)
        return Sides(block.time(n), not block.excluded_at(n), passed, upper)

    def passed(self, position: Cut) -> Mark | None:
        """The newest mark whose cut is wholly at or below the position."""
        seq = self._passed_seq(position.place_in(self._columns))
        return self[seq] if seq >= self._first_seq else None

    def ahead(self, position: Cut) -> Mark | None:
        """The first mark not yet passed whose cut is wholly at or above the position."""
        place = position.place_in(self._columns)
        seq = self._ahead_seq(place, self._passed_seq(place))
        return self[seq] if seq <= self.last_seq else None

    def _passed_seq(self, place: Place) -> int:
        """The seq of the newest mark with a cut at or below the place; a lesser one than the first if there is none."""
        above, tops, blocks = place.above, place.tops, self._blocks
        low, high = 0, len(blocks)
        while low < high:
            middle = (low + high) // 2
            if (above - blocks[middle].first) & tops == tops:
                low = middle + 1
            else:
                high = middle
        if not low:
            return self._base - 1
        return self._base + (low - 1) * BLOCK_MARKS + blocks[low - 1].count_passed(place) - 1

    def _ahead_seq(self, place: Place, passed: int) -> int:
        """The seq of the first mark after `passed` with a cut at or above the place; above the last if there is none.

        It is mostly near: the search begins there, with steps that double.
        """
        if not place.known:
            return self._next_seq
        blocks, tops, row = self._blocks, place.tops, place.row
        first = (max(passed + 1, self._first_seq) - self._base) // BLOCK_MARKS
        low, step = first, 1  # the blocks up to `low` begin with a cut that is not above the place, or are passed
        while low + step < len(blocks) and ((blocks[low + step].first | tops) - row) & tops != tops:
            low, step = low + step, 2 * step
        high = min(low + step, len(blocks))
        while low + 1 < high:
            middle = (low + high) // 2
            if ((blocks[middle].first | tops) - row) & tops == tops:
                high = middle
            else:
                low = middle
        if low >= len(blocks):
            return self._next_seq
        seq = self._base + low * BLOCK_MARKS + blocks[low].count_before(place)
        return max(seq, passed + 1, self._first_seq)

    @property
    def _seqs(self) -> range:
        return range(self._first_seq, self._next_seq)

    def _find(self, seq: int) -> tuple[PackedBlock | OpenBlock, int]:
        if not self._first_seq <= seq < self._next_seq:
            here = f"{self._first_seq} to {self.last_seq}" if len(self) else "none"
            raise IndexError(f"there is no mark {seq} of key {self.key!r} here, but {here}")
        number, n = divmod(seq - self._base, BLOCK_MARKS)
        return self._blocks[number], n


def _goes_back(last: Cut, mark: Mark) -> str:
    segment, least = next((name, offset) for name, offset in last.items() if offset > mark.cut.offset(name))
    at = mark.cut.offset(segment)
    return f"the cut of mark {mark.seq} goes back in segment {segment!r}: {at} is below {least}"
