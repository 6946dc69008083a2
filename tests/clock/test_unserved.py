"""Served time stands still while nobody serves, and otherwise goes as the clock does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.core.served_time import SERVED_GAP_MS, Unserved

MOMENTS = st.lists(st.integers(-SERVED_GAP_MS, 3 * SERVED_GAP_MS))


@given(MOMENTS)
def test_served_time_excludes_each_gap_in_which_nobody_served(waits: list[int]) -> None:
    unserved, now, latest, lost = Unserved(until=0), 0, 0, 0
    for wait in waits:  # several controllers serve: one of them may be late to say so
        now = latest + wait
        if wait > SERVED_GAP_MS:
            assert unserved.is_away(now) and unserved.served(now) == latest - lost
            lost += wait
        unserved.serve(now)
        latest = max(latest, now)
        assert unserved.total_ms == lost and unserved.until == latest
        assert not unserved.is_away(latest) and unserved.served(latest) == latest - lost


def test_a_gap_counts_from_the_last_moment_at_which_anybody_served() -> None:
    #   0        1000            1000 + GAP         9000
    #   ├────────┤ served        ├──────────────────┼── served
    unserved = Unserved(until=1_000)
    last = 1_000 + SERVED_GAP_MS
    assert (unserved.served(last), unserved.is_away(last)) == (last, False)
    assert (unserved.served(last + 1), unserved.is_away(last + 1)) == (1_000, True)
    unserved.serve(9_000)
    assert (unserved.total_ms, unserved.served(9_500)) == (8_000, 1_500)


def test_two_controllers_that_find_one_gap_count_it_once() -> None:
    unserved = Unserved(70, until=1_000)
    unserved.serve(61_000)
    unserved.serve(61_005)
    assert (unserved.total_ms, unserved.served(61_005)) == (60_070, 1_000 - 70 + 5)


def test_a_clock_without_gaps_is_all_served() -> None:
    unserved = Unserved(70)
    unserved.serve(1_000)
    unserved.serve(900_000)
    assert (unserved.total_ms, unserved.served(900_000)) == (70, 899_930)
