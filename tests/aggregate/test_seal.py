"""The end of a stream."""

import pytest

from strandline.core.note import Note
from strandline.errors import InvalidScale, StreamSealed
from tests.aggregate.book import START_MS, Book


def test_sealing_closes_writers_and_makes_the_last_mark() -> None:
    book = Book(min_writers=5)
    book.note("a", 100, {"0": 3})
    book.note("b", 140, {"1": 4})
    book.note("c", 90)
    book.call("close", "c", None)
    book.call("seal", {})
    assert (book.times(), book.cut(), book.last.excluded) == ([140], {"0": 3, "1": 4}, ())
    assert (book.state("a"), book.state("b"), book.state("c")) == ("closed", "closed", "closed")


def test_the_last_mark_never_rises_to_an_excluded_writers_time() -> None:
    book = Book(min_writers=5)
    book.note("a", 100, {"0": 3})
    book.note("b", 20, {"1": 1})
    book.note("c", 10**12)
    book.call("exclude", "b")
    book.call("exclude", "c")
    book.call("seal", {})
    assert (book.times(), book.last.excluded) == ([100], ("b",))


def test_a_segment_that_is_not_named_ends_at_its_highest_noted_offset() -> None:
    book = Book()
    book.note("a", 100, {"0": 3})
    book.call("seal", {"1": 9})
    end = book.stream.graph.end
    assert end is not None
    assert dict(end.items()) == {"0": 3, "1": 9}


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


def test_an_end_below_what_was_noted_is_refused_and_changes_nothing() -> None:
    book = Book()
    book.note("a", 100, {"0": 3})
    with pytest.raises(InvalidScale):
        book.call("seal", {"0": 2})
    assert book.note("a", 110).marks


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


def test_changed_settings_make_no_mark_after_the_end_of_an_ingestion_stream() -> None:
    book = Book(time_domain="ingestion")
    book.note("a", START_MS, {"0": 3})
    book.call("seal", {})
    book.after(100_000).call("configure", {"idle_lag_ms": 5})
    assert book.times() == [START_MS]


def test_the_last_marks_come_in_the_order_of_their_keys() -> None:
    book = Book(min_writers=5)
    for key in ("ship", "order"):
        book.note("a", 10, key=key)
    assert [mark.key for mark in book.call("seal", {})] == ["order", "ship"]
