"""Who counts, who is left out, who is named for it, and what each is told."""

import pytest

from strandline.core.silence import SILENT_PER_CALL
from strandline.errors import InvalidName, TooMany
from strandline.limits import KEYS_PER_STREAM
from tests.aggregate.book import Book


def test_very_many_writers_that_fall_silent_time_out_a_number_at_each_call() -> None:
    #   600 at 10 │ a 20 │ silence of the 600
    book = Book(writer_timeout_ms=1_000)
    for number in range(600):
        book.note(f"w{number:03}", 10)
    book.after(999).note("a", 20)
    book.after(1)
    lost = []
    for _ in range(3):
        book.call("advance")
        lost.append(sum(writer.lost for writer in book.stream.writers.values()))
    assert lost == [SILENT_PER_CALL, 2 * SILENT_PER_CALL, 600]
    assert book.times() == [10, 20]
    assert len(book.last.excluded) == 600


def test_who_holds_time_back_is_told_and_until_when() -> None:
    book = Book(writer_timeout_ms=1_000, min_writers=2)
    book.note("b", 10)
    book.note("a", 10)
    assert (now_held := book.stream.held_by("", book.now)) is not None and now_held.last_heard_ms_ago == 0
    book.after(300)
    held = book.stream.held_by("", book.now)
    assert held is not None
    assert (held.writer, held.state, held.time) == ("a", "active", 10)
    assert (held.last_heard_ms_ago, held.released_in_ms) == (300, 700)
    book.register("z", "")
    book.note("b", 50)
    book.note("a", 40)
    assert book.holder() == "z"


def test_a_writer_noting_on_while_another_holds_takes_constant_room() -> None:
    book = Book()
    book.register("fast")
    book.register("slow")
    book.note("slow", 1)
    for time in range(2, 500):
        book.note("fast", time)
    assert book.times() == [1]
    aggregate = book.stream._aggregates[""]
    assert sum(map(len, aggregate._counted._parts)) == 2
    assert sum(len(span.names) for span in aggregate._contributions._spans) < 100
    assert len(book.stream._silence.deadlines._heap) == 2
    book.note("slow", 1_000)
    assert book.times() == [1, 499]


def test_a_stream_has_so_many_time_keys_and_no_more() -> None:
    book = Book()
    for number in range(KEYS_PER_STREAM):
        book.note("a", 1, key=f"k{number}")
    with pytest.raises(TooMany, match=f"time keys in a stream.*{KEYS_PER_STREAM}"):
        book.note("a", 1, key="one-more")
    with pytest.raises(TooMany):
        book.register("b", "one-more")
    assert book.note("a", 2, key="k0").marks
    assert len(book.stream.keys) == KEYS_PER_STREAM


def test_a_registration_that_is_repeated_under_its_name_is_the_same_one() -> None:
    book = Book(writer_timeout_ms=1_000)
    book.note("b", 100)
    first = book.register("a", registration="once")
    book.now += 900
    assert book.register("a", registration="once") == first
    book.now += 900
    assert book.state("a") == "joined"  # it was heard
    book.note("a", 150, epoch=first.epoch)
    assert book.register("a", registration="once").epoch == first.epoch
    assert book.state("a") == "active"  # what it noted since stays


def test_a_registration_with_another_name_or_key_is_new() -> None:
    book = Book()
    names = ("once", "twice", None, None, "once")
    assert [book.register("a", registration=name).epoch for name in names] == [1, 2, 3, 4, 5]
    assert book.register("a", "another", registration="once").epoch == 6
    book.call("close", "a", 6)
    assert book.register("a", registration="once").epoch == 7
    with pytest.raises(InvalidName):
        book.register("a", registration="no name")


class TestReadersThatWentOn:
    """Reader groups left an idle stream out and went on to 200, and in another key to 50."""

    @pytest.fixture
    def book(self) -> Book:
        book = Book()
        book.note("a", 100, {"0": 10})
        book.call("idle", "a", None)
        assert book.stream.let_pass({"": 200, "ship": 50})
        return book

    def test_nothing_is_new_that_is_not_later(self, book: Book) -> None:
        assert not book.stream.let_pass({"": 200, "ship": -1})
        assert book.stream.let_pass({"": 201}) and book.stream.passed == {"": 201, "ship": 50}

    def test_a_writer_that_registers_is_told_and_counts_with_its_own_floor(self, book: Book) -> None:
        assert book.register("a", registration="once").floors == {"": 200}
        assert book.register("a", registration="once").floors == {"": 200}  # a repeated call
        assert book.register("new", "ship").floors == {"ship": 50}
        book.note("a", 150, {"0": 20})
        assert book.times() == [100, 150]  # for everybody else nothing is late

    def test_its_notes_are_late_until_it_has_noted_that_time(self, book: Book) -> None:
        told = [book.note("a", time, {"0": time}) for time in (150, 200, 250)]
        assert [(each.late, each.floor) for each in told] == [(True, 200), (False, 200), (False, None)]

    def test_a_new_writer_is_told_as_well(self, book: Book) -> None:
        assert book.note("b", 90).floor == 200
        assert book.note("b", 90).floor == 200  # a repeated note

    def test_its_own_streams_later_time_is_told_where_that_is_further(self, book: Book) -> None:
        book.note("a", 300, {"0": 20})
        assert book.note("b", 90).floor == 300
