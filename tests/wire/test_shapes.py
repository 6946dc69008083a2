"""Values as JSON objects and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.aggregate import Holder
from strandline.core.changes import NoteResult, Registered
from strandline.core.config import LateWriters, StreamConfig, TimeDomain
from strandline.core.mark import Mark
from strandline.core.note import Note
from strandline.core.segment import NewSegment, Segment, SegmentGraph
from strandline.core.window import TimeWindow
from strandline.errors import InvalidConfig, TimeWentBack
from strandline.wire import groups, streams
from strandline.wire.groups import GroupLag, GroupWindow, KeyWindow, ReaderAnswer, SegmentLag, StreamWindow
from strandline.wire.streams import NoteAnswer, SegmentDescription, WireMark

TIMES = st.integers(1 - 2**53, 2**53 - 1)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)
KEYS = st.just("") | NAMES
COUNTS = st.integers(0, 2**53 - 1)
FLOORS = st.dictionaries(KEYS, st.none() | TIMES, max_size=3)


def over_the_wire(value: object) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


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


def read(mark: Mark) -> WireMark:
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


@given(marks())
def test_a_mark_comes_back_with_its_frontier_for_a_cut(mark: Mark) -> None:
    assert streams.mark_from_wire(over_the_wire(streams.mark_to_wire(mark, graph()))) == read(mark)


@given(marks())
def test_the_frontier_of_a_mark_closes_to_the_same_cut(mark: Mark) -> None:
    back = streams.mark_from_wire(over_the_wire(streams.mark_to_wire(mark, graph())))
    assert graph().cut(back.cut) == mark.cut


@given(marks())
def test_a_mark_on_the_wire_has_what_the_contract_names(mark: Mark) -> None:
    names = ["seq", "key", "time", "upper", "cut", "newest", "complete", "excluded", "created_at"]
    assert list(streams.mark_to_wire(mark, graph())) == names


def test_a_covered_predecessor_is_not_on_the_wire() -> None:
    mark = Mark(
        seq=1,
        key="",
        time=1,
        upper=1,
        cut=graph().cut({"2": 5}),
        newest=None,
        excluded=(),
        created_at=1,
    )
    assert mark.cut.offset("0") == 300
    assert streams.mark_to_wire(mark, graph())["cut"] == {"2": 5}


@given(st.lists(marks(), max_size=3), st.none() | TIMES)
def test_a_page_of_marks_comes_back(page: list[Mark], resting: int | None) -> None:
    sent = streams.marks_page_to_wire(page, graph(), resting)
    assert ("resting" in sent) == (resting is not None)
    back = streams.marks_page_from_wire(over_the_wire(sent))
    assert back.marks == tuple(map(read, page))
    assert back.resting == resting


@given(HOLDERS)
def test_a_holder_comes_back(holder: Holder) -> None:
    assert streams.holder_from_wire(over_the_wire(streams.holder_to_wire(holder))) == holder


@given(st.none() | TIMES, st.none() | TIMES, st.booleans(), st.booleans(), st.integers(1, 10**9))
def test_a_time_window_comes_back(
    first: int | None, second: int | None, complete: bool, end_of_stream: bool, seq: int
) -> None:
    lower, upper = sorted([first, second]) if first is not None and second is not None else (first, second)
    window = (
        TimeWindow(lower, upper, complete, end_of_stream, seq)
        if lower is not None
        else TimeWindow(None, upper, True, end_of_stream, None)
    )
    assert streams.time_window_from_wire(over_the_wire(streams.time_window_to_wire(window))) == window


@given(st.integers(1, 10**9), FLOORS)
def test_a_registration_comes_back_and_has_the_floor_of_the_default_key(
    epoch: int, floors: dict[str, int | None]
) -> None:
    sent = over_the_wire(streams.registered_to_wire(Registered(epoch, floors)))
    assert sent["floor"] == floors.get("")
    assert streams.registered_from_wire(sent) == Registered(epoch, floors)


@given(
    st.booleans(),
    FLOORS,
    st.lists(marks(), max_size=2),
    st.dictionaries(KEYS, st.none() | HOLDERS, max_size=3),
)
def test_the_answer_to_a_keyed_note_comes_back(
    late: bool, floors: dict[str, int | None], brought: list[Mark], held_by: dict[str, Holder | None]
) -> None:
    sent = streams.note_answer_to_wire(NoteResult(late, floors, brought), graph(), held_by, keyed=True)
    held = {key: holder for key, holder in held_by.items() if holder is not None}
    assert streams.note_answer_from_wire(over_the_wire(sent)) == NoteAnswer(
        late, floors, tuple(map(read, brought)), held
    )


@given(st.booleans(), st.none() | TIMES, st.lists(marks(st.just("")), max_size=2), st.none() | HOLDERS)
def test_the_answer_to_a_note_of_the_default_key_comes_back(
    late: bool, floor: int | None, brought: list[Mark], holder: Holder | None
) -> None:
    sent = streams.note_answer_to_wire(NoteResult(late, {"": floor}, brought), graph(), {"": holder}, keyed=False)
    assert sent.keys() - {"held_by"} == {"late", "floor", "marks"}
    held = {} if holder is None else {"": holder}
    back = streams.note_answer_from_wire(over_the_wire(sent))
    assert back == NoteAnswer(late, {"": floor}, tuple(map(read, brought)), held)
    assert back.floor == floor


def test_results_are_answers_and_errors_in_order() -> None:
    error = TimeWentBack(writer="w1", key="", time=1, stored_time=2)
    answer = streams.note_answer_to_wire(NoteResult(True, {"": 5}, []), graph(), {}, keyed=False)
    first, second, third = streams.note_results_from_wire(
        over_the_wire(streams.note_results_to_wire([answer, error, answer]))
    )
    assert first == third == NoteAnswer(True, {"": 5}, ())
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
            Note(
                writer="w1",
                times={"order_time": 100, "ship_time": 90},
                position={"0": 1},
                newest={"ship_time": 95},
            ),
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
    assert over_the_wire(streams.note_to_wire(note)) == body


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
def test_settings_come_back(config: StreamConfig) -> None:
    assert streams.config_from_wire(over_the_wire(streams.config_to_wire(config))) == config


def test_a_setting_that_cannot_be_is_an_error_that_names_it() -> None:
    with pytest.raises(InvalidConfig, match="min_writers"):
        streams.config_from_wire({"min_writers": 0})


@pytest.mark.parametrize("segment", list(graph()))
def test_a_segment_comes_back(segment: Segment) -> None:
    sent = over_the_wire(streams.segment_to_wire(segment, 77))
    assert streams.segment_from_wire(sent) == SegmentDescription(segment, 77)


GROUP_WINDOWS = st.builds(
    GroupWindow,
    streams=st.dictionaries(
        NAMES,
        st.builds(
            StreamWindow,
            lower=st.none() | TIMES,
            upper=st.none() | TIMES,
            complete=st.booleans(),
            end_of_stream=st.booleans(),
            lag_ms=st.none() | TIMES,
            behind_ms=st.none() | TIMES,
            position=st.dictionaries(NAMES, COUNTS, max_size=2),
            keys=st.dictionaries(
                KEYS, st.builds(KeyWindow, st.none() | TIMES, st.none() | TIMES, st.booleans()), max_size=2
            ),
        ),
        max_size=2,
    ),
    watermarks=FLOORS,
    held_by=st.dictionaries(KEYS, st.none() | NAMES, max_size=2),
    complete=st.booleans(),
    lag_ms=st.none() | TIMES,
    backlog=st.booleans(),
    idle=st.lists(NAMES, max_size=2).map(tuple),
)


@given(st.integers(1, 10**9), st.dictionaries(NAMES, st.dictionaries(NAMES, COUNTS, max_size=2)), GROUP_WINDOWS)
def test_the_answer_to_a_reader_comes_back(epoch: int, owned: dict[str, dict[str, int]], window: GroupWindow) -> None:
    answer = ReaderAnswer(epoch=epoch, owned=owned, share=epoch % 7, free=epoch % 5, window=window)
    sent = over_the_wire(groups.reader_answer_to_wire(answer))
    assert groups.reader_answer_from_wire(sent) == answer


SEGMENT_LAGS = st.builds(
    SegmentLag, offset=COUNTS, reader=st.none() | NAMES, lag_ms=st.none() | TIMES, behind_ms=st.none() | TIMES
)


@given(st.none() | TIMES, st.dictionaries(NAMES, st.dictionaries(NAMES, SEGMENT_LAGS, max_size=2), max_size=2))
def test_the_lag_of_a_group_comes_back(lag_ms: int | None, streams: dict[str, dict[str, SegmentLag]]) -> None:
    lag = GroupLag(lag_ms=lag_ms, streams=streams)
    assert groups.group_lag_from_wire(over_the_wire(groups.group_lag_to_wire(lag))) == lag


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
    assert streams.mark_from_wire(MARK | {"colour": "blue"}) == streams.mark_from_wire(MARK)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"time": "100"}, "the answer.marks[0].time is '100', and not a whole number"),
        ({"time": True}, "the answer.marks[0].time is True, and not a whole number"),
        ({"time": 1.5}, "the answer.marks[0].time is 1.5, and not a whole number"),
        ({"time": None}, "the answer.marks[0].time is None, and not a whole number"),
        ({"time": ...}, "the answer.marks[0] has no time"),
        ({"newest": "x"}, "the answer.marks[0].newest is 'x', and not a whole number"),
        ({"complete": 1}, "the answer.marks[0].complete is 1, and not true or false"),
        ({"cut": {"0": None}}, "the answer.marks[0].cut.0 is None, and not a whole number"),
        ({"cut": []}, "the answer.marks[0].cut is [], and not an object"),
        ({"excluded": [1]}, "the answer.marks[0].excluded[0] is 1, and not a text"),
        ({"excluded": "w1"}, "the answer.marks[0].excluded is 'w1', and not a list"),
        ({"key": None}, "the answer.marks[0].key is None, and not a text"),
    ],
)
def test_a_field_that_is_not_what_it_should_be_is_named_with_its_place(change: dict[str, Any], said: str) -> None:
    changed = {name: value for name, value in (MARK | change).items() if value is not ...}
    with pytest.raises(ValueError) as raised:
        streams.marks_page_from_wire({"marks": [changed]})
    assert str(raised.value) == said


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*MARK, "marks", "results", "owned", "window", "floors"]), inner)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "reader",
    [
        streams.mark_from_wire,
        streams.marks_page_from_wire,
        streams.marks_at_from_wire,
        streams.evaluated_from_wire,
        streams.time_window_from_wire,
        streams.registered_from_wire,
        streams.note_answer_from_wire,
        streams.note_results_from_wire,
        streams.stream_from_wire,
        groups.group_window_from_wire,
        groups.reader_answer_from_wire,
    ],
)
@given(value=JSON)
def test_anything_else_is_a_value_error_and_nothing_worse(
    reader: Callable[[object, str], object], value: object
) -> None:
    try:
        reader(value, "the answer")
    except (ValueError, InvalidConfig):
        return
