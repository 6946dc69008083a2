"""The article on Pravega's watermarks (PDP-33): its figures and its three edge cases."""

from __future__ import annotations

from strandline.config import StreamConfig
from strandline.note import Note
from strandline.segment import NewSegment, SegmentGraph
from strandline.stream import Stream
from strandline.window import ListedMarks, TimeWindow, time_window


def make_stream(segments: int = 3, **config: object) -> Stream:
    settings = {"mark_interval_ms": 0, "max_ahead_ms": None, **config}
    return Stream("s", StreamConfig(**settings), SegmentGraph.equal_shares(segments, 0), now=0)  # type: ignore[arg-type]  # checked when built


def note(stream: Stream, writer: str, time: int, position: dict[str, int]) -> None:
    stream.note(Note(writer=writer, times={"": time}, position=position), 0)


def test_figure_5_a_mark_is_the_least_time_and_the_greatest_offset_in_every_segment() -> None:
    """One note from each writer, none made a mark before all had noted: the figure to the letter."""
    stream = make_stream(min_writers=3)
    note(stream, "w1", 100, {"0": 10, "1": 20})
    note(stream, "w2", 105, {"1": 25, "2": 5})
    note(stream, "w3", 102, {"0": 12, "2": 3})
    (mark,) = stream.last_marks.values()
    assert (mark.time, mark.upper) == (100, 105)
    assert stream.graph.frontier(mark.cut) == {"0": 12, "1": 25, "2": 5}


def test_figure_5_on_purpose_otherwise_a_fast_writers_newest_position_is_not_asked_for() -> None:
    """See docs/decisions/0002: the cut takes each writer's earliest position that will do."""
    stream = make_stream(min_writers=2)
    note(stream, "fast", 100, {"0": 10})
    note(stream, "fast", 200, {"0": 900})
    note(stream, "slow", 90, {"1": 1})
    (mark,) = stream.last_marks.values()
    assert mark.time == 90
    assert stream.graph.frontier(mark.cut) == {"0": 10, "1": 1}  # the figure would say 900


def five_marks() -> tuple[Stream, ListedMarks]:
    """Marks at times 1 to 5, each 10 offsets further in both segments; segment 1 lags by one mark's worth."""
    stream = make_stream(segments=2)
    marks = ListedMarks()
    for time in range(1, 6):
        answer = stream.note(Note(writer="w", times={"": time}, position={"0": time * 10, "1": time * 10}), 0)
        for mark in answer.marks:
            marks.append(mark)
    return stream, marks


#   segment 0   ──┬──┬──┬──┬──┬──     the group has read segment 0 to just before mark 5,
#   marks         1  2  3  4  5       and segment 1 to just after mark 2:
#   segment 1   ──┴──┴──┴──┴──┴──     the window is (2, 5)
def test_figure_6_a_group_between_marks_has_a_window_and_not_a_time() -> None:
    stream, marks = five_marks()
    position = stream.graph.cut({"0": 45, "1": 21})
    assert time_window(marks, position, None) == TimeWindow(2, 5, mark_seq=2)


def test_edge_case_before_the_first_mark_there_is_no_lower_bound() -> None:
    stream, marks = five_marks()
    assert time_window(marks, stream.graph.cut({"0": 9, "1": 50}), None) == TimeWindow(None, 5)
    assert time_window(marks, stream.graph.cut({}), None) == TimeWindow(None, 1)


def test_edge_case_past_the_last_mark_there_is_no_upper_bound_and_the_lower_one_lags() -> None:
    stream, marks = five_marks()
    assert time_window(marks, stream.graph.cut({"0": 70, "1": 99}), None) == TimeWindow(5, None, mark_seq=5)


def test_edge_case_a_position_that_goes_back_takes_the_window_back() -> None:
    stream, marks = five_marks()
    ahead = time_window(marks, stream.graph.cut({"0": 50, "1": 50}), None)
    behind = time_window(marks, stream.graph.cut({"0": 50, "1": 19}), None)
    assert (ahead.lower, behind.lower) == (5, 1)


def test_a_writer_that_is_gone_is_left_out_after_the_timeout_and_named() -> None:
    stream = make_stream(writer_timeout_ms=1_000, min_writers=2)
    note(stream, "gone", 10, {"0": 1})
    note(stream, "here", 50, {"1": 1})
    stream.note(Note(writer="here", times={"": 60}, position={"1": 2}), 900)
    assert stream.last_marks[""].time == 10
    assert stream.next_wake() == 1_000
    (mark,) = stream.advance(1_000)
    assert (mark.time, mark.excluded, mark.complete) == (60, ("gone",), False)


def test_time_goes_on_over_a_split_and_a_merge() -> None:
    stream = make_stream(segments=1)
    note(stream, "w", 1, {"0": 10})
    stream.scale({"0": 12}, [NewSegment("1", 0.0, 0.5), NewSegment("2", 0.5, 1.0)], 0)
    note(stream, "w", 2, {"1": 3})
    stream.scale({"1": 4, "2": 5}, [NewSegment("3", 0.0, 1.0)], 0)
    note(stream, "w", 3, {"3": 1})
    last = stream.last_marks[""]
    assert stream.graph.frontier(last.cut) == {"3": 1}
    assert dict(last.cut.items()) == {"0": 12, "1": 4, "2": 5, "3": 1}
