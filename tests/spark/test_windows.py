"""Asking the real controller over a wire that fails first: what is tried again, till when, what no waiting mends."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from spark_integration.errors import NoWindow
from spark_integration.options import StreamAccess
from spark_integration.window_calls import WINDOW_PAUSE_BOUND_MS, ControllerWindows
from strandline.client import calls
from strandline.client.calls import Request, Response
from strandline.client.http import HttpTransport, Seams
from strandline.client.retry import AnswerLost, NotReached, Outcome
from strandline.core.note import Note
from strandline.core.segment import NewSegment
from strandline.core.window import TimeWindow
from strandline.errors import (
    BeyondFinalOffset,
    Forbidden,
    StrandlineError,
    Unauthenticated,
    UnexpectedAnswer,
    UnknownStream,
)

WAIT_MS = 5_000


@dataclass
class Wire:
    """Leads to the controller, once its faults are used up; its clock moves only while someone sleeps."""

    transport: HttpTransport
    faults: Iterator[Outcome]
    now_ms: float = 0.0
    slept_ms: list[float] = field(default_factory=list)
    asked: int = 0
    meanwhile: Callable[[], None] = lambda: None  # what happens elsewhere while someone sleeps

    def send(self, request: Request, timeout_ms: float) -> Outcome:
        self.asked += 1
        fault = next(self.faults, None)
        return self.transport.send(request, timeout_ms) if fault is None else fault

    def close(self) -> None:
        self.transport.close()

    def sleep(self, seconds: float) -> None:
        self.slept_ms.append(seconds * 1000)
        self.now_ms += seconds * 1000
        self.meanwhile()


class Asking:
    """The windows of a stream, and the wire to them."""

    def __init__(self, stream: Any, faults: Iterable[Outcome], key: str = "") -> None:
        settings = StreamAccess(
            controller=stream.url, stream=stream.name, time_key=key, token="secret", wait_ms=WAIT_MS
        )
        self.wire = Wire(HttpTransport(stream.url), iter(faults))
        seams = Seams(now_ms=lambda: self.wire.now_ms, sleep=self.wire.sleep, random=lambda: 1.0)
        self.windows = ControllerWindows(settings, transport=self.wire, seams=seams)

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *left: object) -> None:
        self.windows.close()


def problem(status: int, code: str, **fields: object) -> Response:
    body = {"title": code, "status": status, "code": code, "detail": "so it is", **fields}
    return Response(status, {"content-type": "application/problem+json"}, json.dumps(body).encode())


def test_the_window_is_the_controllers_for_the_key_that_was_asked_for(stream: Any) -> None:
    stream.mark(100, {"0": 5})
    stream.run(calls.note(stream.name, Note(writer="script", times={"order_time": 70}, position={"0": 6})))
    with Asking(stream, []) as default, Asking(stream, [], key="order_time") as keyed:
        assert default.windows.time_window({"0": 5}) == TimeWindow(
            100, None, complete=True, end_of_stream=False, mark_seq=1
        )
        assert keyed.windows.time_window({"0": 5}).lower is None
        assert keyed.windows.time_window({"0": 6}).lower == 70


@pytest.mark.parametrize(
    "trouble",
    [
        NotReached("connection refused"),
        AnswerLost("slow"),
        problem(503, "store_unavailable", reason="locked"),
        problem(500, "internal_error"),
        Response(502, {}, b"<html>"),
    ],
)
def test_what_may_pass_is_tried_again(stream: Any, trouble: Outcome) -> None:
    stream.mark(100, {})
    with Asking(stream, [trouble, trouble]) as asking:
        assert asking.windows.time_window({}).lower == 100
        assert asking.wire.slept_ms == [50, 100]


def test_a_segment_unknown_to_the_controller_is_waited_for(stream: Any) -> None:
    with Asking(stream, []) as asking:
        asking.wire.meanwhile = lambda: stream.scale({"0": 8}, [NewSegment("3", 0.0, 1 / 3)])
        assert asking.windows.time_window({"3": 1}).lower is None
        assert asking.wire.asked == 2


def test_a_controller_that_stays_away_is_named_after_the_deadline(stream: Any) -> None:
    with Asking(stream, itertools.repeat(NotReached("connection refused"))) as asking:
        with pytest.raises(NoWindow) as raised:
            asking.windows.time_window({})
        assert asking.wire.now_ms == pytest.approx(WAIT_MS)
        assert max(asking.wire.slept_ms) <= WINDOW_PAUSE_BOUND_MS
    for word in (stream.url, f"{WAIT_MS} ms", "connection refused", "controllerWaitMs"):
        assert word in str(raised.value)
    assert "secret" not in str(raised.value)


def test_what_the_controller_refuses_is_raised_at_once(controller: Any, stream: Any) -> None:
    stream.seal({"0": 5})
    unknown = type(stream)(controller, "nothing")
    for asked, error in ((stream, BeyondFinalOffset), (unknown, UnknownStream)):
        with Asking(asked, []) as asking:
            with pytest.raises(error):
                asking.windows.time_window({"0": 9})
            assert asking.wire.asked == 1


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (problem(401, "unauthenticated", reason="no such token"), Unauthenticated),
        (problem(403, "forbidden", role="writer", call="read"), Forbidden),
        (Response(404, {}, b"not here"), UnexpectedAnswer),
        (Response(200, {"content-type": "application/json"}, b'{"lower": "soon"}'), UnexpectedAnswer),
    ],
)
def test_an_answer_that_no_waiting_can_mend_is_raised_at_once(
    stream: Any, outcome: Outcome, error: type[StrandlineError]
) -> None:
    with Asking(stream, [outcome]) as asking:
        with pytest.raises(error):
            asking.windows.time_window({"0": 9})
        assert asking.wire.asked == 1
