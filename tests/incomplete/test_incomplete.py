"""Which watermark a reader may have when marks leave writers out, and what begins and ceases."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.incomplete import (
    UNNAMED,
    Began,
    Ceased,
    Completeness,
    Interval,
    OnIncomplete,
    intervals,
    names,
    passed_on,
)
from strandline.core.time_units import text_of
from strandline.errors import WritersLeftOut

Marks = list[tuple[int, tuple[str, ...]]]

LEFT_OUT = st.lists(st.sampled_from("abc"), unique=True, max_size=2).map(lambda each: tuple(sorted(each)))
MARKS = st.lists(LEFT_OUT, max_size=12).map(lambda each: [(10 * n, writers) for n, writers in enumerate(each, 1)])
POLICIES = st.sampled_from(OnIncomplete)


def passed(marks: Marks, policy: OnIncomplete) -> Completeness:
    reader = Completeness("clicks", policy)
    for time, excluded in marks:
        reader.pass_mark(time, excluded)
    return reader


def told(marks: Marks, policy: OnIncomplete) -> int | str | None:
    try:
        return passed(marks, policy).watermark
    except WritersLeftOut as error:
        return f"fails: {error.writers}"


#   marks     10    20    30 -b    40 -b    50
def test_the_example_of_the_module() -> None:
    marks: Marks = [(10, ()), (20, ()), (30, ("b",)), (40, ("b",)), (50, ())]
    rows = {policy: [told(marks[:n], policy) for n in range(6)] for policy in OnIncomplete}
    assert rows == {
        "go_on": [None, 10, 20, 30, 40, 50],
        "wait": [None, 10, 20, 20, 20, 50],
        "fail": [None, 10, 20, "fails: b", "fails: b", 50],
    }


@given(MARKS)
def test_the_one_that_waits_stands_at_the_last_complete_mark(marks: Marks) -> None:
    complete = [time for time, excluded in marks if not excluded]
    assert told(marks, OnIncomplete.WAIT) == (complete[-1] if complete else None)


@given(MARKS, POLICIES, st.data())
def test_marks_between_the_last_complete_one_and_the_last_one_do_not_matter(
    marks: Marks, policy: OnIncomplete, data: st.DataObject
) -> None:
    complete = [n for n, (_, excluded) in enumerate(marks) if not excluded]
    needed = {*complete[-1:], len(marks) - 1}
    some = data.draw(st.sets(st.integers(0, max(0, len(marks) - 1))))
    assert told([mark for n, mark in enumerate(marks) if n in needed | some], policy) == told(marks, policy)


@given(MARKS, POLICIES)
def test_the_watermark_never_goes_back_and_no_policy_has_more_than_go_on(marks: Marks, policy: OnIncomplete) -> None:
    found = [told(marks[:n], policy) for n in range(len(marks) + 1)]
    times = [each for each in found if isinstance(each, int)]
    assert times == sorted(times)
    every = [told(marks[:n], OnIncomplete.GO_ON) for n in range(len(marks) + 1)]
    for one, most in zip(found, every, strict=True):
        assert not isinstance(one, int) or (isinstance(most, int) and one <= most)


@given(MARKS, POLICIES)
def test_what_began_and_has_not_ceased_is_what_the_last_mark_leaves_out(marks: Marks, policy: OnIncomplete) -> None:
    reader, out = Completeness("clicks", policy), set[str]()
    before: int | None = None
    for time, excluded in marks:
        for change in reader.pass_mark(time, excluded):
            assert change.time == time and change.writers
            match change:
                case Began(writers=writers, complete=complete):
                    assert not out & set(writers) and complete == before
                    out |= set(writers)
                case Ceased(writers=writers):
                    assert out >= set(writers)
                    out -= set(writers)
            assert all(name in "\n".join(reader.lines([change])) for name in change.writers)
        assert out == set(excluded) == set(reader.left_out)
        before = time


@given(MARKS, st.integers(0, 200))
def test_a_mark_that_was_passed_before_changes_nothing(marks: Marks, again: int) -> None:
    reader = passed(marks, OnIncomplete.WAIT)
    before = reader.watermark, reader.left_out
    if marks and again <= marks[-1][0]:
        assert reader.pass_mark(again, ("z",)) == []
        assert (reader.watermark, reader.left_out) == before


def test_an_incomplete_mark_that_names_nobody_counts_as_incomplete() -> None:
    reader = Completeness("clicks", OnIncomplete.WAIT)
    reader.pass_mark(10, complete=True)
    (began,) = reader.pass_mark(20, complete=False)
    assert began == Began(writers=(UNNAMED,), time=20, complete=10)
    assert reader.watermark == 10


def test_the_lines_say_who_since_when_and_what_may_be_missing() -> None:
    base = 1_772_366_400_000
    reader = Completeness("clicks")
    reader.pass_mark(base)
    assert reader.lines(reader.pass_mark(base + 5_000, ("b", "c"))) == [
        "stream 'clicks': marks leave out b, c from 2026-03-01T12:00:05.000Z on: windows that close now may lack what "
        "they wrote at 2026-03-01T12:00:00.000Z or later"
    ]
    assert reader.lines(reader.pass_mark(base + 6_000)) == [
        "stream 'clicks': marks leave out b, c no longer, from 2026-03-01T12:00:06.000Z on; windows that closed "
        "between 2026-03-01T12:00:00.000Z and then may lack their events"
    ]
    waiting, first = Completeness("clicks", OnIncomplete.WAIT), Completeness("clicks")
    (line,) = waiting.lines(waiting.pass_mark(base, ("b",)))
    assert line.endswith("the watermark waits for them at the last complete mark (wait)")
    (line,) = waiting.lines(waiting.pass_mark(base + 1))
    assert line.endswith("no longer, from 2026-03-01T12:00:00.001Z on")
    stops = Completeness("clicks", OnIncomplete.FAIL)
    (line,) = stops.lines(stops.pass_mark(base, ("b",)))
    assert line.endswith("the reader stops at the last complete mark (fail)")
    (line,) = first.lines(first.pass_mark(base, ("b",)))
    assert line.endswith("may lack what they wrote from the beginning")
    (line,) = first.lines(first.pass_mark(base + 1))
    assert "between the beginning and then" in line


def test_many_names_are_cut_and_a_time_beyond_the_calendar_is_a_number() -> None:
    assert names("abcdefg") == "a, b, c, d, e and 2 others"
    assert text_of(2**53 - 1) == "9007199254740991"


def test_the_error_names_the_writers_and_the_last_complete_mark() -> None:
    reader = passed([(10, ()), (20, ("b",))], OnIncomplete.FAIL)
    with pytest.raises(WritersLeftOut, match="mark 20 of stream 'clicks' leaves out b, and the last complete is 10"):
        _ = reader.watermark
    with pytest.raises(WritersLeftOut, match="none before it is complete") as found:
        _ = passed([(20, ("b",))], OnIncomplete.FAIL).watermark
    assert str(pickle.loads(pickle.dumps(found.value))) == str(found.value)


@given(MARKS)
def test_a_writer_that_is_left_out_is_there_up_to_the_last_mark_that_has_it(marks: Marks) -> None:
    reader = passed(marks, OnIncomplete.GO_ON)
    last, excluded = marks[-1] if marks else (None, ())
    assert reader.last == last
    assert reader.there == {
        writer: max((time for time, without in marks if writer not in without), default=None) for writer in excluded
    }


def lacking(found: list[Interval], end: int) -> set[str]:
    """Whom a window that ends then lacks."""
    return {
        writer
        for each in found
        if (each.since is None or each.since < end) and (each.until is None or end <= each.until)
        for writer in each.writers
    }


#   marks     10    20    30 -b    40 -b    50    60 -c
def test_an_interval_goes_from_the_last_mark_with_a_writer_to_the_last_one_without_it() -> None:
    marks: Marks = [(10, ()), (20, ()), (30, ("b",)), (40, ("b",)), (50, ()), (60, ("c",))]
    b, c = Interval(since=20, until=40, writers=("b",)), Interval(since=50, until=None, writers=("c",))
    assert intervals(marks) == [b, c]
    assert intervals(marks, ended=True)[1] == Interval(since=50, until=60, writers=("c",))
    assert [end for end in range(1, 61) if lacking([b, c], end)] == [*range(21, 41), *range(51, 61)]


@given(MARKS, st.data())
def test_a_window_lacks_whom_the_mark_that_closed_it_leaves_out_unless_an_earlier_mark_had_all_of_it(
    marks: Marks, data: st.DataObject
) -> None:
    seen = sorted(data.draw(st.sets(st.sampled_from(range(len(marks))))) if marks else ())  # by a query's batches
    found, last = list[Interval](), None
    for n in seen:
        there = passed(marks[: n + 1], OnIncomplete.GO_ON).there
        found = passed_on(found, last, there)
        assert passed_on(found, last, there) == found  # a batch that runs again
        last = marks[n][0]
    for end in range(1, last or 1):
        closing = next(n for n in seen if marks[n][0] >= end)
        there = passed(marks[: closing + 1], OnIncomplete.GO_ON).there
        without = {writer for writer, time in there.items() if time is None or time < end}
        assert lacking(found, end) == without <= lacking(intervals(marks), end)
    assert len(seen) < len(marks) or found == intervals(marks)
