"""Calls over real sockets: what each kind of failure becomes, sync and async alike."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from strandline.client import calls
from strandline.client.calls import Call, Request, Response, ask
from strandline.client.http import AsyncConnection, AsyncHttpxTransport, Connection, HttpTransport, Seams
from strandline.client.retry import AnswerLost, NotReached, Outcome, Patience
from strandline.errors import AnswerTooLarge, ControllerAway, InvalidConfig, Overloaded, UnexpectedAnswer
from strandline.wire.problems import to_problem
from tests.client.conftest import GET, QUICK, SILENT_MS, Flavour, no_pause


def call() -> Call[object]:
    return ask("POST", "/v1/x?y=1", json.loads, {"a": 1}, repeatable=True)


# -- one attempt -----------------------------------------------------------------------------------------------


def test_a_request_has_one_compact_json_body_and_the_token_if_any_and_its_answer_comes_back(
    flavour: Flavour, scripted: Any
) -> None:
    scripted.then(scripted.answer(201, b'{"x": 1}', Strandline_Time="17"))
    request = Request(method="POST", path="/v1/x?y=1", body={"a": [1, "é"]}, repeatable=True)
    outcome = flavour.send(scripted.url + "/", request, token="abc")
    assert isinstance(outcome, Response)
    assert (outcome.status, outcome.body, outcome.headers["strandline-time"]) == (201, b'{"x": 1}', "17")
    flavour.send(scripted.url)
    received, bare = scripted.received
    assert (received.line, received.body) == ("POST /v1/x?y=1 HTTP/1.1", b'{"a":[1,"\\u00e9"]}')
    assert (received.headers["content-type"], received.headers["authorization"]) == ("application/json", "Bearer abc")
    assert bare.body == b"" and not {"authorization", "content-type"} & bare.headers.keys()


def test_where_nobody_listens_nothing_was_reached(flavour: Flavour, closed_port: str) -> None:
    assert isinstance(flavour.send(closed_port), NotReached)


@pytest.mark.parametrize("fault", ["hang_up", "cut_short", "babble", "stay_silent"])
def test_whatever_breaks_after_the_request_was_sent_loses_the_answer(
    flavour: Flavour, scripted: Any, fault: str
) -> None:
    scripted.then(getattr(scripted, fault))
    outcome = flavour.send(scripted.url)
    assert isinstance(outcome, AnswerLost)
    assert outcome.reason
    assert len(scripted.received) == 1


def test_an_answer_that_a_proxy_compressed_wrong_is_lost(flavour: Flavour, scripted: Any) -> None:
    scripted.then(scripted.answer(200, b"no gzip", Content_Encoding="gzip"))
    outcome = flavour.send(scripted.url)
    assert isinstance(outcome, AnswerLost)
    assert "decompressing" in outcome.reason


def test_an_answer_past_the_bound_is_not_read_to_its_end(flavour: Flavour, scripted: Any) -> None:
    scripted.then(scripted.answer(200, b"x" * 100_001))
    with pytest.raises(AnswerTooLarge, match="larger than 100000 bytes"):
        flavour.send(scripted.url, answer_bytes=100_000)


def test_an_answer_that_came_while_the_process_was_stopped_counts(flavour: Flavour) -> None:
    def stopped(request: httpx.Request) -> httpx.Response:
        time.sleep(0.02)  # for longer than the attempt may take; what is measured is time, so time has to pass
        return httpx.Response(200, content=b"{}")

    outcome = flavour.send("http://127.0.0.1:1", timeout_ms=1, client=flavour.mocked(stopped))
    assert isinstance(outcome, Response)
    assert outcome.body == b"{}"


# -- whole calls -----------------------------------------------------------------------------------------------


def test_calls_share_one_connection_and_get_over_a_lost_answer_and_a_redirect_is_not_followed(
    flavour: Flavour, scripted: Any
) -> None:
    scripted.then(scripted.answer(), scripted.hang_up, scripted.answer(), scripted.answer(307, Location="/elsewhere"))
    with pytest.raises(UnexpectedAnswer):
        flavour.run(scripted.url, call, call, call, patience=QUICK)
    assert [received.connection for received in scripted.received] == [1, 1, 2, 2]
    assert {received.body for received in scripted.received} == {b'{"a":1}'}


def test_what_was_seen_gets_no_older_by_an_answer_that_others_overtook_and_is_kept_of_the_streams_asked_about_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("strandline.client.http.SEEN_KEPT", 2)
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("strandline-seen"))
        if len(seen) == 1:
            transport.send(request_about("a"), SILENT_MS)  # as another thread does meanwhile
            return httpx.Response(200, headers={"strandline-version": "id-6"}, content=b"{}")
        return httpx.Response(200, headers={"strandline-version": "id-9"}, content=b"{}")

    def request_about(stream: str) -> Request:
        return Request(method="GET", path=f"/v1/streams/{stream}/marks", repeatable=True)

    transport = HttpTransport("http://127.0.0.1:1", client=lambda: httpx.Client(transport=httpx.MockTransport(answer)))
    for stream in "aabacab":
        transport.send(request_about(stream), SILENT_MS)
    transport.close()
    assert seen == [None, None, "id-9", None, "id-9", None, "id-9", None]


def test_https_at_a_port_with_http_is_named_at_once(flavour: Flavour) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with pytest.raises(ControllerAway, match="does not speak https: an address with http may be right"):
            flavour.run(
                f"https://127.0.0.1:{server.server_port}", call, patience=Patience(attempts=2), seams=no_pause()
            )
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_attempt_whose_time_ends_before_it_has_a_connection_sent_nothing(scripted: Any) -> None:
    async def run() -> Outcome:
        transport = AsyncHttpxTransport(scripted.url, token=None, trusted=None)
        try:
            return await transport.send(GET, 1e-9)
        finally:
            await transport.close()

    assert isinstance(asyncio.run(run()), NotReached)
    assert scripted.received == []


def test_an_overloaded_controller_is_asked_again_after_the_time_it_names(flavour: Flavour, scripted: Any) -> None:
    problem = json.dumps(to_problem(Overloaded(waiting=9, limit=8))).encode()
    scripted.then(scripted.answer(503, problem, Retry_After="2"), scripted.answer(200, b'"there"'))
    slept: list[float] = []

    async def sleep_async(seconds: float) -> None:
        slept.append(seconds)

    seams = Seams(now_ms=lambda: 0.0, sleep=slept.append, sleep_async=sleep_async, random=lambda: 0.0)
    assert flavour.run(scripted.url, call, seams=seams) == ["there"]
    assert slept == [2.025]


def test_a_long_poll_is_waited_for_beyond_the_time_of_an_attempt(flavour: Flavour, scripted: Any) -> None:
    late = threading.Event()
    answer = scripted.answer(200, b'{"marks": [], "identity": "1"}')

    def after_a_while(out: Any, over: threading.Event) -> bool:
        over.wait(SILENT_MS / 1000 + 0.1)
        late.set()
        return bool(answer(out, over))

    scripted.then(after_a_while)
    (page,) = flavour.run(scripted.url, lambda: calls.marks("orders", wait_ms=30_000), patience=QUICK)
    assert page.marks == ()
    assert late.is_set()
    assert len(scripted.received) == 1


def test_a_cancelled_call_is_closed(scripted: Any) -> None:
    closed: list[bool] = []

    def watched() -> Call[object]:
        try:
            return (yield from call())
        finally:
            closed.append(True)

    async def run() -> None:
        arrived, loop = asyncio.Event(), asyncio.get_running_loop()

        def tell_and_stay_silent(out: Any, over: threading.Event) -> bool:
            loop.call_soon_threadsafe(arrived.set)
            over.wait()
            return False

        scripted.then(tell_and_stay_silent)
        async with AsyncConnection(scripted.url) as connection:
            kept = watched()
            task = asyncio.create_task(connection.run(kept))
            await arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as cancelled:
                await task
            assert closed == [True], f"it was left to whoever lets go of {cancelled}"

    asyncio.run(run())


def test_a_call_is_closed_when_its_transport_breaks() -> None:
    class Broken:
        def send(self, request: Request, timeout_ms: float) -> Outcome:
            raise KeyboardInterrupt

        def close(self) -> None: ...

    closed: list[bool] = []

    def watched() -> Call[object]:
        try:
            return (yield from call())
        finally:
            closed.append(True)

    kept = watched()
    with pytest.raises(KeyboardInterrupt) as raised:
        Connection("http://nowhere", transport=Broken()).run(kept)
    assert closed == [True], f"it was left to whoever lets go of {raised}"


# -- what a connection is made of ------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "é"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        Connection("http://there", token=token)
    assert raised.value.value == "…"
