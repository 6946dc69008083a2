"""Some of a key's older marks: blocks of a chain that is not whole.

    seq      1 … 32    65 … 96    97 … 128              the blocks that are there, of marks 1 to 900
             ├─────┤   ├──────────────────┤             a window within or between them needs no others
                    ▲                      ▲
                   gap                    gap           a window in a gap takes the blocks around its place

Which marks a position has passed is monotone, so the blocks that are there bound the search for those that are not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from strandline.core.block import BLOCK_MARKS, PackedBlock
from strandline.core.cut import Cut
from strandline.core.lanes import Columns, Place
from strandline.core.mark_page import MarkPage, block_start, moved
from strandline.core.window import Sides

GUESSES: Final = 4  # of a place in a gap; then the gap is halved


@dataclass(frozen=True, slots=True)
class Gap:
    """Which mark is looked for is not known: mark `low` comes before it and mark `high` does not, where these exist.

    It is the first that is not passed, or with `ahead` the first with a cut at or above the position.
    """

    low: int
    high: int
    ahead: bool

    def blocks(self, position: Cut, first: int, last: int, cut_at: Callable[[int], Cut]) -> tuple[int, int]:
        """The first and the last seq of the blocks around the mark that is looked for, among the marks from `first` to
        `last`. `cut_at` gives the cut of one of them, and is called a few times: cuts mostly grow evenly, so that
        the place of a position in them says where to look. Where they do not, the gap is halved."""
        low, high, guesses, cut_of = self.low, self.high, GUESSES, cache(cut_at)
        while low + 1 < high and block_start(max(low, first)) != block_start(min(high, last)):
            if block_start(max(low, first)) == block_start(high - 1):
                tried = [high - 1]  # the mark that is looked for is in this block, or begins the next one
            elif guesses:
                guesses -= 1
                begin, end = max(low, first), min(high, last)
                part = _part_reached(position, cut_of(begin), cut_of(end), ahead=self.ahead)
                start = block_start(min(max(begin + int(part * (end - begin)), low + 1), high - 1))
                tried = [seq for seq in (start, start + BLOCK_MARKS) if low < seq < high]
            else:
                tried = [(low + high) // 2]
            for seq in tried:
                cut = cut_of(seq)
                if position.le(cut) if self.ahead else not cut.le(position):
                    high = seq
                    break
                low = seq
        return block_start(max(low, first)), block_start(min(high, last)) + BLOCK_MARKS - 1


def _part_reached(position: Cut, before: Cut, behind: Cut, *, ahead: bool) -> float:
    """How far between two cuts the first one lies that is not passed, or that is ahead, if cuts grow evenly."""
    begin, end = before.offsets, behind.offsets
    wanted = position.offsets if ahead else {name: position.offset(name) + 1 for name in end}
    parts = [_part(offset, begin.get(name, 0), end.get(name, 0)) for name, offset in wanted.items()]
    return (max if ahead else min)(parts, default=0.0)


def _part(offset: int, begin: int, end: int) -> float:
    """How far between two offsets this one is reached."""
    return min(max((offset - begin) / (end - begin), 0.0), 1.0) if begin < end else float(offset > end)


class PastMarks:
    """Blocks of older marks of one stream and key."""

    def __init__(self) -> None:
        self._columns = Columns()
        self._starts: list[int] = []  # the seq with which each block begins
        self._blocks: list[PackedBlock] = []
        self.size_bytes = 0

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self._blocks)

    def take(self, page: MarkPage) -> None:
        """Adds blocks, in place of those that it has of the same marks."""
        start = block_start(page.first_seq)
        for block in moved(page, self._columns):
            at = bisect_left(self._starts, start)
            if at < len(self._starts) and self._starts[at] == start:
                self._remove(at, at + 1)
            self._starts.insert(at, start)
            self._blocks.insert(at, block)
            self.size_bytes += block.size_bytes
            start += BLOCK_MARKS

    def prune(self, first: int) -> None:
        """Drops the blocks without a mark from `first` on."""
        self._remove(0, bisect_right(self._starts, first - BLOCK_MARKS))

    def clear(self) -> None:
        self._remove(0, len(self._blocks))

    def thin(self) -> None:
        """Drops every second block. The others still say where to search."""
        del self._starts[::2], self._blocks[::2]
        self.size_bytes = sum(block.size_bytes for block in self._blocks)

    def sides(self, position: Cut, first: int, last: int, upper: int | None) -> Sides | Gap:
        """What the marks from `first` to `last` say that are around a position. `upper` is that of the mark ahead among
        those that follow them."""
        place = position.place_in(self._columns)
        passed = self._bounds(place, first, last)
        if passed.low + 1 < passed.high:
            return passed
        ahead = self._bounds_ahead(place, passed.low, last)
        if ahead.low + 1 < ahead.high:
            return ahead
        if ahead.high <= last:
            block, n = self._find(ahead.high)
            upper = block.upper(n)
        if passed.low < first:
            return Sides(None, True, None, upper)
        block, n = self._find(passed.low)
        return Sides(block.time(n), not block.excluded_at(n), passed.low, upper)

    def _bounds(self, place: Place, first: int, last: int) -> Gap:
        at = bisect_left(self._blocks, True, key=lambda block: not place.passes(block.first))
        low, high = first - 1, self._starts[at] if at < len(self._starts) else last + 1
        if at:
            start, block = self._starts[at - 1], self._blocks[at - 1]
            count = block.count_passed(place)
            low = max(low, start + count - 1)
            high = start + count if count < block.count else high
        high = min(high, last + 1)
        return Gap(min(low, last), max(high, first), ahead=False)

    def _bounds_ahead(self, place: Place, passed: int, last: int) -> Gap:
        count = len(self._blocks)
        at = bisect_left(self._blocks, True, key=lambda block: place.is_within(block.first)) if place.known else count
        low, high = passed, self._starts[at] if at < count else last + 1
        if at:
            start, block = self._starts[at - 1], self._blocks[at - 1]
            before = block.count_before(place) if place.known else block.count
            low = max(low, start + before - 1)
            high = start + before if before < block.count else high
        return Gap(min(low, last), max(min(high, last + 1), passed + 1), ahead=True)

    def _find(self, seq: int) -> tuple[PackedBlock, int]:
        at = bisect_right(self._starts, seq) - 1
        return self._blocks[at], seq - self._starts[at]

    def _remove(self, begin: int, end: int) -> None:
        self.size_bytes -= sum(block.size_bytes for block in self._blocks[begin:end])
        del self._starts[begin:end], self._blocks[begin:end]
