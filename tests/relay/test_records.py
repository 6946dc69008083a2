"""What a record of a topic of notes says, and what is owed to writers: without Kafka."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.note import Note
from strandline.limits import BODY_BYTES
from strandline.wire.streams import note_body
from writer_client.relay.lines import LINES, Lines, shown
from writer_client.relay.loop import fitting
from writer_client.relay.owed import Book, Owed, Whose, in_turn
from writer_client.relay.records import Leaving, NotANote, Said, read_record

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


def test_what_is_for_a_stream_that_is_not_there_is_dropped_and_holds_nothing_up() -> None:
    book = Book()
    book.take(0, 3, Said("nowhere", "w", {"": 1}, None))
    book.take(0, 4, Said("orders", "w", {"": 1}, None))
    assert book.committable({0: 5, 1: 2}) == {0: 3, 1: 2}
    assert book.drop_stream("nowhere") == 1
    assert book.committable({0: 5, 1: 2}) == {0: 4, 1: 2} and list(book.due(lambda _: True)) == ["orders"]
    assert book.drop_stream("nowhere") == 0 and len(book) == 1


def test_what_another_relay_reads_now_is_forgotten_and_the_rest_stays() -> None:
    book = Book()
    book.take(0, 0, Said("s", "both", {"": 1}, None))
    book.take(1, 0, Said("s", "both", {"": 2}, None))
    book.take(0, 1, Said("s", "gone", {"": 3}, None))
    book.take(0, 2, Said("s", "both", {}, Leaving.IDLE))
    book.drop([0])
    assert book.due(lambda _: True)["s"] == {"both": Owed({"": 2}, None, {1: 0})} and book.committable({1: 4}) == {1: 0}


def test_no_more_writers_are_kept_than_there_is_room_for() -> None:
    book = Book(bound=2)
    for writer in ("a", "b"):
        book.take(0, 0, Said("s", writer, {"": 1}, None))
    assert [book.has_room(Whose("s", writer)) for writer in ("a", "c")] == [True, False]
    book.settle(Whose("s", "b"))
    assert book.has_room(Whose("s", "c"))


def test_a_stream_with_many_writers_holds_up_no_other() -> None:
    assert list(in_turn({"many": "abc", "none": "", "one": "d"})) == [
        ("many", "a"),
        ("one", "d"),
        ("many", "b"),
        ("many", "c"),
    ]


@given(
    st.lists(st.tuples(st.integers(1, 249), st.integers(0, 256), st.integers(0, 249)), max_size=40), st.integers(0, 900)
)
def test_the_notes_of_a_request_fit_into_its_body(sizes: list[tuple[int, int, int]], segments: int) -> None:
    least = -(2**53) + 1
    left = {f"{place:03}".ljust(writer, "w"): {f"{key:03}".ljust(length, "k"): least for key in range(keys)}
            for place, (writer, keys, length) in enumerate(sizes)}  # fmt: skip
    position = dict.fromkeys(map(str, range(segments)), 2**53 - 1)
    while left:
        some = fitting(left, segments)
        left = {writer: times for writer, times in left.items() if writer not in some}
        body = {
            "notes": [
                note_body(Note(writer=each, times=some[each], position=position, epoch=2**53 - 1)) for each in some
            ]
        }
        assert some and (len(some) == 1 or len(msgspec.json.encode(body)) <= BODY_BYTES)


def test_what_others_sent_is_cut_and_cannot_look_like_a_line_or_move_a_terminal() -> None:
    with pytest.raises(NotANote) as raised:
        read_record(b'{"stream":"s","writer":"w","\\u001b[2J\\nstrandline relay: FORGED' + b"a" * 100_000 + b'":1}')
    said = str(raised.value)
    assert said.isprintable() and len(said) < 500 and "\\u001b[2J" in said
    assert shown("a\nb\x1b[2J\u202e" + "c" * 2_000).isprintable()
    assert len(shown("\x00" * 5_000)) < 7_000


def test_a_subject_has_a_line_a_minute_and_all_of_them_a_bound() -> None:
    now, said = [0.0], list[str]()
    lines = Lines(said.append, lambda: now[0])
    for number in range(1_000):
        lines.say("orders", f"first {number}")
        lines.say(number, "another")
    assert len(said) == LINES and said[0] == "strandline relay: first 0"
    now[0], said[:] = 60.0, []
    lines.say("orders", "second")
    assert said == [
        f"strandline relay: {1_001 - LINES} more lines were left out: there were more than {LINES}",
        "strandline relay: second (999 more such lines were left out)",
    ]


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
