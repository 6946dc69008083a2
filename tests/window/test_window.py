"""The TimeWindow, case by case: the founding article's figure and edge cases, and what froze elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.core.chain import MarkChain
from strandline.core.cut import NOTHING, Cut
from strandline.core.mark import Mark
from strandline.core.segment import NewSegment, SegmentGraph
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
    assert time_window(MarkChain(FIGURE_6), NOTHING, None) == window


def test_past_the_last_mark_there_is_no_upper_bound() -> None:
    position = Cut({"0": 75, "1": 90})
    assert time_window(MarkChain(FIGURE_6), position, None) == TimeWindow(600, None, mark_seq=6)
    further = mark(7, 700, 720, Cut({"0": 70, "1": 80}))
    assert time_window(MarkChain([*FIGURE_6, further]), position, None) == TimeWindow(700, None, mark_seq=7)


def test_a_window_goes_back_with_a_position_that_goes_back() -> None:
    marks = MarkChain(FIGURE_6)
    assert time_window(marks, Cut({"0": 45, "1": 45}), None) == TimeWindow(400, 550, mark_seq=4)
    # The reader of segment 1 died; what it processed reaches to 15 only.
    assert time_window(marks, Cut({"0": 45, "1": 15}), None) == TimeWindow(100, 550, mark_seq=1)


def test_without_marks_neither_bound_is_guessed() -> None:
    assert time_window(MarkChain([]), Cut({"0": 45}), None) == TimeWindow(None, None)


def test_standing_exactly_at_a_mark_is_having_passed_it() -> None:
    assert time_window(MarkChain(FIGURE_6), FIGURE_6[2].cut, None) == TimeWindow(300, 450, mark_seq=3)


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


def merged() -> SegmentGraph:
    graph = SegmentGraph.equal_shares(2, created_at=0)
    graph.scale({"0": 300, "1": 400}, [NewSegment("2", 0.0, 1.0)], created_at=5)
    return graph


def test_a_merges_successor_counts_only_after_both_predecessors_are_read() -> None:
    graph = merged()
    before = mark(1, 100, 110, graph.cut({"0": 300, "1": 50}))
    on_successor = mark(2, 200, 210, graph.cut({"2": 1}))
    marks = MarkChain([before, on_successor])
    assert time_window(marks, graph.cut({"0": 300}), None) == TimeWindow(None, 110)
    assert time_window(marks, graph.cut({"0": 300, "1": 399}), None) == TimeWindow(100, 210, mark_seq=1)
    assert time_window(marks, graph.cut({"0": 300, "1": 400}), None) == TimeWindow(100, 210, mark_seq=1)
    assert time_window(marks, graph.cut({"2": 1}), None) == TimeWindow(200, None, mark_seq=2)


def test_naming_a_successor_says_that_what_it_follows_was_read() -> None:
    graph = merged()
    marks = MarkChain([mark(1, 100, 110, graph.cut({"0": 300, "1": 400}))])
    assert time_window(marks, graph.cut({"2": 0}), None) == TimeWindow(100, None, mark_seq=1)


def test_a_position_in_an_unknown_segment_has_no_upper_bound() -> None:
    assert time_window(MarkChain(FIGURE_6), Cut({"0": 25, "1": 25, "9": 1}), None) == TimeWindow(200, None, mark_seq=2)


def test_complete_is_that_of_the_mark_that_gave_lower() -> None:
    marks = MarkChain([mark(1, 100, 100, Cut({"0": 10}), excluded=("w2",)), mark(2, 200, 200, Cut({"0": 20}))])
    assert time_window(marks, Cut({"0": 5}), None).complete
    assert not time_window(marks, Cut({"0": 10}), None).complete
    assert time_window(marks, Cut({"0": 20}), None).complete


def test_the_head_of_a_truncated_stream_has_a_lower_bound() -> None:
    chain = MarkChain(FIGURE_6)
    head = Cut({"0": 35, "1": 35})
    chain.prune_before_seq(3)
    assert time_window(chain, head, None) == TimeWindow(300, 450, mark_seq=3)


def test_a_sealed_stream_read_to_its_end_says_so_and_not_before() -> None:
    end = Cut({"0": 60, "1": 61})
    marks = MarkChain([*FIGURE_6, mark(7, 700, 700, end)])
    assert time_window(marks, Cut({"0": 60, "1": 60}), end) == TimeWindow(600, 700, mark_seq=6)
    assert time_window(marks, end, end) == TimeWindow(700, None, end_of_stream=True, mark_seq=7)
    assert not time_window(marks, end, None).end_of_stream


def test_a_sealed_stream_in_which_nothing_was_written_is_at_its_end() -> None:
    assert time_window(MarkChain([]), NOTHING, NOTHING) == TimeWindow(None, None, end_of_stream=True)


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


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (mark(8, 700, 700, Cut({"0": 60, "1": 60})), "the next is 7"),
        (mark(7, 600, 700, Cut({"0": 60, "1": 60})), "must be above 600"),
        (mark(7, 700, 700, Cut({"0": 70, "1": 59})), "goes back"),
        (replace(mark(7, 700, 700, Cut({"0": 70, "1": 60})), key="other"), "for key 'other'"),
    ],
)
def test_listed_marks_refuse_a_mark_that_does_not_follow(wrong: Mark, says: str) -> None:
    marks = MarkChain(FIGURE_6)
    with pytest.raises(ValueError, match=says):
        marks.append(wrong)
    assert list(marks) == FIGURE_6


def test_listed_marks_are_found_by_seq_and_go_from_the_front() -> None:
    marks = MarkChain(FIGURE_6)
    assert (marks[1], marks[6], len(marks)) == (FIGURE_6[0], FIGURE_6[5], 6)
    for seq in (0, 7):
        with pytest.raises(IndexError, match=f"no mark {seq} here, but 1 to 6"):
            marks[seq]
    assert [marks.prune_before_seq(seq) for seq in (1, 4, 2)] == [0, 3, 0]
    assert (marks.first_seq, marks.last_seq, marks[4]) == (4, 6, FIGURE_6[3])
    assert (marks.prune_before_seq(99), list(marks)) == (2, FIGURE_6[5:])  # the newest stays
    assert (MarkChain().prune_before_seq(5), MarkChain().first_seq, MarkChain().last_seq) == (0, 1, 0)
