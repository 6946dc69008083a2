"""Strandline's windows are compared with the log, and the rule of a delay with a plain model of it."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from strandline_demo.comparison import BATCH_MS, assess, compare
from strandline_demo.world import WINDOW_MS, DemoSettings

W, B = WINDOW_MS, BATCH_MS
logs = st.lists(st.tuples(st.integers(0, 10 * W - 1), st.integers(0, 20 * B)), min_size=1, max_size=40)
delays = st.lists(st.integers(0, 3 * W), min_size=1, max_size=3, unique=True).map(sorted)


def dropped(events: list[tuple[int, int]], delay_ms: int) -> Counter[int]:
    """The rows that the rule drops, by the start of their window: batch after batch, each with one watermark."""
    lost: Counter[int] = Counter()
    greatest: int | None = None
    for batch in range(21):
        rows = [time for time, appended in events if appended // B == batch]
        for time in rows:
            if greatest is not None and time // W * W + W <= greatest - delay_ms:
                lost[time // W * W] += 1
        greatest = max([*rows, *([] if greatest is None else [greatest])], default=None)
    return lost


@given(logs, delays)
def test_what_a_delay_loses_is_what_the_rule_drops_batch_after_batch(
    events: list[tuple[int, int]], delays_ms: list[int]
) -> None:
    found = assess(events, delays_ms)
    for place, delay_ms in enumerate(delays_ms):
        by_window = Counter({int(each.whose or 0): each.late[place] for each in found.partitions})
        assert +by_window == dropped(events, delay_ms)
        assert found.total.late[place] == dropped(events, delay_ms).total()


#   batch 0   5 W          batch 1   0
def test_an_event_that_came_with_a_newer_one_in_its_batch_is_kept() -> None:
    assert assess([(0, 1), (5 * W, 0)], [0]).total.late == (0,)
    assert assess([(0, B), (5 * W, 0)], [0]).total.late == (1,)


@given(logs)
def test_windows_with_all_events_have_no_fault_and_the_sums_are_those_of_the_log(events: list[tuple[int, int]]) -> None:
    truth = Counter(time // W * W for time, _ in events)
    compared = compare(DemoSettings(), 0, events, [(start, count, start + W) for start, count in truth.items()])
    assert compared.faults == []
    assert sum(each.events for each in compared.windows) == len(events)
    assert len(compared.chart().splitlines()) == 1 + len(truth)


def test_windows_with_too_few_or_too_many_events_missing_unexpected_or_repeated_ones_are_faults() -> None:
    events = [(1, 0), (2, 0), (W, 0), (2 * W, 0)]
    emitted = [(0, 1, W), (W, 2, 2 * W), (3 * W, 1, 4 * W), (3 * W, 1, 4 * W)]
    assert compare(DemoSettings(), 0, events, emitted).faults == [
        "the window 0 – 2 s has 1 of its 2 events",
        "the window 2 – 4 s has 2 of its 1 events",
        "the window 4 – 6 s has 0 of its 1 events",
        "the window 6 – 8 s has 1 of its 0 events",
        "the window that begins at 6 s came more than once",
    ]
