"""Pauses between attempts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.client.backoff import backoff_ms

FAILURES = st.integers(1, 10_000)


def test_each_pause_is_twice_the_one_before_up_to_the_bound() -> None:
    pauses = [backoff_ms(failures, first_ms=50, bound_ms=500) for failures in range(1, 7)]
    assert pauses == [50, 100, 200, 400, 500, 500]


@given(FAILURES, st.integers(1, 10**6), st.integers(1, 10**9), st.floats(0, 1))
def test_a_pause_is_at_least_half_and_at_most_the_whole(failures: int, first: int, bound: int, random: float) -> None:
    whole = backoff_ms(failures, first_ms=first, bound_ms=bound)
    assert whole / 2 <= backoff_ms(failures, first_ms=first, bound_ms=bound, random=random) <= whole <= bound


@given(FAILURES)
def test_no_pause_is_shorter_than_the_one_before(failures: int) -> None:
    one, other = (backoff_ms(each, first_ms=7, bound_ms=10**9) for each in (failures, failures + 1))
    assert one <= other
