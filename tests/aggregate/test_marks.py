"""What a mark says: its time, its cut, how far it may be ahead of that, and when it is made."""

import pytest

from strandline.core.cut import NOTHING
from strandline.core.mark import Mark
from strandline.core.note import Note
from strandline.core.segment import NewSegment
from strandline.errors import Fenced, UnknownWriter
from tests.aggregate.book import Book


def test_the_cut_takes_each_writers_earliest_note_that_is_late_enough() -> None:
    """A fast writer's newest position is not asked for.

    a     10@{0: 1}    20@{0: 2}    30@{0: 3}
    b     10@{}                           15@{1: 1}
    mark  10: {0: 1}                      15: {0: 2, 1: 1}
    """
    book = Book(min_writers=2)
    book.note("a", 10, {"0": 1})
    book.note("b", 10)
    book.note("a", 20, {"0": 2})
    book.note("a", 30, {"0": 3})
    book.note("b", 15, {"1": 1})
    assert [(mark.time, dict(mark.cut.items())) for mark in book.marks] == [(10, {"0": 1}), (15, {"0": 2, "1": 1})]


def test_a_writer_that_reopens_contributes_its_new_note() -> None:
    book = Book(min_writers=2)
    book.note("a", 50, {"0": 5})
    book.note("b", 10)
    book.call("close", "a", None)
    book.note("a", 20, {"0": 9})
    book.note("b", 15)
    assert (book.last.time, book.cut()) == (15, {"0": 9})


def test_a_writer_without_a_later_note_contributes_its_last_position() -> None:
    book = Book()
    book.note("a", 10, {"0": 1}, key="order")
    book.note("a", 99, {"0": 7}, key="ship")
    book.call("idle", "a", None)
    book.note("b", 50, {"1": 1}, key="order")
    assert (book.last.key, book.last.time, book.cut()) == ("order", 50, {"0": 7, "1": 1})


def test_upper_counts_an_earlier_lifes_notes_below_the_cut() -> None:
    book = Book(min_writers=2)
    book.note("a", 50, {"0": 5})
    book.note("a", 60, {"0": 6})
    book.note("b", 10)
    assert (book.last.upper, book.cut()) == (50, {"0": 5})
    book.call("close", "a", None)
    book.note("a", 20, {"0": 1})
    book.note("b", 15)
    assert (book.last.time, book.last.upper, book.cut()) == (15, 60, {"0": 6})


def test_a_sealed_segment_noted_to_its_end_loosens_no_upper() -> None:
    book = Book(min_writers=2)
    book.note("a", 10, {"0": 4})
    book.note("b", 10, {"1": 1})
    book.call("scale", {"0": 4}, [NewSegment("2", 0.0, 0.25), NewSegment("3", 0.25, 0.5)])
    book.note("a", 30, {"2": 1})
    book.note("a", 900, {"2": 9})
    book.note("b", 20, {"3": 1})
    assert (book.last.time, book.last.upper, book.cut()) == (20, 30, {"0": 4, "1": 1, "2": 1, "3": 1})


def test_marks_keep_their_interval_and_the_stream_announces_the_next() -> None:
    book = Book(mark_interval_ms=1_000)
    book.note("a", 10)
    book.after(400).note("a", 20)
    assert (book.times(), book.stream.next_wake()) == ([10], 2_000)
    book.after(600).call("advance")
    assert (book.times(), book.stream.next_wake()) == ([10, 20], 602_000 - 600)


def test_a_stream_whose_clock_was_set_back_announces_its_mark_at_once() -> None:
    book = Book(mark_interval_ms=1_000, writer_timeout_ms=None)
    book.note("a", 10)
    book.after(400).note("a", 20)
    book.stream.clock = book.now = 500  # an operator sets the store's clock back
    assert book.stream.next_wake() == 500
    book.call("advance")
    assert (book.times(), book.stream.next_wake()) == ([10, 20], None)


def test_without_an_interval_marks_come_on_demand_only() -> None:
    book = Book(mark_interval_ms=None, writer_timeout_ms=None)
    book.note("a", 10)
    book.after(5_000).note("a", 20)
    book.call("advance")
    assert (book.marks, book.stream.next_wake()) == ([], None)
    assert book.call("evaluate", "").time == 20
    assert book.call("evaluate", "") is None


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_a_thinned_history_gives_looser_cuts_and_never_wrong_ones(bound: int) -> None:
    book, whole = Book(min_writers=2, history_notes=bound), Book(min_writers=2)
    for each in (book, whole):
        for time in range(1, 9):
            each.note("fast", time * 10, {"0": time})
        for time in range(5, 80, 10):
            each.note("slow", time)
    assert book.times() == whole.times()
    for thinned, kept in zip(book.marks, whole.marks, strict=True):
        assert kept.cut.le(thinned.cut)
        assert thinned.upper >= kept.upper
    assert len(book.stream.writers["fast"].key_states[""].history) <= bound


def test_a_note_without_a_time_moves_the_position_alone() -> None:
    """The writer counts as before, and marks cover what it wrote, also once it is idle."""
    book = Book()
    epoch = book.stream.register("a", None, book.now).epoch
    book.note("b", 100, {"1": 1})
    answer = book.stream.note(Note(writer="a", times={}, position={"0": 2}, epoch=epoch), book.now)
    assert (answer.late, answer.floors, answer.marks) == (False, {}, [])
    [mark] = book.stream.idle("a", epoch, book.now)
    assert (mark.time, mark.complete, dict(mark.cut.items())) == (100, True, {"0": 2, "1": 1})


@pytest.mark.parametrize(("epoch", "error"), [(None, UnknownWriter), (7, Fenced)])
def test_a_note_without_a_time_is_for_a_writer_that_is_there(epoch: int | None, error: type[Exception]) -> None:
    book = Book()
    with pytest.raises(error):
        book.stream.note(Note(writer="a", times={}, position={"0": 2}, epoch=epoch), book.now)
    assert not book.stream.writers


def test_the_head_moves_to_what_is_gone_and_never_back() -> None:
    book = Book()
    assert dict(book.stream.truncate({"0": 5}, book.now).items()) == {"0": 5}
    assert book.stream.drain().stream
    assert dict(book.stream.truncate({"0": 3, "1": 2}, book.now).items()) == {"0": 5, "1": 2}
    assert book.stream.drain().stream
    book.after(5).stream.truncate({"0": 4}, book.now)
    assert not book.stream.drain()
    assert book.stream.clock == book.now
    assert dict(book.stream.head.items()) == {"0": 5, "1": 2}


@pytest.mark.parametrize(("seq", "time", "upper"), [(0, 1, 1), (1, 2, 1), (1, -(2**53), 0), (1, 0, 2**53)])
def test_a_mark_cannot_be_built_wrong(seq: int, time: int, upper: int) -> None:
    with pytest.raises(ValueError, match="a mark"):
        Mark(seq=seq, key="", time=time, upper=upper, cut=NOTHING, newest=None, excluded=(), created_at=0)
