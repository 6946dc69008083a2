"""The end of a stream."""

import pytest

from strandline.core.note import Note
from strandline.errors import InvalidScale, StreamSealed
from tests.aggregate.book import Book


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


def test_sealing_again_is_harmless_and_everything_else_is_refused() -> None:
    book = Book()
    book.note("a", 100, {"0": 3})
    assert book.call("seal", {}) == []  # the last mark has that time
    assert book.call("seal", {"0": 3}) == []
    said = Note(writer="a", times={"": 200}, position={})
    for call in (
        lambda: book.stream.note(said, book.now),
        lambda: book.stream.register("b", None, book.now),
        lambda: book.stream.idle("a", None, book.now),
        lambda: book.stream.exclude("a", book.now),
        lambda: book.stream.include("a", book.now),
        lambda: book.stream.scale({"0": 3}, [], book.now),
        lambda: book.stream.seal({"0": 4}, book.now),
    ):
        with pytest.raises((StreamSealed, InvalidScale)):
            call()
    assert (book.stream.next_wake(), book.holder()) == (None, None)


def test_the_last_marks_come_in_the_order_of_their_keys() -> None:
    book = Book(min_writers=5)
    for key in ("ship", "order"):
        book.note("a", 10, key=key)
    assert [mark.key for mark in book.call("seal", {})] == ["order", "ship"]
