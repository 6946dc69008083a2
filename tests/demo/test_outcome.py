"""A query's windows are compared with the log: what is missing, what is wrong, what was only left open."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from strandline.demo.outcome import QueryOutcome, compare, table
from strandline.demo.picture import draw
from strandline.demo.world import WINDOW_MS, DemoSettings

W = WINDOW_MS


def logged(*times: int) -> list[tuple[int, int]]:
    """Events that were appended in this order, a moment apart."""
    return [(time, 100_000 + number) for number, time in enumerate(times)]


def judged(times: Sequence[int], *windows: tuple[int, int, int], until: int, dropped: int = 0) -> QueryOutcome:
    """What came out of windows (start, count, moment), where the last watermark was `until`."""
    return compare(logged(*times), windows, [(5_000, 0), (6_000, until)], dropped)


#   truth     |2  |3  |1  |
#   emitted   |2  |1  |      the watermark does not reach the end of the last window
def test_a_window_missing_events_is_wrong_only_when_due() -> None:
    outcome = judged([1, 2, W, W + 1, W + 2, 2 * W], (0, 2, W), (W, 1, 2 * W), until=3 * W - 1)
    assert (outcome.wrong, len(outcome.missing), outcome.left_open) == (1, 2, 1)


def test_a_window_that_was_due_and_never_came_is_wrong() -> None:
    outcome = judged([1], until=W)
    assert (outcome.wrong, len(outcome.missing), outcome.left_open) == (1, 1, 0)


def test_a_repeated_unexpected_or_overfull_window_is_wrong_without_loss() -> None:
    for outcome in (
        judged([1, 2], (0, 1, W), (0, 1, W), until=W),
        judged([1], (0, 1, W), (5 * W, 1, 6 * W), until=W),
        judged([1], (0, 2, W), until=W),
    ):
        assert (outcome.wrong, len(outcome.missing)) == (1, 0)


def test_the_missing_events_are_those_that_were_appended_last() -> None:
    events = logged(1, 2, 3, W)
    assert compare(events, [(0, 1, W), (W, 1, W)], [(0, 2 * W)], 0).missing == [events[2], events[1]]


@given(st.lists(st.integers(0, 10 * W - 1), min_size=1), st.data())
def test_missing_and_wrong_are_what_was_taken_away_from_the_truth(times: list[int], data: st.DataObject) -> None:
    truth = Counter(time // W * W for time in times)
    taken = {start: data.draw(st.integers(0, count), label=f"taken from {start}") for start, count in truth.items()}
    windows = [(start, count - taken[start], 0) for start, count in truth.items() if count > taken[start]]
    outcome = judged(times, *windows, until=10 * W)
    assert Counter(time // W * W for time, _ in outcome.missing) == Counter(taken)
    assert (outcome.wrong, outcome.left_open) == (sum(count > 0 for count in taken.values()), 0)


def test_the_table_compares_both_queries_and_shows_missing_windows() -> None:
    exact = judged([1] * 1_200, (0, 1_200, W + 4_849), until=W)
    shown = table(DemoSettings(delay_ms=2_000), exact, judged([1] * 1_200, until=W, dropped=2))
    assert [re.split(r" {3,}", line.strip()) for line in shown.splitlines()[:10]] == [
        ["exact watermark", 'withWatermark "2 seconds"'],
        ["─" * 74],
        ["events written", "1 200", "1 200"],
        ["events missing", "0", "1 200"],
        ["rows dropped", "0", "2"],
        ["windows emitted", "1", "0"],
        ["windows wrong", "0", "1"],
        ["windows left open at the end", "0", "0"],
        ["delay of closing, median", "4.8 s", "none emitted"],
        ["delay of closing, worst", "4.8 s", "none emitted"],
    ]


def test_the_picture_is_a_png_with_or_without_losses(tmp_path: Path) -> None:
    lost, kept = judged([1, 2], (0, 1, W), until=W), judged([1, 2], (0, 2, W), until=W)
    for settings, plain in ((DemoSettings(), lost), (DemoSettings(outage_ms=0), kept)):
        draw(settings, 0, kept, plain, tmp_path / "picture")
        assert (tmp_path / "picture").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
