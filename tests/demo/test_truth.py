"""A query's windows are compared with the log: what is missing, what is wrong, what was only left open."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from strandline_demo.truth import (
    Emission,
    LoggedEvent,
    QueryRun,
    count_windows,
    dropped_events,
    judge,
    missing_by_window,
)

WIDTH = 10


def logged(*times: int) -> list[LoggedEvent]:
    """Events that were appended in this order, a moment apart."""
    return [LoggedEvent(time, 1_000 + number) for number, time in enumerate(times)]


def run(*windows: tuple[int, int, int], watermark: int, rows_dropped: int = 0) -> QueryRun:
    """A run that emitted windows (start, count, moment)."""
    emissions = tuple(Emission(start, count, at) for start, count, at in windows)
    return QueryRun(emissions=emissions, watermark_ms=watermark, rows_dropped=rows_dropped)


def test_windows_are_counted_by_their_start() -> None:
    assert count_windows([0, 9, 10, 25, -1], WIDTH) == {0: 2, 10: 1, 20: 1, -10: 1}


#   truth     |2  |3  |1  |
#   emitted   |2  |1  |      watermark at 25: the last window is open
def test_a_window_with_too_few_events_is_wrong_and_one_that_was_not_due_is_not() -> None:
    outcome = judge(logged(1, 2, 11, 12, 13, 21), run((0, 2, 14), (10, 1, 26), watermark=25, rows_dropped=1), WIDTH)
    assert outcome.events == 6
    assert outcome.emitted == 2
    assert outcome.wrong == 1
    assert outcome.missing == 2
    assert outcome.open_at_end == 1
    assert outcome.rows_dropped == 1


def test_a_window_that_was_due_and_never_came_is_wrong() -> None:
    outcome = judge(logged(1, 11), run((10, 1, 30), watermark=20), WIDTH)
    assert (outcome.wrong, outcome.missing, outcome.open_at_end) == (1, 1, 0)


def test_a_window_that_ends_at_the_last_watermark_was_due() -> None:
    assert judge(logged(1), run(watermark=10), WIDTH).wrong == 1
    assert judge(logged(1), run(watermark=9), WIDTH).wrong == 0


def test_a_window_that_came_twice_or_from_nowhere_or_with_too_many_is_wrong() -> None:
    assert judge(logged(1, 2), run((0, 1, 11), (0, 1, 12), watermark=10), WIDTH).wrong == 1
    assert judge(logged(1), run((0, 1, 11), (50, 1, 61), watermark=60), WIDTH).wrong == 1
    many = judge(logged(1), run((0, 2, 11), watermark=10), WIDTH)
    assert (many.wrong, many.missing) == (1, 0)


def test_the_delay_of_closing_runs_from_the_end_of_the_window() -> None:
    outcome = judge(logged(1, 11, 21), run((0, 1, 12), (10, 1, 27), (20, 1, 33), watermark=30), WIDTH)
    assert (outcome.median_delay_ms, outcome.worst_delay_ms) == (3, 7)
    assert judge(logged(1), run(watermark=0), WIDTH).median_delay_ms is None


def test_the_missing_events_are_those_that_were_appended_last() -> None:
    events = logged(1, 2, 3, 11)
    lost = dropped_events(events, run((0, 1, 15), (10, 1, 22), watermark=20), WIDTH)
    assert lost == [events[2], events[1]]


@given(st.lists(st.integers(0, 99), min_size=1), st.data())
def test_missing_and_wrong_are_what_was_taken_away_from_the_truth(times: Sequence[int], data: st.DataObject) -> None:
    truth = count_windows(times, WIDTH)
    taken = {start: data.draw(st.integers(0, count), label=f"taken from {start}") for start, count in truth.items()}
    windows = [(start, count - taken[start], 200) for start, count in truth.items() if count > taken[start]]
    outcome = judge(logged(*times), run(*windows, watermark=100), WIDTH)
    assert outcome.missing == sum(taken.values())
    assert outcome.wrong == sum(count > 0 for count in taken.values())
    assert outcome.open_at_end == 0
    assert len(dropped_events(logged(*times), run(*windows, watermark=100), WIDTH)) == outcome.missing


def test_counts_of_a_window_emitted_in_two_parts_are_added() -> None:
    assert missing_by_window({0: 3}, run((0, 1, 11), (0, 1, 12), watermark=10), WIDTH) == {0: 1}
