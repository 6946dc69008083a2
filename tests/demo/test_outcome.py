"""A query's windows are compared with the log: what is missing, what is wrong, what was only left open."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from strandline_demo.outcome import QueryOutcome, compare
from strandline_demo.picture import draw
from strandline_demo.world import WINDOW_MS, DemoSettings

W = WINDOW_MS


def logged(*times: int) -> list[tuple[int, int]]:
    """Events that were appended in this order, a moment apart."""
    return [(time, 100_000 + number) for number, time in enumerate(times)]


def judged(times: Sequence[int], *windows: tuple[int, int, int], until: int, dropped: int = 0) -> QueryOutcome:
    """What came out of windows (start, count, moment), where the last watermark was `until`."""
    return compare(logged(*times), windows, [(5_000, 0), (6_000, until)], dropped)


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


def test_the_picture_is_a_png_with_or_without_losses(tmp_path: Path) -> None:
    lost, kept = judged([1, 2], (0, 1, W), until=W), judged([1, 2], (0, 2, W), until=W)
    for settings, plain in ((DemoSettings(), lost), (DemoSettings(outage_ms=0), kept)):
        draw(settings, 0, kept, plain, tmp_path / "picture")
        assert (tmp_path / "picture").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
