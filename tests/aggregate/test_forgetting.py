"""Writers that are forgotten: who, with which mark, and that no later mark, answer or refusal is another for it."""

from typing import Any

import pytest

from strandline.core.forgetting import FORGOTTEN_PER_CALL, GONE_KEPT_MS
from strandline.core.note import Note
from strandline.errors import Fenced, InvalidScale, TooMany
from strandline.limits import KEYS_PER_STREAM, STANDINGS_PER_STREAM
from tests.aggregate.book import Book


def known(book: Book) -> set[str]:
    """Who is known in the end: the next call of any kind forgets whom it may."""
    book.call("truncate", {})
    return set(book.stream.writers)


def quick(**settings: Any) -> Book:
    """A stream in which whoever is gone is not kept for a while."""
    return Book(gone_kept_ms=0, **settings)


def test_a_closed_writer_is_forgotten_once_a_mark_passes_it() -> None:
    """
    a     10@{0: 1}   closes
    b     10@{1: 1}            20@{1: 2}
    mark  10                   20: a's time is below, and its position is below the cut
    """
    book = quick(min_writers=2)
    book.note("a", 10, {"0": 1})
    book.note("b", 10, {"1": 1})
    book.call("close", "a", None)
    assert book.state("a") == "closed"
    book.note("b", 20, {"1": 2})
    assert (known(book), book.cut()) == ({"b"}, {"0": 1, "1": 2})


def test_a_forgotten_writers_kept_notes_of_earlier_lives_are_in_no_mark() -> None:
    book = quick(min_writers=2)
    for time in (500, 900):
        book.note("a", time, {"0": time})
    book.note("b", 10, {"1": 1})
    for time in (20, 30):
        book.call("close", "a", None)
        book.note("c", 25)
        book.note("b", time, {"1": 2})
        if time == 20:
            book.note("a", 20, {"0": 900})
    assert (known(book), book.last.time, book.last.upper) == ({"b", "c"}, 25, 900)
    book.note("b", 510, {"1": 3})
    book.note("b", 600, {"1": 4})
    book.note("c", 505)
    assert (book.last.time, book.cut()) == (505, {"0": 900, "1": 3})


def test_a_closed_writer_stays_while_its_last_position_is_in_no_cut() -> None:
    book = quick(min_writers=2)
    book.note("a", 20, {"0": 1})
    book.note("a", 20, {"0": 9})  # of equal times the first is what marks are made of
    book.call("close", "a", None)
    book.note("b", 20, {"1": 1})
    assert (known(book), book.cut()) == ({"a", "b"}, {"0": 1, "1": 1})
    book.note("b", 21, {"1": 2})
    assert (known(book), book.cut()) == ({"b"}, {"0": 9, "1": 2})


def test_a_closed_writer_stays_until_every_keys_marks_passed_it() -> None:
    book = quick(min_writers=2)
    book.note("a", 10, {"0": 1}, key="order")
    book.note("a", 30, {"0": 2}, key="ship")
    for key in ("order", "ship"):
        book.note("b", 10, {"1": 1}, key=key)
    book.call("close", "a", None)
    for time in (20, 40):
        book.note("b", time, {"1": time}, key="order")
        assert known(book) == {"a", "b"}
    book.note("b", 40, {"1": 40}, key="ship")
    assert known(book) == {"b"}


def test_a_lost_unnamed_writer_stays_known_so_its_epoch_holds() -> None:
    book = Book(writer_timeout_ms=0, forget_after_ms=0)
    epoch = book.register("a").epoch
    for time in range(1, 50):
        book.after(GONE_KEPT_MS - 1).note("a", time, {"0": time}, epoch=epoch)
        book.note("b", time, {"1": time})
    assert known(book) == {"a", "b"}
    book.after(GONE_KEPT_MS).note("b", 100, {"1": 100})
    assert known(book) == {"b"}
    with pytest.raises(Fenced):
        book.note("a", 101, {"0": 101}, epoch=epoch)


