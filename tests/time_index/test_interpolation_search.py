"""Interpolation search: right for any offsets, quick for regular ones, never much worse than bisection."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.time_index import interpolation_search


def looks_at(offsets: Sequence[int], offset: int) -> list[int]:
    """Which places a search looks at, in turn."""
    seen: list[int] = []

    def offset_at(place: int) -> int:
        seen.append(place)
        return offsets[place]

    assert interpolation_search(offset_at, len(offsets), offset) == bisect_right(offsets, offset)
    return seen


def bisection_looks(offsets: Sequence[int], offset: int) -> int:
    low, high, looks = 0, len(offsets), 0
    while low < high:
        middle = (low + high) // 2
        looks += 1
        if offsets[middle] <= offset:
            low = middle + 1
        else:
            high = middle
    return looks


def mean_looks(offsets: Sequence[int], random: Random) -> tuple[float, float]:
    """On average over look-ups anywhere in the segment: by interpolation, and by bisection."""
    wanted = [random.randint(offsets[0], offsets[-1]) for _ in range(500)]
    ours = sum(len(looks_at(offsets, offset)) for offset in wanted)
    theirs = sum(bisection_looks(offsets, offset) for offset in wanted)
    return ours / len(wanted), theirs / len(wanted)


def test_searching_8_5_of_10_megabytes_guesses_85_percent() -> None:
    offsets = range(0, 10_000_001, 10_000)  # 1001 entries
    last, first, guess, *rest = looks_at(offsets, 8_500_000)
    assert (last, first, guess) == (1000, 0, 850)
    assert rest == [851]  # which shows that the guess was the one


@pytest.mark.parametrize("count", [1_000, 1_000_000])
def test_offsets_that_grow_evenly_take_four_looks_however_many_they_are(count: int) -> None:
    ours, theirs = mean_looks(range(7, count * 1_000, 1_000), Random(1))
    assert ours <= 4 < theirs / 2


def test_random_offsets_take_under_half_the_steps_of_bisection() -> None:
    random = Random(2)
    ours, theirs = mean_looks(list(accumulate(random.randrange(2_000) for _ in range(100_000))), random)
    assert ours < theirs / 2


def test_a_reader_at_the_tail_takes_one_look() -> None:
    assert looks_at(range(0, 1_000_000, 10), 999_995) == [99_999]


def test_offsets_before_the_first_entry_are_found_at_once() -> None:
    assert looks_at([5, 6], 4) == [1, 0]
    assert looks_at([5], 4) == [0]
    assert looks_at([], 4) == []


HARD = {
    "doubling": [2**n for n in range(1_000)],
    "doubling slowly": [2 ** (n // 200) for n in range(20_000)],
    "one leap in the middle": [n if n < 10_000 else n + 10**15 for n in range(20_000)],
    "one leap at the end": [*range(20_000), 10**15],
    "at rest, then busy": [0] * 10_000 + list(range(0, 10**7, 1_000)),
    "stairs": [n // 500 * 10**6 for n in range(20_000)],
    "squares": [n * n for n in range(20_000)],
}


@pytest.mark.parametrize("kind", HARD)
def test_offsets_made_to_mislead_take_less_than_twice_the_looks_of_bisection(kind: str) -> None:
    offsets, random = HARD[kind], Random(3)
    worst = max(bisection_looks(offsets, offset) for offset in (offsets[0] - 1, offsets[-1]))
    for _ in range(300):
        offset = random.choice(offsets) + random.randint(-1, 1)
        assert len(looks_at(offsets, offset)) < 2 * worst


@given(st.lists(st.integers(0, 2**53 - 1), max_size=300).map(sorted), st.integers(-1, 2**53), st.data())
def test_any_offset_is_found_as_bisection_finds_it_within_the_bound(
    offsets: list[int], anywhere: int, data: st.DataObject
) -> None:
    near = data.draw(st.sampled_from(offsets)) if offsets else 0
    for offset in (anywhere, near - 1, near, near + 1):
        assert len(looks_at(offsets, offset)) <= 1.5 * len(offsets).bit_length() + 4
