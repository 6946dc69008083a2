"""What a delay loses: counted in one pass, and the same as counting it for each delay by itself."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reader_client.log_checks.assessment import Arrival, Assessed, Assessment, skewed

DELAYS = (0, 5, 50)


def assess(*events: tuple[str, int] | tuple[str, int, int], **more: Any) -> Assessed:
    """Of events, each a partition and a time, and when it arrived."""
    assessment = Assessment(DELAYS, **{"window_ms": 10, **more})
    for partition, time, *arrived in events:
        assessment.take(Arrival(partition, time, arrived[0] if arrived else None))
    return assessment.result()


def test_an_event_is_late_for_each_delay_that_it_exceeds() -> None:
    # greatest before    –    100   100  100  200
    found = assess(("a", 100), ("a", 94), ("b", 95), ("a", 200), ("b", 100))
    assert (found.total.events, found.total.late, found.total.most_behind_ms) == (5, (3, 2, 1), 100)
    assert (found.oldest, found.newest, found.waits) == (94, 200, ())


def test_partitions_are_counted_each_the_worst_first() -> None:
    found = assess(("a", 100), ("b", 40), ("a", 99), ("b", 41))
    assert [(each.whose, each.events, each.late) for each in found.partitions] == [
        ("b", 2, (2, 2, 2)),
        ("a", 2, (1, 0, 0)),
    ]


def test_partitions_beyond_the_bound_are_counted_together() -> None:
    found = assess(("a", 9), ("b", 8), ("c", 7), ("a", 6), names=1)
    assert [(each.whose, each.events) for each in found.partitions] == [("a", 2), (None, 2)]


def test_by_window_an_event_is_late_only_once_its_window_has_closed() -> None:
    # Windows of 10: the one of 94 ends at 100, and is closed by 100 without a delay; that of 101 ends at 110.
    found = assess(("a", 100), ("a", 94), ("a", 105), ("a", 101), ("a", 95), by_window=True)
    assert found.total.late == (2, 1, 0)


def test_results_wait_for_the_event_that_takes_the_watermark_past_their_window() -> None:
    # The window up to 110, the first one, closes without a delay by 110, which arrives at 113; with 5 by 117, at 120.
    found = assess(("a", 100, 100), ("a", 110, 113), ("a", 117, 120), ("a", 116, 121))
    none, five, fifty = found.waits
    assert none is not None and (none.windows, none.most_ms) == (1, 3)
    assert five is not None and (five.windows, five.median_ms, five.p99_ms, five.most_ms) == (1, 10, 10, 10)
    assert fifty is None


def test_a_wrong_time_far_ahead_costs_no_more_than_ten_thousand_windows() -> None:
    found = assess(("a", 0, 0), ("a", 2**52, 1))
    assert [each and each.windows for each in found.waits] == [10_000] * 3


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-100, 100)), max_size=40), st.booleans())
def test_one_pass_counts_what_each_delay_by_itself_drops(events: list[tuple[str, int]], by_window: bool) -> None:
    found = assess(*events, by_window=by_window)
    for delay, late in zip(DELAYS, found.total.late, strict=True):
        greatest, dropped = None, 0
        for _, time in events:
            if greatest is not None:
                watermark = greatest - delay
                dropped += (time // 10 + 1) * 10 <= watermark if by_window else time < watermark
            greatest = time if greatest is None else max(greatest, time)
        assert late == dropped
    assert sum(each.events for each in found.partitions) == found.total.events


def test_a_replay_reads_one_partition_so_many_times_as_fast() -> None:
    events = [Arrival("ab"[number % 2], number, number) for number in range(8)]
    order = [(each.partition, each.time) for each in skewed(events, events, "b", 4)]
    assert order == [("a", 0), ("b", 1), ("b", 3), ("b", 5), ("b", 7), ("a", 2), ("a", 4), ("a", 6)]


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 9))
def test_a_replay_has_every_event_once_and_each_partition_in_order(partitions: list[str], times: int) -> None:
    events = [Arrival(partition, number, 5) for number, partition in enumerate(partitions)]
    order = list(skewed(events, events, "a", times))
    assert sorted(each.time for each in order) == list(range(len(events)))
    for partition in "abc":
        read = [each.time for each in order if each.partition == partition]
        assert read == sorted(read)
    assert {each.arrived for each in order} <= {None}
