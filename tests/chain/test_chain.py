"""A MarkChain is the list of its marks, only smaller: what it answers, a plain list answers too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.block import BLOCK_MARKS
from strandline.core.chain import MarkChain
from strandline.core.cut import NOTHING, Cut
from strandline.core.mark import Mark
from strandline.limits import OFFSET_BOUND, SEGMENTS_PER_STREAM

KEY = "order_time"
# How much a segment may grow from mark to mark: nothing, and enough to need each width of cell.
STEPS = (0, 1, 3, 40, 5_000, 10**8, 10**12)
# By how much time may rise: evenly or not, and so slowly that newest falls over many marks.
PACES = ((1,), (1, 2), (1_000,), (1, 2, 1_000, 10**6))


def mark(seq: int, time: int, cut: Cut, newest: int | None = None, excluded: tuple[str, ...] = ()) -> Mark:
    return Mark(
        seq=seq,
        key=KEY,
        time=time,
        upper=time + seq % 7,
        cut=cut,
        newest=newest,
        excluded=excluded,
        created_at=1_000 * seq - seq % 5,
    )


def growing_marks(random: Random, count: int, first_seq: int = 1) -> Iterator[Mark]:
    """Marks as in a long-lived stream: segments appear, rest, leap; newest comes, goes, even falls."""
    segments = ["0"]
    cut, time = NOTHING, random.randrange(-500, 500)
    steps, pace = STEPS[: random.randint(2, len(STEPS))], random.choice(PACES)
    appearing, moving, knowing = (random.choice(odds) for odds in ((0.02, 0.1), (0.01, 0.1, 0.5), (0.02, 0.8, 1)))
    excluded: tuple[str, ...] = ()
    for seq in range(first_seq, first_seq + count):
        if random.random() < appearing:
            segments.append(str(len(segments)))
        moved = {name: random.randint(0, random.choice(steps)) for name in segments if random.random() < moving}
        cut = cut.join(Cut({name: cut.offset(name) + step for name, step in moved.items()}))
        time += random.choice(pace)
        newest = time + random.randrange(-3_000, 3_000) if random.random() < knowing else None
        if random.random() < 0.1:
            excluded = random.choice(((), ("w1",), ("w1", "w2")))
        yield mark(seq, time, cut, newest, excluded)


def some_position(random: Random, marks: list[Mark]) -> Cut:
    """A position among the cuts: one of them, mixed with another, or a little off."""
    one, other = (random.choice(marks).cut if marks else NOTHING for _ in range(2))
    match random.randrange(8):
        case 0:
            return one
        case 1:
            return one.join(other)
        case 2:
            return one.meet(other)
        case 3:
            return Cut({name: max(0, offset + random.randint(-2, 2)) for name, offset in one.items()})
        case 4:
            return one.join(Cut({"not in any mark": 1}))
        case 5:
            return Cut({name: random.choice((one, other)).offset(name) for name, _ in one.items()})
        case 6:
            return Cut(dict(random.sample(sorted(one.items()), min(len(one), random.randrange(3)))))
        case _:
            return Cut({name: offset for name, offset in one.items() if random.random() < 0.7})


def check_same(chain: MarkChain, marks: list[Mark], random: Random, looks: int = 12) -> None:
    assert list(chain) == marks
    assert len(chain) == len(marks)
    assert chain.last == (marks[-1] if marks else None)
    if marks:
        assert (chain.first_seq, chain.last_seq) == (marks[0].seq, marks[-1].seq)
        seq = random.randrange(marks[0].seq - 3, marks[-1].seq + 3)
        assert chain.after(seq, 5) == [found for found in marks if found.seq > seq][:5]
    for _ in range(looks):
        position = some_position(random, marks)
        passed = [found for found in marks if found.cut.le(position)]
        ahead = [found for found in marks if position.le(found.cut) and found not in passed]
        assert chain.passed(position) == (passed[-1] if passed else None)
        assert chain.ahead(position) == (ahead[0] if ahead else None)
        near = random.choice(marks) if marks else mark(1, 0, NOTHING)
        time = random.choice((near.time, near.newest or 0)) + random.choice((-(10**6), -3_000, -1, 0, 0, 1, 3_000))
        assert chain.floor(time) == [None, *(found for found in marks if found.time <= time)][-1]
        assert chain.ceiling(time) == [*(found for found in marks if found.time >= time), None][0]
        older = [found for found in marks if found.newest is not None and found.newest < time]
        assert chain.start(time) == (older[-1] if older else None)
        if marks:
            found = random.choice(marks)
            segment = str(random.randrange(12))
            assert chain.offset_at(found.seq, segment) == found.cut.offset(segment)
            assert chain.time_at(found.seq) == found.time


@given(st.integers(0, 2**32), st.sampled_from((0, 1, 2, 63, 64, 65, 130, 300)), st.integers(1, 10**9))
def test_a_chain_answers_as_a_list_of_its_marks_would(seed: int, count: int, first_seq: int) -> None:
    random = Random(seed)
    marks = list(growing_marks(random, count, first_seq))
    chain = MarkChain(KEY, first_seq)
    for each in marks:
        chain.append(each)
    check_same(chain, marks, random)


@given(st.integers(0, 2**32))
def test_a_pruned_chain_that_loses_segments_equals_a_plain_list(seed: int) -> None:
    random = Random(seed)
    chain, marks, dropped = MarkChain(KEY), list[Mark](), set[str]()
    for each in growing_marks(random, 300):
        kept = Cut({name: offset for name, offset in each.cut.items() if name not in dropped})
        chain.append(replace(each, cut=kept))
        marks.append(replace(each, cut=kept))
        match random.randrange(40):
            case 0:
                head = some_position(random, marks)
                below = [found for found in marks if found.cut.le(head)]
                assert chain.prune(head) == max(len(below) - 1, 0)
                marks = below[-1:] + marks[len(below) :]
            case 1:
                seq = random.randrange(chain.first_seq - 5, chain.last_seq + 5)
                left = [found for found in marks if found.seq >= seq] or marks[-1:]
                assert chain.prune_before_seq(seq) == len(marks) - len(left)
                marks = left
            case 2:
                name = str(random.randrange(6))
                dropped.add(name)
                chain.drop_segment(name)
                marks = [replace(found, cut=found.cut.without(name)) for found in marks]
                assert chain.last == marks[-1]
            case 3:
                dropped.clear()  # a dropped segment may come to be after all
            case 4:
                check_same(chain, marks, random, looks=3)  # of many that are taken on the way
    check_same(chain, marks, random)


def chain_of(*marks: Mark) -> MarkChain:
    chain = MarkChain(KEY)
    for each in marks:
        chain.append(each)
    return chain


FIRST = mark(1, 100, Cut({"0": 10, "1": 20}))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (mark(3, 101, FIRST.cut), "cannot follow mark 1: the next is 2"),
        (mark(1, 101, FIRST.cut), "cannot follow mark 1: the next is 2"),
        (mark(2, 100, FIRST.cut), "time of mark 2 is 100, which must be above 100"),
        (replace(mark(2, 101, FIRST.cut), key="other"), "is for key 'other'"),
        (
            mark(2, 101, Cut({"0": 11, "1": 19})),
            "goes back in segment '1': 19 is below 20",
        ),
        (
            mark(2, 101, Cut({"0": 11, "2": 5})),
            "goes back in segment '1': 0 is below 20",
        ),
    ],
)
def test_a_mark_must_follow_the_last_one(wrong: Mark, says: str) -> None:
    chain = chain_of(FIRST)
    with pytest.raises(ValueError, match=says):
        chain.append(wrong)
    assert list(chain) == [FIRST]
    second = mark(2, 101, Cut({"0": 10, "1": 20, "2": 1}))
    chain.append(second)
    assert list(chain) == [FIRST, second]


@pytest.mark.parametrize("wrong", [mark(2, 100, NOTHING), replace(FIRST, key="other")])
def test_the_first_mark_needs_the_chains_seq_and_key(wrong: Mark) -> None:
    with pytest.raises(ValueError, match="is not 1 of 'order_time'"):
        MarkChain(KEY).append(wrong)


def test_a_missing_mark_is_an_index_error_naming_the_range() -> None:
    chain = chain_of(*(mark(seq, seq, NOTHING) for seq in range(1, 6)))
    chain.prune_before_seq(3)
    for seq in (2, 6):
        with pytest.raises(IndexError, match=f"no mark {seq} .* 3 to 5"):
            chain[seq]
    with pytest.raises(IndexError, match="none"):
        MarkChain(KEY)[1]


def test_the_newest_mark_survives_any_pruning() -> None:
    chain = chain_of(FIRST, mark(2, 101, FIRST.cut))
    assert chain.prune_before_seq(99) == 1
    assert [found.seq for found in chain] == [2]
    assert MarkChain(KEY).prune(FIRST.cut) == 0


def test_pruning_gives_memory_back() -> None:
    chain = chain_of(*(mark(seq, seq, Cut({"0": seq})) for seq in range(1, 100 * BLOCK_MARKS)))
    before = chain.packed_bytes
    chain.prune(Cut({"0": 90 * BLOCK_MARKS}))
    assert chain.packed_bytes < before / 5


def test_the_greatest_offsets_and_times_come_back_unchanged() -> None:
    top = OFFSET_BOUND - 1
    marks = [mark(seq, -top + seq, Cut({"0": 1, "1": top}) if seq > 9 else NOTHING) for seq in range(1, 70)]
    marks.append(replace(mark(70, 0, Cut({"0": top, "1": top})), upper=top, newest=-top, created_at=top))
    assert list(chain_of(*marks)) == marks


@pytest.mark.parametrize("most", [2**7 - 1, 2**8 - 1, 2**15 - 1, 2**16 - 1, 2**31 - 1, 2**32 - 1])
@pytest.mark.parametrize("over", [-1, 0, 1])
def test_values_around_a_cell_widths_limit_come_back_unchanged(most: int, over: int) -> None:
    marks = [mark(seq, seq, Cut({"0": 5 + (seq > 30) * (most + over), "1": seq})) for seq in range(1, 130)]
    chain = chain_of(*marks)
    assert list(chain) == marks
    assert chain.passed(Cut({"0": 5 + most, "1": 99})) == marks[29 if over > 0 else 98]
    assert chain.ahead(Cut({"0": 5 + most})) == (marks[30] if over >= 0 else None)


@pytest.mark.parametrize("before", [0, 1], ids=["not there", "at rest"])
def test_a_segment_moving_in_a_later_block_stood_still_before(before: int) -> None:
    for last in (BLOCK_MARKS, 2 * BLOCK_MARKS):
        cuts = [Cut({"0": seq, "1": before if seq <= last else 5}) for seq in range(1, last + 30)]
        marks = [mark(n + 1, n, cut) for n, cut in enumerate(cuts)]
        assert chain_of(*marks).ahead(Cut({"0": 10, "1": 3})) == marks[last]


def test_a_position_beyond_a_blocks_cells_is_found_exactly() -> None:
    leap = [0] * BLOCK_MARKS + [1_000] * BLOCK_MARKS
    marks = [mark(n + 1, n, Cut({"0": 2 * n + leap[n], "1": n})) for n in range(2 * BLOCK_MARKS)]
    chain = chain_of(*marks)
    assert chain.ahead(Cut({"0": 256 + 4})) == marks[BLOCK_MARKS]
    assert chain.passed(Cut({"0": 256 + 4, "1": 30})) == marks[30]


def test_where_newest_fell_the_last_low_mark_is_the_start() -> None:
    newest = [500] * BLOCK_MARKS + [400] * BLOCK_MARKS + [5] * BLOCK_MARKS + [3_000]
    marks = [mark(n + 1, n, NOTHING, low) for n, low in enumerate(newest)]
    chain = chain_of(*marks, mark(len(marks) + 1, 10**6, NOTHING))
    assert chain.start(100) == chain.start(500) == chain.start(3_000) == marks[3 * BLOCK_MARKS - 1]
    assert chain.start(3_001) == marks[-1]
    assert chain.start(5) is None


def test_a_segment_that_does_not_move_costs_no_room_in_each_mark() -> None:
    still = {str(n): 7 for n in range(1_000)}
    chain = chain_of(*(mark(seq, seq, Cut(still | {"0": seq})) for seq in range(1, 10 * BLOCK_MARKS + 1)))
    per_mark = chain.packed_bytes / len(chain)
    assert per_mark < 1_000 * 8 / BLOCK_MARKS + 32


def test_a_million_marks_of_256_segments_would_take_about_half_a_gigabyte() -> None:
    random, cut = Random(7), NOTHING
    chain = MarkChain(KEY)
    for seq in range(1, 20 * BLOCK_MARKS + 1):
        cut = Cut({str(n): cut.offset(str(n)) + random.randrange(900) for n in range(256)})
        chain.append(mark(seq, seq * 1_000, cut, newest=seq * 1_000 + 500))
    assert chain.packed_bytes / len(chain) * 1_000_000 < 600e6


def test_a_stream_with_as_many_segments_as_are_allowed_works() -> None:
    cut = Cut({str(n): 5 for n in range(SEGMENTS_PER_STREAM)})
    marks = [mark(1, 1, cut)]
    for seq in range(2, 2 * BLOCK_MARKS + 3):
        cut = cut.join(Cut({str(seq): 10**9 + seq}))
        marks.append(mark(seq, seq, cut))
    chain = chain_of(*marks)
    assert (chain[1], chain[40], chain.last) == (marks[0], marks[39], marks[-1])
    assert chain.passed(marks[50].cut) == marks[50]
    assert chain.ahead(marks[50].cut) == marks[51]


def test_segments_that_appear_one_by_one_cost_room_only_from_then_on() -> None:
    cut, chain = NOTHING, MarkChain(KEY)
    for seq in range(1, 1_001):
        cut = cut.join(Cut({str(seq): 1}))
        chain.append(mark(seq, seq, cut))
    # 1 000 marks whose cuts reach into 500 segments on average, of which 64 change within a block
    assert chain.packed_bytes < 1_000 * (500 * 8 / BLOCK_MARKS + 64 + 32) * 1.5
    assert len(chain[700].cut) == 700


@pytest.mark.parametrize("first_time", [-5_000, 5_000])
def test_the_start_of_a_read_by_time_is_found_in_any_block(first_time: int) -> None:
    marks = [mark(seq, first_time + seq, NOTHING, newest=first_time + seq) for seq in range(1, 3 * BLOCK_MARKS + 2)]
    chain = chain_of(*marks)
    for each in marks:
        assert chain.start(each.time + 1) == each
    assert chain.start(marks[0].time) is None


def test_seqs_count_from_one() -> None:
    with pytest.raises(ValueError, match="counts from 1, not 0"):
        MarkChain(KEY, first_seq=0)
    assert MarkChain(KEY, first_seq=1).first_seq == 1
