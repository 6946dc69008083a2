"""Some blocks of a chain answer as the whole chain does, or name the gap that hides the answer."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.block import BLOCK_MARKS, FieldColumns, Fields, NotRising
from strandline.core.cut import NOTHING, Cut
from strandline.core.mark import Mark
from strandline.core.mark_page import MarkPage, page_of
from strandline.core.past_marks import GUESSES, Gap, PastMarks
from strandline.core.window import ListedMarks
from tests.chain.test_chain import KEY, growing_marks, mark, some_position


def paged(marks: list[Mark]) -> MarkPage:
    cuts = [each.cut.offsets for each in marks]
    if marks[0].seq % 3 == 0:  # the store may have the segments in any order
        cuts[-1] = dict(sorted(cuts[-1].items(), reverse=True))
    fields = [Fields(each.time, each.upper, each.newest, each.created_at, each.excluded) for each in marks]
    return page_of(KEY, marks[0].seq, cuts, FieldColumns(*zip(*fields, strict=True)))


def around(marks: ListedMarks, position: Cut, gap: Gap) -> MarkPage:
    """The blocks that a gap hides, as the store has them."""
    begin, end = gap.blocks(position, marks.first_seq, marks.last_seq, lambda seq: marks[seq].cut)
    return paged([marks[seq] for seq in range(max(begin, marks.first_seq), min(end, marks.last_seq) + 1)])


@given(st.integers(0, 2**32), st.integers(1, 1_000))
def test_a_page_is_the_list_of_its_marks(seed: int, first_seq: int) -> None:
    random = Random(seed)
    marks = list(growing_marks(random, random.randrange(1, 100), first_seq))
    page = paged(marks)
    assert list(page) == marks
    assert (len(page), page.last_seq) == (len(marks), marks[-1].seq)
    assert (len(MarkPage(KEY, 7, (), [])), MarkPage(KEY, 7, (), []).last_seq) == (0, 6)


@pytest.mark.parametrize(
    "wrong",
    [
        mark(3, 2, Cut({"0": 3, "1": 1})),
        mark(3, 3, Cut({"0": 1, "1": 1})),
        mark(3, 3, Cut({"0": 3})),
        mark(3, 3, Cut({"0": 3, "2": 1})),
        mark(3, 3, Cut({"0": 3, "1": 1, "2": 1})),
    ],
    ids=["time", "cut", "a segment less", "another segment", "a segment more"],
)
def test_a_page_names_the_mark_that_does_not_follow(wrong: Mark) -> None:
    marks = [mark(1, 1, NOTHING), mark(2, 2, Cut({"0": 2, "1": 1})), wrong]
    with pytest.raises(NotRising) as found:
        paged([*marks, mark(4, 4, Cut({"0": 9, "1": 9}))])
    assert found.value.number in (2, 3)  # with a segment less, the next one has more than it should


@given(st.integers(0, 2**32), st.integers(1, 200))
def test_windows_of_some_blocks_are_those_of_all_marks(seed: int, first_seq: int) -> None:
    random = Random(seed)
    marks = ListedMarks(growing_marks(random, random.randrange(1, 400), first_seq))
    last = random.randint(marks.first_seq, marks.last_seq)  # what follows is in a chain
    past = PastMarks()
    for _ in range(12):
        position = some_position(random, list(marks))
        known = marks.sides(position)
        if known.seq is not None and known.seq > last:
            continue
        ahead = marks.ahead(position)
        upper = ahead.upper if ahead is not None and ahead.seq > last else None
        gaps = 0
        while isinstance(found := past.sides(position, marks.first_seq, last, upper), Gap):
            past.take(around(marks, position, found))
            gaps += 1
        assert found == known
        assert gaps <= 2  # one on each side
        match random.randrange(6):
            case 0:
                past.thin()
            case 1 if last > marks.first_seq:
                marks.prune_before_seq(random.randint(marks.first_seq, last))
                past.prune(marks.first_seq)
    assert past.size_bytes > 0 or not len(past)
    past.clear()
    assert (len(past), past.size_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("grows", "most"),
    [
        (lambda seq: 7 * seq, 6),
        (lambda seq: 7 * seq + seq % 5, 8),
        (lambda seq: 2 ** (seq // 200), 2 + 2 * GUESSES + 12),
    ],
    ids=["evenly", "about evenly", "ever faster"],
)
def test_few_cuts_of_a_gap_are_looked_at(grows: Callable[[int], int], most: int) -> None:
    last, asked = 10_000, list[int]()
    cuts = {seq: Cut({"0": grows(seq), "1": 3 * grows(seq), "still": 5}) for seq in range(1, last + 1)}

    def cut_at(seq: int) -> Cut:
        asked.append(seq)
        return cuts[seq]

    for seq in (1, 33, 4_321, 6_400, last):
        for ahead in (False, True):
            asked.clear()
            begin, end = Gap(0, last + 1, ahead=ahead).blocks(cuts[seq], 1, last, cut_at)
            found = next(
                (n for n, cut in cuts.items() if (cuts[seq].le(cut) if ahead else not cut.le(cuts[seq]))), last
            )
            assert begin <= max(1, found - 1) and found <= end < begin + 2 * BLOCK_MARKS
            assert len(asked) <= most