def test_a_closed_writer_stays_known_so_repeats_wake_nobody() -> None:
    book = Book(writer_timeout_ms=None)
    book.note("a", 10, {"0": 1})
    book.note("b", 10, {"1": 1})
    book.call("close", "a", None)
    book.note("b", 20, {"1": 2})
    book.after(GONE_KEPT_MS - 1).note("a", 10, {"0": 1})
    assert book.state("a") == "closed"
    book.after(GONE_KEPT_MS).note("b", 30, {"1": 3})
    assert (known(book), book.times()) == ({"b"}, [10, 20, 30])


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


def test_what_min_writers_has_counted_stays_counted_also_after_a_restart() -> None:
    book = quick(min_writers=2)
    book.note("a", 10, {"0": 1})
    book.note("b", 10, {"1": 1})
    book.call("close", "a", None)
    book.note("b", 20, {"1": 2})
    assert known(book) == {"b"}
    book.restart()
    book.note("b", 30, {"1": 3})
    assert (book.last.time, book.holder()) == (30, "b")
    book.call("configure", {"min_writers": 3})
    book.note("b", 40, {"1": 4})
    assert (book.last.time, book.holder()) == (30, "min_writers")


@pytest.mark.parametrize("restarts", [False, True])
def test_an_old_epoch_fences_a_name_that_was_forgotten(restarts: bool) -> None:
    book = forgotten("a", restarts=restarts)
    with pytest.raises(Fenced):
        book.note("a", 30, {"0": 2}, epoch=1)
    assert book.register("a").epoch == 2


def forgotten(*names: str, restarts: bool = False) -> Book:
    """A stream that has forgotten these writers. Each registered, noted 10 and closed; another one notes on."""
    book = quick()
    epochs = {name: book.register(name).epoch for name in names}
    for name in names:
        book.note(name, 10, {"0": 1}, epoch=epochs[name])
        book.call("close", name, epochs[name])
    book.note("other", 10, {"1": 1})
    book.note("other", 20, {"1": 2})
    assert known(book) == {"other"}
    if restarts:
        book.restart()
    return book


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("what", ["close", "idle"])
@pytest.mark.parametrize("epoch", [1, None])
def test_repeated_close_or_idle_of_a_forgotten_writer_is_done(what: str, epoch: int | None, restarts: bool) -> None:
    book = forgotten("a", restarts=restarts)
    assert book.call(what, "a", epoch) == []
    assert known(book) == {"other"}


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


def comes_back_in_another_key(restarts: bool) -> Book:
    """
    key order    a  10@{0: 5}   closes, is forgotten
                 b  10          20
    key ship     b  1                     30
                 a                             30@{}: all below 30 lies below {0: 5}, which it noted before
    """
    book = quick(min_writers=2)
    book.note("a", 10, {"0": 5}, key="order", newest=10)
    book.note("b", 10, key="order")
    book.note("b", 1, key="ship", newest=1)
    book.call("close", "a", None)
    book.note("b", 20, key="order")
    assert known(book) == {"b"}
    if restarts:
        book.restart()
    book.note("b", 30, key="ship", newest=30)
    return book


@pytest.mark.parametrize("restarts", [False, True])
def test_a_forgotten_writers_position_counts_in_other_keys_when_it_comes_back(restarts: bool) -> None:
    book = comes_back_in_another_key(restarts)
    book.note("a", 30, key="ship", newest=30)
    found = (book.last.key, book.last.time, book.cut(), book.last.newest)
    assert found == ("ship", 30, {"0": 5}, None)  # nobody said how new, by this key, what is below {0: 5} may be
    book.note("b", 40, {"0": 6}, key="ship", newest=40)
    book.note("a", 40, {"0": 6}, key="ship", newest=40)
    assert (book.cut(), book.last.newest) == ({"0": 6}, 40)


