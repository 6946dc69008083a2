"""Writers that are forgotten: who, with which mark, and that no later mark, answer or refusal is another for it."""

from typing import Any

import pytest

from strandline.core.forgetting import FORGOTTEN_PER_CALL, GONE_KEPT_MS
from strandline.core.note import Note
from strandline.errors import TooMany
from strandline.limits import KEYS_PER_STREAM, STANDINGS_PER_STREAM
from tests.aggregate.book import Book


def known(book: Book) -> set[str]:
    """Who is known in the end: the next call of any kind forgets whom it may."""
    book.call("truncate", {})
    return set(book.stream.writers)


def quick(**settings: Any) -> Book:
    """A stream in which whoever is gone is not kept for a while."""
    return Book(gone_kept_ms=0, **settings)


@pytest.mark.parametrize("restarts", [False, True])
def test_very_many_writers_are_forgotten_a_bounded_number_a_call(restarts: bool) -> None:
    book = quick()
    book.note("stays", 1)
    for number in range(3 * FORGOTTEN_PER_CALL):
        book.note(f"pod-{number}", 5, {"0": 1})
        book.call("close", f"pod-{number}", None)
    assert book.times() == [1]
    book.note("stays", 10)
    counts = [len(book.stream.writers)]
    for _ in range(3):
        if restarts:
            book.restart()
        book.call("truncate", {})
        counts.append(len(book.stream.writers))
    assert counts == [1 + n * FORGOTTEN_PER_CALL for n in (3, 2, 1, 0)]


def test_newest_includes_forgotten_writers_and_is_unknown_where_theirs_was() -> None:
    book = quick(min_writers=2)
    book.note("a", 10, {"0": 1}, newest=77)
    book.note("b", 10, {"1": 1})  # whose contribution has no newest
    book.call("close", "a", None)
    book.note("b", 20, {"1": 2})
    assert known(book) == {"b"} and book.last.newest is None
    book.restart()
    book.note("b", 30, {"1": 3}, newest=35)
    assert book.last.newest == 77
    book.note("c", 30, {"1": 3})
    book.call("close", "c", None)
    book.note("b", 40, {"1": 4}, newest=45)
    book.restart()
    book.note("b", 50, {"1": 5}, newest=55)
    assert known(book) == {"b"} and book.last.newest is None


def test_what_a_forgotten_writer_was_is_told_to_the_store_once() -> None:
    book = quick()
    book.stream.note(Note(writer="a", times={"": 10}, position={"0": 1}), book.now)
    book.stream.close("a", None, book.now)
    book.stream.drain()
    book.stream.note(Note(writer="b", times={"": 20}, position={}), book.now)
    changes = book.stream.drain()
    assert (changes.writers, changes.forgotten, changes.stream) == ({"b"}, {"a"}, True)
    assert not book.stream.drain()


def rooms(book: Book) -> dict[str, int]:
    """How much of everything that is kept by name a stream has."""
    stream = book.stream
    found = {"deadlines": len(stream._silence.deadlines._heap), "lapsing": len(stream._forgetting.lapsing._heap)}
    found["segments"] = sum(stream._sharing._counts.values())
    for aggregate in stream._aggregates.values():
        for name in aggregate.__dict__:
            value = getattr(aggregate, name)
            if name == "passing":
                found[name] = len(value._heap)
            elif isinstance(value, dict | set | list) and name != "_writers":
                found[name] = len(value)
    return found | {"writers": len(stream.writers)}


@pytest.mark.parametrize("how", ["closes", "is lost"])
def test_names_that_come_and_go_leave_nothing_behind(how: str) -> None:
    book = Book(writer_timeout_ms=1_000, forget_after_ms=0)
    most: dict[str, int] = {}
    for number in range(3_000):
        book.after(300).register(f"pod-{number}")
        book.note(f"pod-{number}", 1 + number, {"0": 1 + number, "1": number})
        if how == "closes":
            book.call("close", f"pod-{number}", None)
        book.marks.clear()
        if number == 1_500:
            most = rooms(book)
    assert {name: (count, most[name]) for name, count in rooms(book).items() if count > most[name] + 200} == {}
    assert len(known(book)) <= 2 + GONE_KEPT_MS // 300


# -- the limit -------------------------------------------------------------------------------------------------------


def test_a_writer_beyond_max_writers_is_refused_and_changes_nothing() -> None:
    book = quick(max_writers=2)
    book.note("a", 10)
    book.register("b")
    for call in (lambda: book.register("c"), lambda: book.note("c", 10)):
        with pytest.raises(TooMany, match=r"3 writers in a stream.*limit of 2.*max_writers"):
            call()
    assert known(book) == {"a", "b"}
    assert book.note("a", 11).marks == []
    assert book.register("a").epoch == 2


def test_writers_and_keys_together_are_bounded_for_a_restart_reads_them_all() -> None:
    book, keys = quick(), [f"k{number}" for number in range(KEYS_PER_STREAM)]
    for number in range(STANDINGS_PER_STREAM // KEYS_PER_STREAM):
        book.stream.register(f"w{number}", keys, book.now)
    room = STANDINGS_PER_STREAM % KEYS_PER_STREAM
    for call in (lambda: book.register("more", *keys[: room + 1]), lambda: book.note("more", 10, key="not-a-key-yet")):
        with pytest.raises(TooMany):
            call()
    assert book.register("more", *keys[:room]).epoch == number + 2
    with pytest.raises(TooMany, match=f"each counted once for every time key .* the limit of {STANDINGS_PER_STREAM}"):
        book.note("more", 10, key=keys[-1])
    assert book.note("more", 10, key=keys[0]).late is False
