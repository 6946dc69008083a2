"""Served time stands still while nobody can be heard, and otherwise goes as the clock does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.core.served_time import COMMIT_HANGS_MS, Unserved

SPANS = st.integers(0, 3 * COMMIT_HANGS_MS)
#   quick: a commit that ends in time    slow: one that hangs, then succeeds    away: some fail, then one succeeds
#   gap: the process did not run         pass: time passes, nothing happens
HISTORIES = st.lists(st.tuples(st.sampled_from(["pass", "quick", "slow", "away", "gap", "gap while away"]), SPANS))


@given(HISTORIES)
def test_served_time_excludes_all_time_in_which_nobody_was_heard(history: list[tuple[str, int]]) -> None:
    unserved, now, lost = Unserved(), 0, 0
    for what, span in history:
        before = unserved.total_ms
        match what:
            case "pass":
                now += span
            case "quick":
                span %= COMMIT_HANGS_MS
                unserved.begin(now)
                now += span
                unserved.succeed(now)
            case "slow":
                span += COMMIT_HANGS_MS
                unserved.begin(now)
                now += span
                unserved.succeed(now)
                lost += span
            case "gap":
                now += span
                unserved.skip(span)
                lost += span
            case _:
                served = unserved.served(now)
                for _ in range(3):
                    unserved.begin(now)
                    unserved.fail()
                    now += span
                    if what == "gap while away":
                        unserved.skip(span)
                    assert unserved.is_away(now) and unserved.served(now) == served
                unserved.succeed(now)
                lost += 3 * span
        assert unserved.served(now) == now - lost
        assert not unserved.is_away(now) and unserved.served_until(now) == now
        assert unserved.total_ms >= before


def test_a_commit_that_takes_too_long_counts_from_its_start() -> None:
    #   0        1000            1000 + HANGS       9000
    #   ├────────┼─ commit ──────┼──────────────────┼── succeeds
    unserved = Unserved()
    unserved.begin(1_000)
    just_before = 1_000 + COMMIT_HANGS_MS - 1
    assert (unserved.served(just_before), unserved.is_away(just_before)) == (just_before, False)
    assert (unserved.served(just_before + 1), unserved.served_until(just_before + 1)) == (1_000, 1_000)
    assert unserved.served(9_000) == 1_000
    unserved.succeed(9_000)
    assert (unserved.total_ms, unserved.served(9_500)) == (8_000, 1_500)


def test_a_stopped_process_during_a_commit_counts_once() -> None:
    unserved = Unserved()
    unserved.begin(1_000)
    unserved.skip(9_000)  # stopped at 1 000, noticed at 10 000
    unserved.succeed(10_005)
    assert (unserved.total_ms, unserved.served(10_005)) == (9_000, 1_005)


def test_served_time_goes_on_after_a_crash_from_stored_values() -> None:
    unserved = Unserved(70)
    unserved.begin(1_000)
    unserved.fail()
    unserved.begin(5_000)
    until, total = unserved.served_until(5_000), unserved.total_ms
    assert (until, total) == (1_000, 70)
    after = Unserved(total + 60_000 - until)  # another controller begins at 60 000
    assert after.served(60_000) == unserved.served(5_000)
