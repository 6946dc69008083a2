"""Pages of packed marks: how marks are handed on from the store to memory, and from a controller to readers.

A page has blocks as a chain has them: each begins with a seq of 1 more than a multiple of BLOCK_MARKS. A page may
begin within a block: what the block has before the page's first mark does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from strandline.core.block import BLOCK_MARKS, FieldColumns, NotRising, OpenBlock, PackedBlock, pack_all
from strandline.core.cut import Cut
from strandline.core.lanes import Columns
from strandline.core.mark import Mark


def block_start(seq: int) -> int:
    """The seq with which the block of a mark begins."""
    return seq - (seq - 1) % BLOCK_MARKS


@dataclass(frozen=True, slots=True)
class MarkPage:
    """Consecutive marks of one stream and key. `names` are the segments, in the order of the blocks' lanes."""

    key: str
    first_seq: int
    names: Sequence[str]
    blocks: Sequence[PackedBlock]

    @property
    def last_seq(self) -> int:
        """The seq of the last mark; `first_seq` - 1 in an empty page."""
        if not self.blocks:
            return self.first_seq - 1
        return block_start(self.first_seq) + BLOCK_MARKS * (len(self.blocks) - 1) + self.blocks[-1].count - 1

    def __len__(self) -> int:
        return self.last_seq - self.first_seq + 1

    @property
    def segments(self) -> Iterable[str]:
        """The segments into which the cuts reach."""
        block = self.blocks[-1] if self.blocks else None
        return Columns(self.names).offsets(block.row(block.count - 1)) if block is not None else ()

    def __iter__(self) -> Iterator[Mark]:
        columns, base = Columns(self.names), block_start(self.first_seq)
        for number, block in enumerate(self.blocks):
            for n in range(block.count):
                seq = base + BLOCK_MARKS * number + n
                if seq >= self.first_seq:
                    yield mark_in(block, n, seq, self.key, columns)


def mark_in(block: PackedBlock | OpenBlock, n: int, seq: int, key: str, columns: Columns) -> Mark:
    time, upper, newest, created_at, excluded = block.fields(n)
    return Mark(
        seq=seq,
        key=key,
        time=time,
        upper=upper,
        cut=Cut(columns.offsets(block.row(n))),
        newest=newest,
        excluded=excluded,
        created_at=created_at,
    )


def page_end(first: int, limit: int, newest: int) -> int:
    """The seq of the last mark of a page: where a block ends, or the newest one. `limit` is at least BLOCK_MARKS."""
    last = first + limit - 1
    return newest if last >= newest else block_start(last + 1) - 1


def moved(page: MarkPage, columns: Columns) -> Sequence[PackedBlock]:
    """The blocks of a page in the lanes of others, which get those that they lack."""
    columns.add(page.names)
    lanes = [columns.lane(name) for name in page.names]
    if lanes == list(range(len(lanes))):
        return page.blocks
    return [block.moved([lane for lane in lanes if lane is not None]) for block in page.blocks]


def page_of(key: str, first_seq: int, cuts: Sequence[Mapping[str, int]], fields: FieldColumns) -> MarkPage:
    """Packs consecutive marks. Raises NotRising with the number of a mark whose time or cut does not follow on."""
    names = tuple(cuts[-1])  # cuts never go back, so the last one has every segment
    offsets: list[int] = []
    row = itemgetter(*names) if len(names) > 1 else None
    for n, cut in enumerate(cuts):
        if row is not None and len(cut) == len(names):
            try:
                offsets.extend(row(cut))
                continue
            except KeyError:
                raise NotRising(n + 1) from None
        if not cut.keys() <= cuts[-1].keys():
            raise NotRising(n + 1)
        offsets.extend([cut.get(name, 0) for name in names])
    blocks = pack_all(offsets, len(names), fields, first_seq - block_start(first_seq))
    return MarkPage(key, first_seq, names, blocks)