def test_a_segment_that_the_log_never_had_is_taken_from_a_forgotten_writers_position() -> None:
    book = quick(min_writers=1, open=True)
    book.note("a", 10, {"0": 5, "mistake": 3}, key="order")
    book.call("close", "a", None)
    assert known(book) == set()
    book.call("drop_segment", "mistake")
    book.note("b", 10, key="ship")
    assert book.cut() == {"0": 5}
    book.restart()
    book.note("b", 10, key="return")
    assert book.cut() == {"0": 5}


def test_upper_bounds_notes_below_a_forgotten_writers_cut() -> None:
    """
    a     10@{0: 1}            25@{0: 2}             50@{0: 3}   90@{0: 4}
    gone  20@{0: 5}   closes
    b     5                               22                                 40
    mark  5: {0: 5}                       22: {0: 5}                         40: {0: 5}
    """
    book = quick(min_writers=3)
    book.note("a", 10, {"0": 1})
    book.note("gone", 20, {"0": 5})
    book.note("b", 5)
    book.call("close", "gone", None)
    book.note("a", 25, {"0": 2})
    book.note("b", 22)
    assert (known(book), book.cut()) == ({"a", "b"}, {"0": 5})
    book.note("a", 50, {"0": 3})
    book.note("a", 90, {"0": 4})
    book.note("b", 40)
    assert (book.last.time, book.last.upper, book.cut()) == (40, 90, {"0": 5})


def test_a_writer_stays_until_upper_bounds_what_its_earlier_lives_noted() -> None:
    book = quick(min_writers=2)
    book.note("a", 50, {"0": 3})
    book.note("b", 10, {"0": 5})
    book.note("a", 70, {"0": 3})
    book.call("close", "a", None)
    book.note("a", 9, {"0": 1})
    book.call("close", "a", None)
    assert (known(book), book.last.upper) == ({"a", "b"}, 50)
    book.note("b", 20, {"0": 6})
    assert (known(book), book.last.upper) == ({"b"}, 70)


def test_a_stream_cannot_end_below_a_forgotten_writers_notes() -> None:
    book = forgotten("a")
    with pytest.raises(InvalidScale, match="below 1, which was noted"):
        book.call("seal", {"0": 0})
    book.call("seal", {})
    assert book.stream.graph.end is not None
    assert book.stream.graph.end.offset("0") == 1


def test_time_follows_the_clock_also_when_everyone_who_closed_is_forgotten() -> None:
    book = quick(time_domain="ingestion", idle_lag_ms=100)
    book.note("a", book.now, {"0": 1})
    book.call("close", "a", None)
    book.after(1_000).register("b")
    assert known(book) == {"b"}
    book.call("close", "b", None)
    book.after(1_000)
    book.call("evaluate", "")
    assert known(book) == set()
    book.restart()
    resting = book.after(1_000).stream.resting(book.now)
    assert resting is not None
    assert (resting.time, dict(resting.cut.items())) == (book.now - 100, {"0": 1})


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


def test_where_there_is_no_room_closed_writers_make_it_before_their_time() -> None:
    book = Book(max_writers=2)
    for number in range(20):
        book.note("a", 10 + 2 * number, {"0": 1 + number})
        name = f"pod-{number}"
        book.note(name, 10 + 2 * number, {"1": 1 + number})
        book.call("close", name, None)
        book.note("a", 11 + 2 * number)
    assert known(book) == {"a", "pod-19"}


def test_a_closed_writer_that_no_mark_has_passed_makes_no_room() -> None:
    book = Book(max_writers=2)
    book.note("a", 10)
    book.note("pod", 50, {"1": 1})
    book.call("close", "pod", None)
    with pytest.raises(TooMany):
        book.register("b")
    book.note("a", 60)
    assert book.register("b").epoch == 1


def test_a_writer_never_makes_room_for_itself() -> None:
    book = Book(max_writers=1)
    book.note("a", 10, {"0": 5})
    book.call("close", "a", None)
    book.note("a", 11, {"0": 1}, key="ship")
    assert book.state("a", "ship") == "active"
    with pytest.raises(TooMany):
        book.register("b")


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
