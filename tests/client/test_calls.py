"""Each call: what it sends, and what it makes of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from strandline.client import calls, group_calls
from strandline.client.calls import Call, Clocked, Request, Response
from strandline.core.note import Note
from strandline.errors import InvalidName, InvalidNote, StrandlineError, TimeWentBack, TooMany, UnexpectedAnswer
from strandline.wire.problems import to_problem
from strandline.wire.streams import NoteAnswer

NOTE = Note(writer="w1", times={"": 100}, position={"0": 5}, epoch=3)


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


def test_only_acquiring_is_not_repeatable_and_a_wait_is_told_to_who_sends() -> None:
    assert not sent(group_calls.acquire("g", "r1", 2, 5)).repeatable
    assert sent(calls.note("orders", NOTE)).repeatable
    assert sent(calls.close("orders", "w1", 3)).repeatable
    assert sent(calls.marks("orders", wait_ms=700)).wait_ms == 700


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: calls.describe("../admin"), InvalidName),
        (lambda: calls.register("orders", "w/1"), InvalidName),
        (lambda: calls.register("orders", "w1", registration="a b"), InvalidName),
        (lambda: calls.marks("orders", key="a&limit=9"), InvalidName),
        (lambda: calls.marks("orders", wait_ms=30_001), TooMany),
        (lambda: calls.notes("orders", [NOTE] * 10_001), TooMany),
        (lambda: calls.time_window("orders", {"0": 1.0}), InvalidNote),  # type: ignore[dict-item]  # that is the point
        (lambda: group_calls.group_window("g?"), InvalidName),
    ],
)
def test_what_can_be_seen_to_be_wrong_is_never_sent(call: Callable[[], Call[Any]], error: type[Exception]) -> None:
    with pytest.raises(error):
        next(call())


def test_calls_that_answer_nothing_of_use_take_any_body() -> None:
    assert answered(calls.close("orders", "w1"), 204, b"") is None
    assert answered(calls.idle("orders", "w1"), 200, b"[]") is None


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
        (200, b'{"x":' * 100_000, "not JSON"),
        (200, b"[]", "the answer: Expected `object`, got `array`"),
        (200, b"{}", "the answer: Object missing required field `late`"),
        (500, b"{}", "not a problem with a code"),
        (404, b'{"code": "gone_fishing", "detail": "back soon"}', "back soon"),
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
        answered(calls.notes("orders", [NOTE, NOTE]), 200, {"results": [{"late": False, "floor": None, "marks": []}]})


@pytest.mark.parametrize(
    ("header", "clock"),
    [("1700000000000", 1_700_000_000_000), ("-5", -5), ("soon", None), ("", None), ("9" * 40, None), (None, None)],
)
def test_a_clocked_call_tells_the_clock_of_the_answer(header: str | None, clock: int | None) -> None:
    headers = {} if header is None else {"strandline-time": header}
    answer = answered(
        calls.clocked(calls.note("orders", NOTE)), 200, {"late": False, "floor": None, "marks": []}, headers
    )
    assert answer == Clocked(NoteAnswer(False, {"": None}, ()), clock)
