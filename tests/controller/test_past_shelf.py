"""Older marks in memory stay within a bound."""

from __future__ import annotations

from controller.limits import PAST_BLOCK_BYTES
from controller.streams.past_shelf import PastShelf
from strandline.core.block import BLOCK_MARKS, FieldColumns
from strandline.core.mark_page import page_of
from strandline.core.past_marks import PastMarks


def of_blocks(count: int) -> PastMarks:
    seqs, past = range(1, count * BLOCK_MARKS + 1), PastMarks()
    past.take(
        page_of(
            "", 1, [{"0": seq} for seq in seqs], FieldColumns(seqs, seqs, [None] * len(seqs), seqs, [()] * len(seqs))
        )
    )
    return past


def test_the_marks_that_were_not_used_for_longest_go_first() -> None:
    each = of_blocks(1).size_bytes + PAST_BLOCK_BYTES
    shelf, pasts = PastShelf(bound_bytes=10 * each), [of_blocks(4) for _ in range(3)]
    shelf.used(pasts[0])
    shelf.used(pasts[1])
    shelf.used(pasts[0])
    shelf.used(pasts[2])
    assert [len(past) for past in pasts] == [4, 0, 4]
    assert shelf.size_bytes == sum(past.size_bytes + len(past) * PAST_BLOCK_BYTES for past in pasts)


def test_marks_that_alone_are_too_many_are_thinned() -> None:
    each = of_blocks(1).size_bytes + PAST_BLOCK_BYTES
    shelf, past, other = PastShelf(bound_bytes=10 * each), of_blocks(25), of_blocks(1)
    shelf.used(other)
    shelf.used(past)
    assert (len(past), len(other)) == (6, 0)
    assert shelf.size_bytes < 10 * each
