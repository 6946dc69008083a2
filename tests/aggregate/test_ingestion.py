"""The ingestion domain: time is the controller's clock, taken before the position; at rest it follows the clock."""

from typing import Any

import pytest

from strandline.errors import WrongDomain
from tests.aggregate.book import START_MS, Book


def ingestion(**settings: Any) -> Book:
    return Book(time_domain="ingestion", **settings)


def test_ingestion_has_no_times_by_key_and_event_no_tail() -> None:
    with pytest.raises(WrongDomain):
        ingestion().note("a", START_MS, key="order")
    with pytest.raises(WrongDomain):
        ingestion().register("a", "order")
    with pytest.raises(WrongDomain):
        Book().note("t", START_MS, tail=True)


def resting(**settings: Any) -> Book:
    """One writer that noted at the start and said idle."""
    book = ingestion(**({"idle_lag_ms": 100} | settings))
    book.note("a", book.now, {"0": 1})
    book.call("idle", "a", None)
    return book


def test_at_rest_time_follows_the_clock_and_nothing_is_stored() -> None:
    book = resting()
    made = len(book.marks)
    book.after(10_000).call("advance")
    mark = book.stream.resting(book.now)
    assert mark is not None
    assert (mark.time, mark.complete, dict(mark.cut.items())) == (book.now - 100, True, {"0": 1})
    assert (len(book.marks), book.stream.next_wake()) == (made, None)


@pytest.mark.parametrize(("margin_ms", "idle_lag_ms"), [(0, 100), (60, 100), (3_000, 100), (3_000, 0)])
def test_what_other_caches_may_show_of_a_rest_is_below_no_mark_and_floor_after_its_end(
    margin_ms: int, idle_lag_ms: int
) -> None:
    book = resting(idle_lag_ms=idle_lag_ms)
    book.stream.rest_margin_ms = margin_ms
    book.after(10_000)
    elsewhere = book.stream.resting(book.now + min(margin_ms, idle_lag_ms))  # until the others have heard of the end
    assert elsewhere is not None

    answer = book.note("a", book.now, {"0": 2})

    assert answer.floor == elsewhere.time <= book.now
    assert book.marks[-1].time >= elsewhere.time
    assert not answer.late


def test_a_lost_reporter_that_prevents_idle_advance_is_named() -> None:
    book = ingestion(writer_timeout_ms=1_000, forget_after_ms=60_000)
    book.note("lost", book.now)
    book.note("quiet", book.now)
    book.stream.idle("quiet", None, book.now)
    book.after(5_000).stream.advance(book.now)

    held = book.stream.held_by("", book.now)

    assert book.stream.resting(book.now) is None and held is not None
    assert (held.writer, held.state, held.last_heard_ms_ago) == ("lost", "timed_out", 5_000)
    assert held.released_in_ms == 1_000 + 60_000 - 5_000
    forgotten = book.now + held.released_in_ms
    assert book.stream.held_by("", forgotten) is None and book.stream.resting(forgotten) is not None
