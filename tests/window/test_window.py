"""The TimeWindow, case by case: the founding article's figure and edge cases, and what froze elsewhere."""

from __future__ import annotations

import pytest

from strandline.core.chain import MarkChain
from strandline.core.cut import Cut
from strandline.core.mark import Mark
from strandline.core.segment import SegmentGraph
from strandline.core.window import TimeWindow, time_window, window_between


def mark(seq: int, time: int, upper: int, cut: Cut, excluded: tuple[str, ...] = ()) -> Mark:
    return Mark(seq=seq, key="", time=time, upper=upper, cut=cut, newest=None, excluded=excluded, created_at=0)


# The article's figure 6. Two readers, one a segment; T1 … T6 are marks.
#
#     segment 0   ──T1──────T2──────T3──────T4──●───T5──────T6──►     reader at 45
#     segment 1   ──T1──────T2──●───T3──────T4──────T5──────T6──►     reader at 25
#
FIGURE_6 = [mark(n, n * 100, n * 100 + 50, Cut({"0": n * 10, "1": n * 10})) for n in range(1, 7)]


def test_readers_spread_over_marks_get_the_window_that_holds_them_all() -> None:
    window = time_window(MarkChain(FIGURE_6), Cut({"0": 45, "1": 25}), None)
    assert window == TimeWindow(lower=200, upper=550, complete=True, end_of_stream=False, mark_seq=2)


def test_before_the_first_mark_there_is_no_lower_bound() -> None:
    window = time_window(MarkChain(FIGURE_6), Cut({"0": 10, "1": 9}), None)
    assert window == TimeWindow(lower=None, upper=150, mark_seq=None)
    assert time_window(MarkChain(FIGURE_6), Cut({}), None) == window


def test_a_window_goes_back_with_a_position_that_goes_back() -> None:
    marks = MarkChain(FIGURE_6)
    assert time_window(marks, Cut({"0": 45, "1": 45}), None) == TimeWindow(400, 550, mark_seq=4)
    # The reader of segment 1 died; what it processed reaches to 15 only.
    assert time_window(marks, Cut({"0": 45, "1": 15}), None) == TimeWindow(100, 550, mark_seq=1)


def test_of_marks_with_one_cut_the_latest_counts_as_passed() -> None:
    still = Cut({"0": 10})
    marks = MarkChain([mark(1, 100, 100, still), mark(2, 200, 200, still), mark(3, 300, 300, still)])
    assert time_window(marks, still, None) == TimeWindow(300, None, mark_seq=3)
    assert time_window(marks, Cut({"0": 9}), None) == TimeWindow(None, 100)


def test_a_segment_that_never_got_data_does_not_hold_the_lower_bound() -> None:
    # pravega/pravega #6510: there, "no data seen" and "read to its end" were one number.
    graph = SegmentGraph.equal_shares(3, created_at=0)
    marks = MarkChain(
        [mark(1, 100, 100, graph.cut({"0": 10, "1": 10})), mark(2, 200, 200, graph.cut({"0": 20, "1": 20, "2": 0}))]
    )
    assert time_window(marks, graph.cut({"0": 10, "1": 10}), None) == TimeWindow(100, 200, mark_seq=1)
    assert time_window(marks, graph.cut({"0": 20, "1": 20, "2": 0}), None) == TimeWindow(200, None, mark_seq=2)


def test_a_sealed_stream_read_to_its_end_says_so_and_not_before() -> None:
    end = Cut({"0": 60, "1": 61})
    marks = MarkChain([*FIGURE_6, mark(7, 700, 700, end)])
    assert time_window(marks, Cut({"0": 60, "1": 60}), end) == TimeWindow(600, 700, mark_seq=6)
    assert time_window(marks, end, end) == TimeWindow(700, None, end_of_stream=True, mark_seq=7)
    assert not time_window(marks, end, None).end_of_stream


@pytest.mark.parametrize(
    ("at", "window"),
    [
        (75, TimeWindow(lower=900, upper=None, complete=False, mark_seq=6)),  # as far as what is at rest, and beyond
        (65, TimeWindow(lower=600, upper=900, mark_seq=6)),
        (55, TimeWindow(lower=500, upper=650, mark_seq=5)),  # a stored mark is ahead, and nearer
        (None, TimeWindow(lower=600, upper=None, mark_seq=6)),  # in 0 below it, in 1 above
    ],
)
def test_idle_advance_follows_the_last_mark_without_a_seq(at: int | None, window: TimeWindow) -> None:
    position = Cut({"0": 62, "1": 90}) if at is None else Cut({"0": at, "1": at})
    marks = MarkChain(FIGURE_6)
    resting = mark(7, 900, 900, Cut({"0": 70, "1": 70}), excluded=("lost",))
    assert window_between(marks.sides(position), position, None, resting) == window


@pytest.mark.parametrize("wrong", [(200, 100), (None, 100, False), (None, 100, True, False, 3)])
def test_a_window_that_contradicts_itself_cannot_be_built(wrong: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="lower"):
        TimeWindow(*wrong)  # type: ignore[arg-type]  # the parameters mix ints, bools and null
