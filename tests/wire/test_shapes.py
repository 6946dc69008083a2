"""Values as JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.aggregate import Holder
from strandline.core.changes import NoteResult, Registered
from strandline.core.coalesce import OnAllIdle
from strandline.core.config import SETTINGS, LateWriters, StreamConfig, TimeDomain
from strandline.core.mark import Mark
from strandline.core.note import Note
from strandline.core.segment import NewSegment, SegmentGraph
from strandline.core.window import TimeWindow
from strandline.errors import InvalidConfig, TimeWentBack
from strandline.wire import groups, shapes, streams
from strandline.wire.groups import (
    FromHead,
    FromPositions,
    FromTime,
    GroupDescription,
    GroupLag,
    GroupWindow,
    ReaderAnswer,
    Start,
)
from strandline.wire.journal import JournalPage
from strandline.wire.streams import (
    EvaluatedReply,
    MarksAt,
    MarksPage,
    NoteAnswer,
    SegmentDescription,
    SegmentReply,
    StreamReply,
    TimeIndexPage,
    WireMark,
)

TIMES = st.integers(1 - 2**53, 2**53 - 1)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)
KEYS = st.just("") | NAMES
COUNTS = st.integers(0, 2**53 - 1)
FLOORS = st.dictionaries(KEYS, st.none() | TIMES, max_size=3)


def sent(value: object) -> bytes:
    return msgspec.json.encode(value)


def shown(value: object) -> Any:
    return json.loads(sent(value))


def graph() -> SegmentGraph:
    """Segments 0 and 1, merged into 2."""
    made = SegmentGraph.equal_shares(2, created_at=1)
    made.scale({"0": 300, "1": 400}, [NewSegment("2", 0.0, 1.0)], created_at=2)
    return made


POSITIONS = st.one_of(
    st.fixed_dictionaries({}, optional={"0": st.integers(1, 300), "1": st.integers(1, 400)}),
    st.fixed_dictionaries({"2": st.integers(1, 1000)}),
)


@st.composite
def marks(draw: st.DrawFn, key: st.SearchStrategy[str] = KEYS) -> Mark:
    time, upper = sorted([draw(TIMES), draw(TIMES)])
    return Mark(
        seq=draw(st.integers(1, 10**9)),
        key=draw(key),
        time=time,
        upper=upper,
        cut=graph().cut(draw(POSITIONS)),
        newest=draw(st.none() | TIMES),
        excluded=tuple(draw(st.lists(NAMES, max_size=2))),
        created_at=draw(TIMES),
    )


def received(mark: Mark) -> WireMark:
    """What a reader should get of a mark."""
    return WireMark(
        seq=mark.seq,
        key=mark.key,
        time=mark.time,
        upper=mark.upper,
        cut=graph().frontier(mark.cut),
        newest=mark.newest,
        complete=mark.complete,
        excluded=mark.excluded,
        created_at=mark.created_at,
    )


HOLDERS = st.builds(
    Holder,
    writer=st.none() | NAMES,
    state=st.sampled_from(["joined", "active", "min_writers"]),
    time=st.none() | TIMES,
    last_heard_ms_ago=st.none() | COUNTS,
    released_in_ms=st.none() | COUNTS,
)


def test_a_covered_predecessor_is_not_on_the_wire() -> None:
    cut = graph().cut({"2": 5})
    mark = Mark(seq=1, key="", time=1, upper=1, cut=cut, newest=None, excluded=(), created_at=1)
    assert mark.cut.offset("0") == 300
    assert streams.wire_mark(mark, graph()).cut == {"2": 5}


@given(st.lists(marks(), max_size=3), st.none() | TIMES)
def test_a_page_of_marks_comes_back(page: list[Mark], resting: int | None) -> None:
    answer = streams.marks_page(page, graph(), "a1", resting)
    names = ["seq", "key", "time", "upper", "cut", "newest", "complete", "excluded", "created_at"]
    assert [list(mark) for mark in shown(answer)["marks"]] == [names] * len(page)
    assert ("resting" in shown(answer)) == (resting is not None)
    back = shapes.read(MarksPage, sent(answer))
    assert back.marks == tuple(map(received, page))
    assert (back.identity, back.resting) == ("a1", resting)


@given(st.integers(1, 10**9), FLOORS)
def test_a_registration_comes_back_and_has_the_floor_of_the_default_key(
    epoch: int, floors: dict[str, int | None]
) -> None:
    answer = streams.registration(Registered(epoch, floors, "5f-1"))
    assert shown(answer)["floor"] == floors.get("")
    assert streams.read_registered(sent(answer)) == Registered(epoch, floors, "5f-1")


@given(st.booleans(), FLOORS, st.lists(marks(), max_size=2), st.dictionaries(KEYS, st.none() | HOLDERS, max_size=3))
def test_the_answer_to_a_keyed_note_comes_back(
    late: bool, floors: dict[str, int | None], brought: list[Mark], held_by: dict[str, Holder | None]
) -> None:
    answer = streams.note_reply(NoteResult(late, floors, brought), graph(), held_by, keyed=True)
    held = {key: streams.holder_reply(holder) for key, holder in held_by.items() if holder is not None}
    back = streams.read_note_answer(sent(answer), keyed=True)
    assert back == NoteAnswer(late, floors, tuple(map(received, brought)), held)


@given(st.booleans(), st.none() | TIMES, st.lists(marks(st.just("")), max_size=2), st.none() | HOLDERS)
def test_the_answer_to_a_note_of_the_default_key_comes_back(
    late: bool, floor: int | None, brought: list[Mark], holder: Holder | None
) -> None:
    answer = streams.note_reply(NoteResult(late, {"": floor}, brought), graph(), {"": holder}, keyed=False)
    assert shown(answer).keys() - {"held_by"} == {"late", "floor", "marks"}
    held = {} if holder is None else {"": streams.holder_reply(holder)}
    back = streams.read_note_answer(sent(answer))
    assert back == NoteAnswer(late, {"": floor}, tuple(map(received, brought)), held)
    assert back.floor == floor


def test_results_are_answers_and_errors_in_order() -> None:
    error = TimeWentBack(writer="w1", key="", time=1, stored_time=2)
    plain = streams.note_reply(NoteResult(True, {"": 5}, []), graph(), {}, keyed=False)
    keyed = streams.note_reply(NoteResult(True, {"a": 5}, []), graph(), {}, keyed=True)
    body = b'{"results":[%s]}' % b",".join(map(streams.encoded_result, (plain, error, keyed)))
    first, second, third = streams.read_note_results(body, [False, False, True])
    assert (first, third) == (NoteAnswer(True, {"": 5}, ()), NoteAnswer(True, {"a": 5}, ()))
    assert isinstance(second, TimeWentBack)
    assert second.values == error.values


@pytest.mark.parametrize(
    ("note", "body"),
    [
        (
            Note(writer="w1", times={"": 100}, position={"0": 100, "1": 200}, epoch=3),
            {"writer": "w1", "time": 100, "position": {"0": 100, "1": 200}, "epoch": 3},
        ),
        (
            Note(writer="w1", times={"": 100}, position={}, newest={"": 180}),
            {"writer": "w1", "time": 100, "position": {}, "newest": 180},
        ),
        (
            Note(writer="w1", times={"order_time": 100, "ship_time": 90}, position={"0": 1}, newest={"ship_time": 95}),
            {
                "writer": "w1",
                "times": {"order_time": 100, "ship_time": 90},
                "position": {"0": 1},
                "newest": {"ship_time": 95},
            },
        ),
        (
            Note(writer="w1", times={"": 100, "ship_time": 90}, position={}),
            {"writer": "w1", "times": {"": 100, "ship_time": 90}, "position": {}},
        ),
        (
            Note(writer="w1", times={"ship_time": 90}, position={}),
            {"writer": "w1", "times": {"ship_time": 90}, "position": {}},
        ),
    ],
)
def test_a_note_on_the_wire_is_as_the_contract_shows_it(note: Note, body: dict[str, Any]) -> None:
    assert shown(streams.note_body(note)) == body
    assert streams.is_keyed(note) == ("times" in body)


def stream_of(config: StreamConfig) -> StreamReply:
    return StreamReply(
        stream="s",
        **streams.settings_by_name(config),
        identity="a1",
        segments=tuple(streams.segment_reply(each, None, None) for each in graph()),
        open=False,
        sealed=False,
        head={},
        created_at=1,
        latest_marks={},
        writers={"active": 1},
        held_by={"": None},
    )


@given(
    st.builds(
        StreamConfig,
        time_domain=st.sampled_from(TimeDomain),
        writer_timeout_ms=st.none() | COUNTS,
        min_writers=st.integers(1, 9),
        late_writers=st.sampled_from(LateWriters),
        mark_interval_ms=st.none() | COUNTS,
    )
)
def test_a_stream_comes_back_with_its_segments_and_every_setting_beside_them(config: StreamConfig) -> None:
    answer = shown(stream_of(config))
    assert list(answer)[: 1 + len(SETTINGS)] == ["stream", *SETTINGS]
    described = streams.read_stream(json.dumps(answer).encode())
    assert (described.config, [each.segment for each in described.segments]) == (config, list(graph()))


def test_a_setting_of_a_newer_controller_has_its_default_and_one_that_cannot_be_is_an_error_that_names_it() -> None:
    answer = shown(stream_of(StreamConfig()))
    without = {name: value for name, value in answer.items() if name != "max_writers"}
    assert streams.read_stream(json.dumps(without).encode()).config == StreamConfig()
    with pytest.raises(InvalidConfig, match="min_writers"):
        streams.read_stream(json.dumps(answer | {"min_writers": 0}).encode())


def test_a_segment_comes_back() -> None:
    for segment in graph():
        back = shapes.read(SegmentReply, sent(streams.segment_reply(segment, 77, 99)))
        assert streams.segment_description(back) == SegmentDescription(segment, 77, 99)


@pytest.mark.parametrize("start", [FromHead(), FromTime(5), FromPositions({"s": {"0": 7}})])
def test_where_a_group_starts_comes_back(start: Start) -> None:
    described = GroupDescription(
        group="g",
        streams=("s",),
        backlog_threshold_ms=None,
        reader_timeout_ms=5,
        idle_timeout_ms=None,
        on_all_idle=OnAllIdle.JUMP,
        start=groups.start_shape(start),
        created_at=1,
        readers=(),
    )
    assert shown(described)["start"] == groups.start_body(start)
    assert shapes.read(GroupDescription, sent(described)) == described


# -- what is not as it should be -------------------------------------------------------------------------------

MARK = {
    "seq": 1,
    "key": "",
    "time": 100,
    "upper": 102,
    "cut": {"0": 5},
    "newest": None,
    "complete": True,
    "excluded": [],
    "created_at": 9,
}


def test_what_a_newer_controller_adds_is_passed_over() -> None:
    assert shapes.read(WireMark, sent(MARK | {"colour": "blue"})) == shapes.read(WireMark, sent(MARK))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"time": "100"}, "Expected `int`, got `str` - at `$.marks[0].time`"),
        ({"time": ...}, "Object missing required field `time` - at `$.marks[0]`"),
        ({"newest": "x"}, "Expected `int | null`, got `str` - at `$.marks[0].newest`"),
        ({"cut": {"0": None}}, "Expected `int`, got `null` - at `$.marks[0].cut[...]`"),
        ({"excluded": [1]}, "Expected `str`, got `int` - at `$.marks[0].excluded[0]`"),
    ],
)
def test_a_wrong_field_is_named_with_its_place(change: dict[str, Any], said: str) -> None:
    changed = {name: value for name, value in (MARK | change).items() if value is not ...}
    with pytest.raises(ValueError) as raised:
        shapes.read(MarksPage, sent({"marks": [changed]}))
    assert str(raised.value) == f"the answer: {said}"


@pytest.mark.parametrize(
    ("body", "said"), [(b"[]", "the answer: Expected `object`, got `array`"), (b"x", "it is not JSON")]
)
def test_a_body_that_is_none_says_so(body: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        shapes.read(MarksPage, body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*MARK, "marks", "results", "owned", "window", "floors"]), inner)
    ),
    max_leaves=8,
)


KINDS: list[type[object]] = [
    *(WireMark, MarksPage, MarksAt, TimeWindow, TimeIndexPage, JournalPage),
    *(GroupWindow, GroupDescription, GroupLag, ReaderAnswer),
]


@pytest.mark.parametrize(
    "reader",
    [
        *map(shapes.reader_of, KINDS),
        shapes.reader_of(EvaluatedReply),
        streams.read_registered,
        streams.read_note_answer,
        partial(streams.read_note_answer, keyed=True),
        partial(streams.read_note_results, keyed=[False, True]),
        streams.read_stream,
        groups.read_offline,
    ],
)
@given(value=JSON)
def test_anything_else_is_a_value_error_and_nothing_worse(reader: Callable[[bytes], object], value: object) -> None:
    try:
        reader(json.dumps(value).encode())
    except (ValueError, InvalidConfig):
        return
