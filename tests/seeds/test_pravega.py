"""Pravega's watermarking: its known faults, as far as they concern how marks come about, do not happen here.

Numbers are those of its issues; "P" are the two steps of its aggregation that were run again.
"""

import pytest

from strandline.cut import Cut
from strandline.errors import InvalidName, InvalidNote, PositionWentBack, TimeTooFarAhead, UnknownSegment
from strandline.note import Note
from strandline.segment import NewSegment, SegmentGraph
from strandline.window import ListedMarks, time_window
from tests.aggregate.book import Book


def test_6510_a_segment_that_never_got_data_keeps_no_reader_from_its_lower_bound() -> None:
    book = Book()
    book.note("a", 100, {"0": 5, "1": 0})
    window = time_window(ListedMarks(book.marks), Cut({"0": 5}), None)
    assert window.lower == 100


def test_4195_the_timeout_is_not_ignored() -> None:
    book = Book(writer_timeout_ms=1_000)
    book.note("a", 10)
    book.note("b", 20)
    book.after(999).note("b", 30)
    assert book.times() == [10]
    assert book.stream.next_wake() == book.now + 1
    book.after(1).call("advance")
    assert book.times() == [10, 30]


def test_4225_no_mark_is_made_twice_and_none_is_left_out() -> None:
    book = Book()
    for time in range(10, 60, 10):
        book.note("a", time)
        book.note("a", time)
    assert [(mark.seq, mark.time) for mark in book.marks] == [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)]


def test_4291_a_commit_without_a_time_is_no_note_and_brings_no_mark() -> None:
    with pytest.raises(InvalidNote):
        Note(writer="a", times={}, position={"0": 1})


def test_4228_a_slash_in_a_writers_name_is_refused_before_anything_is_stored() -> None:
    with pytest.raises(InvalidName):
        Note(writer="a/b", times={"": 1}, position={})


def test_a_note_without_a_segment_in_common_with_the_last_one_is_judged_like_any_other() -> None:
    book = Book()
    book.note("a", 10, {"0": 5})
    book.note("a", 20, {"1": 3})
    with pytest.raises(PositionWentBack):
        book.note("a", 30, {"0": 4})


def test_a_position_that_makes_no_sense_is_refused_when_it_is_noted_and_stops_no_later_mark() -> None:
    book = Book()
    with pytest.raises(UnknownSegment):
        book.note("a", 10, {"77": 1})
    assert book.note("a", 10).marks


def test_a_time_in_the_wrong_unit_is_refused_and_the_refusal_names_the_setting() -> None:
    book = Book(max_ahead_ms=86_400_000)
    with pytest.raises(TimeTooFarAhead, match="max_ahead_ms"):
        book.note("a", 1_700_000_000_000_000)


def test_a_writer_far_ahead_drops_nobody_when_it_is_alone() -> None:
    book = Book()
    book.note("far", 10**15)
    answer = book.note("a", 100)
    assert (answer.late, answer.floor) == (True, 10**15)
    assert book.holder() == "a"


def test_the_clock_of_a_silent_writer_starts_at_its_last_word_and_not_when_it_falls_behind() -> None:
    book = Book(writer_timeout_ms=1_000)
    book.note("ahead", 500)
    book.note("b", 10)
    book.after(1_000).note("b", 600)
    assert (book.state("ahead"), book.last.time, book.last.excluded) == ("timed_out", 600, ("ahead",))


def test_a_returning_writer_does_not_bring_marks_to_a_stop_unnoticed() -> None:
    book = Book(writer_timeout_ms=1_000)
    book.note("a", 10)
    book.note("b", 10)
    book.after(600).note("b", 20)
    book.after(600).note("b", 30)
    answer = book.note("a", 15)
    assert (answer.late, answer.floor, book.holder()) == (True, 30, "a")
    book.after(600).note("b", 40)
    book.after(400).call("advance")
    assert book.last.time == 40


def scaled_both() -> Book:
    """PREV at {0: 200, 1: 300}; then 0 and 1 are sealed there, or later, and 2 and 3 follow, each with half."""
    book = Book(min_writers=2)
    book.note("a", 1, {"0": 200})
    book.note("b", 1, {"1": 300})
    create = [NewSegment("2", 0.0, 0.5), NewSegment("3", 0.5, 1.0)]
    book.call("scale", {"0": 250, "1": 400}, create)
    return book


def test_p_a_gap_is_filled_from_what_was_there_before_and_not_pushed_to_the_successor() -> None:
    """Pravega's first pass would give {2: 0, 3: 10}, which asks for all of segment 0."""
    book = scaled_both()
    book.note("a", 5, {"3": 10})
    book.note("b", 5, {"1": 400})
    assert (book.last.time, book.cut()) == (5, {"0": 200, "1": 400, "3": 10})
    assert book.stream.graph.frontier(book.last.cut) == {"0": 200, "3": 10}


def test_p_who_names_a_successor_has_passed_all_that_it_follows() -> None:
    """The PDP's {1: 7, 2: 9} with 2 = [0, .6) over both: {2: 9}; segment 3 is at 0 and so left out."""
    graph = SegmentGraph.equal_shares(2, 0)
    graph.scale({"0": 50, "1": 70}, [NewSegment("2", 0.0, 0.6), NewSegment("3", 0.6, 1.0)], 1)
    cut = graph.cut({"1": 7, "2": 9})
    assert dict(cut.items()) == {"0": 50, "1": 70, "2": 9}
    assert graph.frontier(cut) == {"2": 9}
