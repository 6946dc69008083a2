"""What a record of a topic of notes says, and what is owed to writers: without Kafka."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cli.relay.owed import Book, Whose
from controller.cli.relay.records import Leaving, NotANote, Said, read_record

TILL = {"stream": "orders", "writer": "till-7"}


def said(more: dict[str, Any]) -> Said:
    return read_record(json.dumps({**TILL, **more}).encode())


@pytest.mark.parametrize(
    ("more", "times", "leaving"),
    [
        ({"time": 5}, {"": 5}, None),
        ({"times": {"ship": 5, "": 4}}, {"ship": 5, "": 4}, None),
        ({"idle": True}, {}, Leaving.IDLE),
        ({"close": True, "time": 9}, {"": 9}, Leaving.CLOSE),
    ],
)
def test_a_record_says_a_time_or_how_a_writer_leaves(
    more: dict[str, Any], times: dict[str, int], leaving: Leaving | None
) -> None:
    assert said(more) == Said("orders", "till-7", times, leaving)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "it has no value"),
        (b"", "truncated"),
        (b"\xff", "malformed"),
        (b"[1]", "Expected `object`"),
        (b'{"stream": "orders", "time": 5}', "missing required field `writer`"),
        (b'{"stream": "a/b", "writer": "w", "time": 5}', "a/b"),
        (b'{"stream": "a", "writer": "w w", "time": 5}', "w w"),
        (b'{"stream": "a", "writer": "w", "time": 5.5}', "Expected `int"),
        (b'{"stream": "a", "writer": "w", "time": 99999999999999999999}', "99999999999999999999"),
        (b'{"stream": "a", "writer": "w", "times": {"b b": 5}}', "b b"),
        (b'{"stream": "a", "writer": "w", "tiem": 5}', "unknown field `tiem`"),
        (b'{"stream": "a", "writer": "w", "time": 5, "times": {}}', "one of them"),
        (b'{"stream": "a", "writer": "w", "idle": true, "close": true}', "one of them"),
        (b'{"stream": "a", "writer": "w"}', "it has neither"),
        (b"[" * 100_000, "[[["),
    ],
)
def test_a_record_that_is_no_note_says_why(value: bytes | None, why: str) -> None:
    with pytest.raises(NotANote) as raised:
        read_record(value)
    assert why in str(raised.value) and len(str(raised.value)) < 500


def test_only_the_last_state_of_a_writer_is_owed() -> None:
    book = Book()
    story: list[dict[str, Any]] = [{"time": 5}, {"time": 7}, {"idle": True}, {"time": 9}]
    for offset, more in enumerate(story):
        assert book.take(0, offset, said(more)) == {}
    owed = book.due(lambda _: True)["orders"]["till-7"]
    assert (owed.times, owed.leaving, owed.firsts) == ({"": 9}, None, {0: 0})


def test_a_time_that_goes_back_counts_for_nothing() -> None:
    book = Book()
    book.take(0, 0, said({"times": {"a": 5, "b": 5}}))
    assert book.take(0, 1, said({"times": {"a": 4, "b": 6}})) == {"a": 4}
    assert book.due(lambda _: True)["orders"]["till-7"].times == {"a": 5, "b": 6}


def test_nothing_is_due_before_all_its_partitions_were_read() -> None:
    book = Book()
    book.take(0, 0, said({"time": 5}))
    book.take(1, 0, said({"time": 6}))
    assert book.due({0}.__contains__) == {} and list(book.due({0, 1}.__contains__)) == ["orders"]


def test_what_waits_for_a_stream_that_is_not_there_does_not_hold_the_rest() -> None:
    book = Book()
    book.take(0, 3, Said("nowhere", "w", {"": 1}, None))
    book.take(0, 4, Said("orders", "w", {"": 1}, None))
    assert book.committable({0: 5, 1: 2}) == {0: 3, 1: 2}
    book.park("nowhere")
    assert book.committable({0: 5, 1: 2}) == {0: 4, 1: 2}
    book.settle(Whose("orders", "w"))
    assert book.committable({0: 5, 1: 2}) == {0: 5, 1: 2} and list(book.due(lambda _: True)) == ["nowhere"]


def test_what_another_relay_reads_now_is_forgotten_and_the_rest_stays() -> None:
    book = Book()
    book.take(0, 0, Said("s", "both", {"": 1}, None))
    book.take(1, 0, Said("s", "both", {"": 2}, None))
    book.take(0, 1, Said("s", "gone", {"": 3}, None))
    book.drop([0])
    assert list(book.due(lambda _: True)["s"]) == ["both"] and book.committable({1: 4}) == {1: 0}


RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.sampled_from([None, *Leaving])), max_size=12)


@given(RECORDS, st.data())
def test_however_often_records_are_read_again_the_last_state_is_the_same(
    records: list[tuple[str, int, Leaving | None]], data: st.DataObject
) -> None:
    """Relays that end anywhere: each next one reads from what was committed to the end before it settles anything."""

    def read(book: Book, first: int, last: int) -> None:
        for offset in range(first, last):
            writer, time, leaving = records[offset]
            book.take(0, offset, Said("s", writer, {"": time}, leaving))

    state: dict[str, tuple[int, Leaving | None]] = {}
    ends = [*sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=4))), len(records)]
    committed = 0
    for end in ends:
        book = Book()
        read(book, committed, end)
        for writer, owed in book.due(lambda _: True).get("s", {}).items():
            before = state.get(writer, (-1, None))[0]
            state[writer] = max(owed.times[""], before), owed.leaving
            book.settle(Whose("s", writer))
            if data.draw(st.booleans()):
                break  # it is killed here
        committed = min(book.committable({0: end})[0], end)
    book = Book()
    read(book, committed, len(records))
    for writer, owed in book.due(lambda _: True).get("s", {}).items():
        state[writer] = max(owed.times[""], state.get(writer, (-1, None))[0]), owed.leaving
    expected: dict[str, tuple[int, Leaving | None]] = {}
    for writer, time, leaving in records:
        expected[writer] = max(time, expected.get(writer, (-1, None))[0]), leaving
    assert state == expected
