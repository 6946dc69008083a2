"""What a mark says: its time, its cut, how far it may be ahead of that, and when it is made."""

import pytest

from strandline.core.cut import NOTHING
from strandline.core.mark import Mark
from strandline.core.segment import NewSegment
from strandline.errors import InvalidScale
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


def test_a_sealed_segment_noted_to_its_end_loosens_no_upper() -> None:
    book = Book(min_writers=2)
    book.note("a", 10, {"0": 4})
    book.note("b", 10, {"1": 1})
    book.call("scale", {"0": 4}, [NewSegment("2", 0.0, 0.25), NewSegment("3", 0.25, 0.5)])
    book.note("a", 30, {"2": 1})
    book.note("a", 900, {"2": 9})
    book.note("b", 20, {"3": 1})
    assert (book.last.time, book.last.upper, book.cut()) == (20, 30, {"0": 4, "1": 1, "2": 1, "3": 1})


def test_a_stream_whose_clock_was_set_back_announces_its_mark_at_once() -> None:
    book = Book(mark_interval_ms=1_000, writer_timeout_ms=None)
    book.note("a", 10)
    book.after(400).note("a", 20)
    book.stream.clock = book.now = 500  # an operator sets the store's clock back
    assert book.stream.next_wake() == 500
    book.call("advance")
    assert (book.times(), book.stream.next_wake()) == ([10, 20], None)


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


def test_sealing_closes_writers_and_makes_the_last_mark() -> None:
    book = Book(min_writers=5)
    book.note("a", 100, {"0": 3})
    book.note("b", 140, {"1": 4})
    book.note("c", 90)
    book.call("close", "c", None)
    book.call("seal", {})
    assert (book.times(), book.cut(), book.last.excluded) == ([140], {"0": 3, "1": 4}, ())
    assert (book.state("a"), book.state("b"), book.state("c")) == ("closed", "closed", "closed")


def test_a_stream_does_not_end_below_its_head() -> None:
    book = Book()
    book.note("a", 100, {"0": 3})
    book.stream.truncate({"0": 8}, book.now)
    with pytest.raises(InvalidScale, match="the final offset 5 is below 8, which was noted or truncated"):
        book.call("seal", {"0": 5})
    book.call("seal", {})
    end = book.stream.graph.end
    assert end is not None
    assert dict(end.items()) == {"0": 8}


@pytest.mark.parametrize(("seq", "time", "upper"), [(0, 1, 1), (1, 2, 1), (1, -(2**53), 0), (1, 0, 2**53)])
def test_a_mark_cannot_be_built_wrong(seq: int, time: int, upper: int) -> None:
    with pytest.raises(ValueError, match="a mark"):
        Mark(seq=seq, key="", time=time, upper=upper, cut=NOTHING, newest=None, excluded=(), created_at=0)
