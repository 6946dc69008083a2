"""Each call: what it sends, and what it makes of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from strandline.client import calls, group_calls
from strandline.client.calls import Call, Clocked, Request, Response
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import NewSegment
from strandline.errors import (
    InvalidName,
    InvalidNote,
    StrandlineError,
    TimeWentBack,
    TooMany,
    UnexpectedAnswer,
    UnknownStream,
)
from strandline.wire.groups import FromPositions, FromTime, GroupSettings
from strandline.wire.problems import to_problem
from strandline.wire.streams import NoteAnswer

NOTE = Note(writer="w1", times={"": 100}, position={"0": 5}, epoch=3)
NOTE_BODY = {"writer": "w1", "time": 100, "position": {"0": 5}, "epoch": 3}
WINDOW: dict[str, object] = {
    "streams": {},
    "watermarks": {},
    "held_by": {},
    "complete": True,
    "lag_ms": None,
    "backlog": False,
    "idle": [],
}
READER = {"epoch": 2, "owned": {"orders": {"0": 7}}, "share": 1, "free": 0, "window": WINDOW}


def sent(call: Call[Any]) -> Request:
    request = next(call)
    call.close()
    return request


def answered(call: Call[Any], status: int, body: object, headers: dict[str, str] | None = None) -> Any:
    next(call)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        call.send(Response(status, headers if headers is not None else {}, content))
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the call asked for more")


@pytest.mark.parametrize(
    ("call", "line", "body"),
    [
        (lambda: calls.describe("orders"), "GET /v1/streams/orders", None),
        (calls.status, "GET /v1/status", None),
        (calls.controllers, "GET /v1/controllers", None),
        (lambda: calls.status(["a", "b"]), "GET /v1/status?stream=a&stream=b", None),
        (lambda: calls.status(["b"], after="a", limit=5), "GET /v1/status?after=a&limit=5&stream=b", None),
        (lambda: calls.status(limit=5, trouble=True), "GET /v1/status?limit=5&trouble=true", None),
        (
            lambda: calls.scale(
                "orders", {"0": 300}, [NewSegment("3", 0.0, 0.5), NewSegment("4", predecessors=("0",))]
            ),
            "POST /v1/streams/orders/scale",
            {
                "seal": {"0": 300},
                "create": [{"id": "3", "low": 0.0, "high": 0.5}, {"id": "4", "predecessors": ["0"]}],
            },
        ),
        (lambda: calls.seal("orders", {"0": 9}), "POST /v1/streams/orders/seal", {"final": {"0": 9}}),
        (lambda: calls.truncate("orders", {"0": 9}), "POST /v1/streams/orders/truncate", {"head": {"0": 9}}),
        (
            lambda: calls.tail("orders", "tail-1", 100, {"0": 9}),
            "POST /v1/streams/orders/tail",
            {"reporter": "tail-1", "time": 100, "position": {"0": 9}},
        ),
        (lambda: calls.register("orders", "w1"), "PUT /v1/streams/orders/writers/w1", None),
        (
            lambda: calls.register("orders", "w1", ["order_time"]),
            "PUT /v1/streams/orders/writers/w1",
            {"keys": ["order_time"]},
        ),
        (
            lambda: calls.register("orders", "w1", registration="once-1"),
            "PUT /v1/streams/orders/writers/w1",
            {"registration": "once-1"},
        ),
        (lambda: calls.note("orders", NOTE), "POST /v1/streams/orders/notes", NOTE_BODY),
        (lambda: calls.notes("orders", [NOTE]), "POST /v1/streams/orders/notes", {"notes": [NOTE_BODY]}),
        (
            lambda: calls.notes_of_streams([("orders", NOTE)]),
            "POST /v1/notes",
            {"notes": [{"stream": "orders", **NOTE_BODY}]},
        ),
        (lambda: calls.idle("orders", "w1"), "POST /v1/streams/orders/writers/w1/idle", None),
        (lambda: calls.idle("orders", "w1", 3), "POST /v1/streams/orders/writers/w1/idle?epoch=3", None),
        (lambda: calls.close("orders", "w1", 3), "DELETE /v1/streams/orders/writers/w1?epoch=3", None),
        (lambda: calls.marks("orders"), "GET /v1/streams/orders/marks?after=0", None),
        (
            lambda: calls.marks("orders", key="ship_time", after=7, limit=9, wait_ms=500),
            "GET /v1/streams/orders/marks?key=ship_time&after=7&limit=9&wait_ms=500",
            None,
        ),
        (lambda: calls.marks_at("orders", -5), "GET /v1/streams/orders/marks/at?time=-5", None),
        (lambda: calls.evaluate("orders"), "POST /v1/streams/orders/marks", {"key": ""}),
        (
            lambda: calls.time_window("orders", {"0": 5}, key="k"),
            "POST /v1/streams/orders/time-window",
            {"position": {"0": 5}, "key": "k"},
        ),
        (calls.health, "GET /healthz", None),
        (calls.ready, "GET /readyz", None),
        (
            lambda: group_calls.create_group("g", GroupSettings(streams=("orders",), start=FromTime(5))),
            "PUT /v1/reader-groups/g",
            {
                "streams": ["orders"],
                "backlog_threshold_ms": None,
                "reader_timeout_ms": 30000,
                "idle_timeout_ms": None,
                "on_all_idle": "hold",
                "start": {"time": 5},
            },
        ),
        (
            lambda: group_calls.register_reader("g", "r1", {"orders": {"0": 1}}),
            "PUT /v1/reader-groups/g/readers/r1",
            {"positions": {"orders": {"0": 1}}},
        ),
        (
            lambda: group_calls.report("g", "r1", 2, {"orders": {"0": 1}}),
            "PUT /v1/reader-groups/g/readers/r1",
            {"positions": {"orders": {"0": 1}}, "epoch": 2},
        ),
        (
            lambda: group_calls.acquire("g", "r1", 2, 5),
            "POST /v1/reader-groups/g/readers/r1/acquire",
            {"epoch": 2, "max": 5},
        ),
        (
            lambda: group_calls.release("g", "r1", 2, {"orders": {"0": 1}}),
            "POST /v1/reader-groups/g/readers/r1/release",
            {"epoch": 2, "positions": {"orders": {"0": 1}}},
        ),
        (
            lambda: group_calls.offline("g", "r1", {"orders": {"0": 1}}),
            "POST /v1/reader-groups/g/readers/r1/offline",
            {"positions": {"orders": {"0": 1}}},
        ),
        (lambda: group_calls.group_window("g"), "GET /v1/reader-groups/g/time-window", None),
    ],
)
def test_a_call_sends_what_the_contract_says(call: Callable[[], Call[Any]], line: str, body: object) -> None:
    request = sent(call())
    assert f"{request.method} {request.path}" == line
    assert request.body == body


@pytest.mark.parametrize(
    ("segments", "wanted"),
    [(3, 3), ("open", "open"), ([NewSegment("a", 0.0, 1.0)], [{"id": "a", "low": 0.0, "high": 1.0}])],
)
def test_creating_a_stream_sends_its_segments_beside_its_settings(segments: Any, wanted: object) -> None:
    request = sent(calls.create_stream("orders", segments, StreamConfig(min_writers=2)))
    assert request.body is not None
    assert request.body["segments"] == wanted
    assert request.body["min_writers"] == 2
    assert request.body["time_domain"] == "event"


@pytest.mark.parametrize(("status", "new"), [(201, True), (200, False)])
def test_creating_tells_whether_it_is_new(status: int, new: bool) -> None:
    assert answered(calls.create_stream("orders", 1), status, {}) is new


def test_start_positions_go_out_by_stream() -> None:
    settings = GroupSettings(streams=("orders",), start=FromPositions({"orders": {"0": 5}}))
    request = sent(group_calls.create_group("g", settings))
    assert request.body is not None
    assert request.body["start"] == {"positions": {"orders": {"0": 5}}}


def test_only_acquiring_is_not_repeatable() -> None:
    assert not sent(group_calls.acquire("g", "r1", 2, 5)).repeatable
    assert sent(calls.note("orders", NOTE)).repeatable
    assert sent(calls.close("orders", "w1", 3)).repeatable


def test_a_wait_is_told_to_who_sends() -> None:
    assert sent(calls.marks("orders", wait_ms=700)).wait_ms == 700


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: calls.describe("../admin"), InvalidName),
        (lambda: calls.describe(""), InvalidName),
        (lambda: calls.register("orders", "w/1"), InvalidName),
        (lambda: calls.register("orders", "w1", ["a b"]), InvalidName),
        (lambda: calls.register("orders", "w1", registration="a b"), InvalidName),
        (lambda: calls.marks("orders", key="a&limit=9"), InvalidName),
        (lambda: calls.marks("orders", wait_ms=30_001), TooMany),
        (lambda: calls.notes("orders", [NOTE] * 10_001), TooMany),
        (lambda: calls.notes_of_streams([("orders", NOTE)] * 10_001), TooMany),
        (lambda: calls.time_window("orders", {"0": 1.0}), InvalidNote),  # type: ignore[dict-item]  # that is the point
        (lambda: calls.time_window("orders", {"0": -1}), InvalidNote),
        (lambda: group_calls.group_window("g?"), InvalidName),
        (lambda: group_calls.report("g", "r1", 1, {"orders/": {}}), InvalidName),
    ],
)
def test_what_can_be_seen_to_be_wrong_is_never_sent(call: Callable[[], Call[Any]], error: type[Exception]) -> None:
    with pytest.raises(error):
        next(call())


def test_an_answer_becomes_a_value() -> None:
    answer = answered(calls.note("orders", NOTE), 200, {"late": True, "floor": 120, "marks": []})
    assert answer == NoteAnswer(True, {"": 120}, ())
    answer = answered(group_calls.register_reader("g", "r1", {}), 200, READER)
    assert (answer.epoch, answer.owned) == (2, {"orders": {"0": 7}})


def test_calls_that_answer_nothing_of_use_take_any_body() -> None:
    assert answered(calls.close("orders", "w1"), 204, b"") is None
    assert answered(calls.idle("orders", "w1"), 200, b"[]") is None


def test_a_problem_becomes_its_error() -> None:
    problem = to_problem(UnknownStream(stream="orders"))
    with pytest.raises(UnknownStream) as raised:
        answered(calls.note("orders", NOTE), 404, problem)
    assert raised.value.stream == "orders"


def test_of_many_notes_each_has_its_answer_or_error() -> None:
    error = TimeWentBack(writer="w1", key="", time=1, stored_time=2)
    body = {"results": [{"late": False, "floor": None, "marks": []}, to_problem(error)]}
    good, bad = answered(calls.notes("orders", [NOTE, NOTE]), 200, body)
    assert good == NoteAnswer(False, {"": None}, ())
    assert isinstance(bad, StrandlineError) and bad.values == error.values


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"<html>hello", "begins with b'<html>hello'"),
        (200, b"", "not JSON"),
        (200, b'{"x":' * 100_000, "not JSON"),
        (200, b"[]", "the answer: expected object, got array"),
        (200, b"{}", "the answer has no late"),
        (301, b"", "not JSON"),
        (500, b"{}", "not a problem with a code"),
        (404, b'{"code": "gone_fishing", "detail": "back soon"}', "back soon"),
        (404, b'{"code": 7}', "knows no such code"),
    ],
)
def test_what_is_not_understood_is_said_with_the_call_and_the_status(status: int, body: bytes, reason: str) -> None:
    with pytest.raises(UnexpectedAnswer) as raised:
        answered(calls.note("orders", NOTE), status, body)
    assert raised.value.call == "POST /v1/streams/orders/notes"
    assert raised.value.answer_status == status
    assert reason in raised.value.reason
    assert len(raised.value.reason) < 1000


def test_fewer_results_than_notes_are_not_taken_for_all_of_them() -> None:
    with pytest.raises(UnexpectedAnswer, match="1 results for 2 notes"):
        answered(
            calls.notes("orders", [NOTE, NOTE]),
            200,
            {"results": [{"late": False, "floor": None, "marks": []}]},
        )


@pytest.mark.parametrize(
    ("header", "clock"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("-5", -5),
        ("soon", None),
        ("", None),
        ("9" * 40, None),
        (None, None),
    ],
)
def test_a_clocked_call_tells_the_clock_of_the_answer(header: str | None, clock: int | None) -> None:
    headers = {} if header is None else {"strandline-time": header}
    answer = answered(
        calls.clocked(calls.note("orders", NOTE)), 200, {"late": False, "floor": None, "marks": []}, headers
    )
    assert answer == Clocked(NoteAnswer(False, {"": None}, ()), clock)


def test_the_clock_is_that_of_the_last_answer() -> None:
    def twice() -> Call[None]:
        yield from calls.health()
        yield from calls.ready()

    call = calls.clocked(twice())
    next(call)
    call.send(Response(200, {"strandline-time": "1"}, b""))
    with pytest.raises(StopIteration) as stopped:
        call.send(Response(200, {"strandline-time": "2"}, b""))
    assert stopped.value.value == Clocked(None, 2)


def test_a_clocked_call_that_is_given_up_closes_the_call_within() -> None:
    inner = calls.note("orders", NOTE)
    outer = calls.clocked(inner)
    next(outer)
    outer.close()
    assert inner.gi_frame is None  # type: ignore[attr-defined]  # a call is made by a generator function
