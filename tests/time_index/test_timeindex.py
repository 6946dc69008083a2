"""The index from offset to time of one segment, and the tokens with which a call goes on where the last one ended."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.chain import MarkChain
from strandline.core.cut import NOTHING, Cut
from strandline.core.mark import Mark
from strandline.core.time_index import IndexedMarks, IndexEntry, bound_at, time_index

AT_11_55, AT_11_58, AT_12_00, AT_12_01, AT_12_04 = 1155, 1158, 1200, 1201, 1204


def mark(seq: int, time: int, cut: Cut) -> Mark:
    return Mark(seq=seq, key="", time=time, upper=time, cut=cut, newest=None, excluded=(), created_at=0)


def marks_of(*points: tuple[int, int], first_seq: int = 1) -> list[Mark]:
    """Marks from (offset in segment "0", time); segment "1" moves on with each of them."""
    cuts = (Cut({"0": offset, "1": n + 1}) for n, (offset, _) in enumerate(points))
    return [mark(first_seq + n, points[n][1], cut) for n, cut in enumerate(cuts)]


#     mark       1        2        3        4        5
#     offset     0        0        40       40       85
#     time       11:55    11:58    12:00    12:01    12:04
FIVE = marks_of((0, AT_11_55), (0, AT_11_58), (40, AT_12_00), (40, AT_12_01), (85, AT_12_04))


class Counted:
    """Marks that count how often they are asked for an offset."""

    def __init__(self, marks: IndexedMarks) -> None:
        self._marks = marks
        self.looks = 0

    @property
    def first_seq(self) -> int:
        return self._marks.first_seq

    @property
    def last_seq(self) -> int:
        return self._marks.last_seq

    def time_at(self, seq: int) -> int:
        return self._marks.time_at(seq)

    def offset_at(self, seq: int, segment: str) -> int:
        self.looks += 1
        return self._marks.offset_at(seq, segment)


def test_of_marks_at_one_offset_the_latest_time_is_the_entry() -> None:
    entries, token = time_index(MarkChain(FIVE), "0")
    assert entries == [IndexEntry(0, AT_11_58), IndexEntry(40, AT_12_01), IndexEntry(85, AT_12_04)]
    assert token == 5


@pytest.mark.parametrize(("offset", "first"), [(0, 0), (1, 0), (39, 0), (40, 40), (84, 40), (85, 85), (900, 85)])
def test_without_a_token_the_entry_at_or_below_comes_first(offset: int, first: int) -> None:
    entries, _ = time_index(MarkChain(FIVE), "0", offset)
    assert entries[0].offset == first
    assert entries[-1] == IndexEntry(85, AT_12_04)


def test_with_a_token_a_call_goes_on_where_the_last_one_ended() -> None:
    marks = MarkChain(FIVE)
    entries, token = time_index(marks, "0", limit=1)
    assert (entries, token) == ([IndexEntry(0, AT_11_58)], 2)
    entries, token = time_index(marks, "0", 12, token, limit=1)
    assert (entries, token) == ([IndexEntry(40, AT_12_01)], 4)
    entries, token = time_index(marks, "0", 12, token, limit=1)
    assert (entries, token) == ([IndexEntry(85, AT_12_04)], 5)
    assert time_index(marks, "0", 12, token) == ([], 5)


def test_a_token_goes_on_with_marks_that_came_later() -> None:
    _, token = time_index(MarkChain(FIVE), "0")
    more = [*FIVE, mark(6, AT_12_04 + 1, FIVE[-1].cut), mark(7, AT_12_04 + 2, Cut({"0": 99, "1": 9}))]
    entries, token = time_index(MarkChain(more), "0", 0, token)
    assert entries == [IndexEntry(85, AT_12_04 + 1), IndexEntry(99, AT_12_04 + 2)]
    assert token == 7


def test_offset_zero_is_token_zero_and_is_not_searched_for() -> None:
    marks = MarkChain(marks_of(*((offset, offset) for offset in range(0, 10_000, 10))))
    from_zero, with_token, searched = Counted(marks), Counted(marks), Counted(marks)
    assert time_index(from_zero, "0", 0, limit=2) == time_index(with_token, "0", 77, 0, limit=2)
    assert from_zero.looks == with_token.looks
    time_index(searched, "0", 5_005, limit=2)
    assert searched.looks > from_zero.looks


def test_a_segment_at_rest_for_many_marks_is_passed_over_quickly() -> None:
    marks = Counted(MarkChain(mark(seq, seq, Cut({"0": 7 if seq < 9_000 else 8})) for seq in range(1, 9_002)))
    assert time_index(marks, "0") == ([IndexEntry(7, 8_999), IndexEntry(8, 9_001)], 9_001)
    assert marks.looks < 50


def test_a_pruned_index_continues_at_the_oldest_mark_left() -> None:
    chain = MarkChain(FIVE)
    chain.prune_before_seq(4)
    assert time_index(chain, "0", 0, token=1) == ([IndexEntry(40, AT_12_01), IndexEntry(85, AT_12_04)], 5)


def test_a_segment_no_cut_reaches_starts_at_the_last_mark() -> None:
    assert time_index(MarkChain(FIVE), "7") == ([IndexEntry(0, AT_12_04)], 5)
    assert bound_at(MarkChain(FIVE), "7", 0) == AT_12_04


def some_marks(random: Random) -> list[Mark]:
    cut, time, marks = NOTHING, random.randrange(50), list[Mark]()
    first_seq = random.choice((1, 1, 400))
    for seq in range(first_seq, first_seq + random.choice((0, 1, 5, 80, 200))):
        cut = cut.join(Cut({str(n): cut.offset(str(n)) + random.choice((0, 0, 1, 30)) for n in range(3)}))
        time += random.choice((1, 2, 50))
        marks.append(mark(seq, time, cut))
    return marks


@given(st.integers(0, 2**32))
def test_pages_of_any_size_make_the_same_index(seed: int) -> None:
    random = Random(seed)
    marks = some_marks(random)
    chain = MarkChain(marks)
    start, segment = random.choice((0, 0, 17, 200)), random.choice("0123")
    index: list[IndexEntry] = []
    token: int | None = None
    while True:
        entries, token = time_index(chain, segment, start, token, random.choice((1, 2, 7)))
        if not entries:
            break
        assert not index or entries[0] > index[-1]
        index += entries
    for offset in (start, start + 1, start + 29, start + 1_000, start + random.randrange(3_000)):
        known = [found.time for found in marks if found.cut.offset(segment) <= offset]
        assert bound_at(chain, segment, offset) == max(known, default=None)
        assert max((each.time for each in index if each.offset <= offset), default=None) == max(known, default=None)


@given(st.integers(0, 2**32))
def test_no_event_at_or_past_an_entry_is_older_than_it(seed: int) -> None:
    random = Random(seed)
    events, marks, cut, last_time = dict[int, int](), list[Mark](), NOTHING, 0
    for seq in range(1, 40):
        for _ in range(random.randrange(4)):
            events[len(events)] = last_time + random.randrange(20)
        last_time += random.randrange(1, 9)
        older = [offset + 1 for offset, time in events.items() if time < last_time]
        cut = cut.join(Cut({"0": random.randint(max(older, default=0), len(events))}))
        marks.append(mark(seq, last_time, cut))
    entries, _ = time_index(MarkChain(marks), "0")
    for entry in entries:
        assert all(time >= entry.time for offset, time in events.items() if offset >= entry.offset)


@pytest.mark.parametrize("wrong", [{"from_offset": -1}, {"limit": 0}, {"token": -1}])
def test_a_call_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        time_index(MarkChain(FIVE), "0", **wrong)
