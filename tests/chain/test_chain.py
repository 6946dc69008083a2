"""A MarkChain is the list of its marks, only smaller: what it answers, a plain list answers too."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.chain import NO_SIDES, PROBES, MarkChain, Sides, sides_among
from strandline.core.cut import NOTHING, Cut
from strandline.core.mark import Mark
from strandline.limits import OFFSET_BOUND, SEGMENTS_PER_STREAM

KEY = "order_time"
# How much a segment may grow from mark to mark.
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


def stored(marks: list[Mark]) -> Callable[[Sequence[int]], Iterable[Mark]]:
    """Reads marks by seq, as a store does."""
    return lambda seqs: [marks[seq - marks[0].seq] for seq in seqs]


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
        upper = ahead[0].upper if ahead else None
        last = passed[-1] if passed else None
        assert chain.sides(position) == (
            NO_SIDES._replace(upper=upper) if last is None else Sides(last.time, last.complete, last.seq, upper)
        )
        if marks:
            assert sides_among(stored(marks), marks[0].seq, marks[-1].seq, position) == chain.sides(position)
            found = random.choice(marks)
            segment = str(random.randrange(12))
            assert chain.offset_at(found.seq, segment) == found.cut.offset(segment)
            assert chain.time_at(found.seq) == found.time


@given(st.integers(0, 2**32), st.sampled_from((0, 1, 2, 63, 64, 65, 130, 300)), st.integers(1, 10**9))
def test_a_chain_answers_as_a_list_of_its_marks_would(seed: int, count: int, first_seq: int) -> None:
    random = Random(seed)
    marks = list(growing_marks(random, count, first_seq))
    chain = MarkChain(marks)
    check_same(chain, marks, random)


@given(st.integers(0, 2**32))
def test_a_pruned_chain_that_loses_segments_equals_a_plain_list(seed: int) -> None:
    random = Random(seed)
    chain, marks, dropped = MarkChain(), list[Mark](), set[str]()
    for each in growing_marks(random, 300):
        kept = Cut({name: offset for name, offset in each.cut.items() if name not in dropped})
        chain.append(replace(each, cut=kept))
        marks.append(replace(each, cut=kept))
        match random.randrange(40):
            case 0:
                head = some_position(random, marks)
                passed = chain.sides(head).seq
                if passed is not None:
                    chain.prune_before_seq(passed)
                    marks = [found for found in marks if found.seq >= passed]
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
    return MarkChain(marks)


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


def test_a_missing_mark_is_an_index_error_naming_the_range() -> None:
    chain = chain_of(*(mark(seq, seq, NOTHING) for seq in range(1, 6)))
    chain.prune_before_seq(3)
    for seq in (2, 6):
        with pytest.raises(IndexError, match=f"no mark {seq} .* 3 to 5"):
            chain[seq]
    with pytest.raises(IndexError, match="none"):
        MarkChain()[1]


def test_the_greatest_offsets_and_times_come_back_unchanged() -> None:
    top = OFFSET_BOUND - 1
    marks = [mark(seq, -top + seq, Cut({"0": 1, "1": top}) if seq > 9 else NOTHING) for seq in range(1, 70)]
    marks.append(replace(mark(70, 0, Cut({"0": top, "1": top})), upper=top, newest=-top, created_at=top))
    assert list(chain_of(*marks)) == marks


def test_a_stream_with_as_many_segments_as_are_allowed_works() -> None:
    cut = Cut({str(n): 5 for n in range(SEGMENTS_PER_STREAM)})
    marks = [mark(1, 1, cut)]
    for seq in range(2, 67):
        cut = cut.join(Cut({str(seq): 10**9 + seq}))
        marks.append(mark(seq, seq, cut))
    chain = chain_of(*marks)
    assert (chain[1], chain[40], chain.last) == (marks[0], marks[39], marks[-1])
    assert chain.sides(marks[50].cut) == Sides(marks[50].time, True, marks[50].seq, marks[51].upper)


def test_a_store_of_a_million_marks_is_asked_five_times() -> None:
    asked: list[Sequence[int]] = []

    def read(seqs: Sequence[int]) -> Iterator[Mark]:
        asked.append(seqs)
        return (mark(seq, seq, Cut({"0": seq, "1": 2 * seq})) for seq in seqs)

    for seq in (1, 2, 77_777, 500_000, 999_999, 1_000_000):
        asked.clear()
        sides = sides_among(read, 1, 1_000_000, Cut({"0": seq, "1": 2 * seq}), upper=7)
        assert (sides.seq, sides.upper) == (seq, seq + 1 + (seq + 1) % 7 if seq < 1_000_000 else 7)
        assert len(asked) <= 5 and all(len(seqs) <= 2 * PROBES for seqs in asked)


def test_a_mark_that_is_ahead_in_memory_bounds_what_the_store_has() -> None:
    marks = [mark(seq, seq, Cut({"0": seq})) for seq in range(1, 30)]

    def read(seqs: Sequence[int]) -> list[Mark]:
        return [marks[seq - 1] for seq in seqs]

    assert sides_among(read, 1, 29, Cut({"0": 99}), upper=500) == (29, True, 29, 500)
    assert sides_among(read, 5, 4, Cut({"0": 99}), upper=500) == (None, True, None, 500)
    assert sides_among(read, 5, 29, NOTHING) == (None, True, None, marks[4].upper)


def test_a_million_marks_of_16_segments_would_take_less_than_250_mebibytes() -> None:
    count = 20_000
    tracemalloc.start()
    chain = MarkChain(
        mark(seq, seq * 1_000, Cut({str(n): seq * 900 + n for n in range(16)}), newest=seq * 1_000 + 500)
        for seq in range(1, count + 1)
    )
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(chain) == count
    assert taken / count * 1_000_000 < 250 * 2**20
