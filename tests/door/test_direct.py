"""Direct answers: which calls have them, and what a connection keeps to when it answers itself."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from controller.app import create_app
from controller.http.connection import HttpConnection
from controller.http.direct import DirectCall, direct_call
from controller.http.known_heads import KnownHead, KnownHeads
from controller.limits import SMALL_BODY_BYTES
from controller.settings import Settings
from tests.door.raw import Raw
from tests.in_thread import InThread
from tests.served import OwnProcess

HOST = "Host: 127.0.0.1\r\n"
NOTES, WINDOW = "/v1/streams/s/notes", "/v1/streams/s/time-window"


def post(path: str, body: Any, more: str = "") -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\n{HOST}{more}Content-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


def note(time: int, writer: str, more: str = "") -> bytes:
    return post(NOTES, {"writer": writer, "time": time, "position": {"0": time}}, more)


def window(offset: int) -> bytes:
    return post(WINDOW, {"position": {"0": offset}})


def time_of(process: OwnProcess, writer: str) -> int:
    found = process.client.get("/v1/streams/s/writers").json()["writers"]
    (time,) = (each["times"][""] for each in found if each["writer"] == writer)
    return int(time)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[InThread]:
    """A controller within the test's reach, with a stream."""
    app = create_app(Settings(database=str(tmp_path / "store.db")))
    started = InThread(app, socket.create_server(("127.0.0.1", 0)))
    try:
        assert started.ask("PUT", "/v1/streams/s", {"segments": 1}).is_success
        yield started
    finally:
        started.stop()


def holds_a_head(serving: InThread) -> bool:
    """Whether a connection has a head that waits for its body."""
    return any(cast(HttpConnection, each)._head for each in serving.server.server_state.connections)


def wait_until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("method", "path", "length", "has_one"),
    [
        ("POST", NOTES, b"60", True),
        ("POST", WINDOW, b"60", True),
        ("POST", NOTES, b"%d" % SMALL_BODY_BYTES, True),
        ("POST", NOTES, b"%d" % (SMALL_BODY_BYTES + 1), False),
        ("POST", NOTES, None, False),
        ("GET", NOTES, b"60", False),
        ("POST", "/v1/notes", b"60", False),
        ("POST", "/v1/streams//notes", b"60", False),
        ("POST", "/v1/streams/s/t/notes", b"60", False),
        ("POST", "/v1/streams/s/marks", b"60", False),
        ("POST", "/v1/reader-groups/s/notes", b"60", False),
    ],
)
def test_small_notes_and_windows_have_direct_answers(
    method: str, path: str, length: bytes | None, has_one: bool
) -> None:
    headers = [] if length is None else [(b"content-length", length)]

    assert (direct_call({"method": method, "path": path, "headers": headers}) is not None) == has_one


def test_pipelined_calls_are_answered_in_order_on_either_road(served: OwnProcess) -> None:
    many = {"notes": [{"writer": "order", "time": 12, "position": {"0": 12}}]}
    health = f"GET /healthz HTTP/1.1\r\n{HOST}\r\n".encode()
    with Raw(served) as raw:
        raw.send(note(10, "order") + health + window(9) + note(11, "order") + post(NOTES, many) + note(11, "order"))

        answers = [raw.answer() for _ in range(6)]

    assert [each.status for each in answers] == [200, 200, 200, 200, 200, 409]
    held, healthy, bounds, later, results, refused = (each.json for each in answers)
    assert "marks" in held and healthy == {"status": "ok"} and "lower" in bounds and "marks" in later
    assert len(results["results"]) == 1 and refused["code"] == "time_went_back"


def test_a_note_that_comes_byte_by_byte_is_taken(served: OwnProcess) -> None:
    with Raw(served) as raw:
        for byte in note(20, "slow"):
            raw.send(bytes([byte]))

        assert raw.answer().json["late"] is False


def test_a_note_before_garbage_is_answered_before_the_refusal(served: OwnProcess) -> None:
    with Raw(served) as raw:
        raw.send(note(30, "before") + b"\0garbage\r\n\r\n")

        assert [raw.answer().status, raw.answer().status] == [200, 400]
        assert raw.is_closed()


def test_what_follows_a_note_that_closes_is_not_answered(served: OwnProcess) -> None:
    with Raw(served) as raw:
        raw.send(note(40, "last", "Connection: close\r\n") + note(41, "last"))

        assert raw.answer().closed
    assert time_of(served, "last") == 40


def test_a_note_whose_sender_has_left_is_taken(served: OwnProcess) -> None:
    with Raw(served) as raw:
        raw.send(note(50, "gone"))
    with Raw(served) as raw:
        raw.send(note(50, "next")).answer()  # in the same commit or in a later one

    assert time_of(served, "gone") == 50


def test_a_note_of_a_foreign_page_or_another_type_is_refused(served: OwnProcess) -> None:
    foreign, form = "Origin: http://evil.example\r\n", "Sec-Fetch-Site: same-origin\r\nContent-Type: text/plain\r\n"
    with Raw(served) as raw:
        raw.send(note(60, "page", foreign) + note(60, "page", form) + note(60, "page"))

        assert [raw.answer().status for _ in range(3)] == [403, 415, 200]


def test_answers_of_both_roads_have_the_same_headers(served: OwnProcess) -> None:
    with Raw(served) as raw:
        raw.send(note(70, "heads", "X-Request-Id: mine\r\n"))
        direct = raw.answer().headers
        chunk = json.dumps({"writer": "heads", "time": 71, "position": {"0": 71}})
        head = f"POST {NOTES} HTTP/1.1\r\n{HOST}X-Request-Id: mine\r\nTransfer-Encoding: chunked\r\n\r\n"
        raw.send(f"{head}{len(chunk):x}\r\n{chunk}\r\n0\r\n\r\n".encode())
        applications = raw.answer().headers

    for headers in (direct, applications):
        del headers["strandline-time"], headers["content-length"]
    assert direct == applications and direct["x-request-id"] == "mine"


def test_a_direct_answer_renews_the_time_that_a_connection_may_idle(tmp_path: Path) -> None:
    app = create_app(Settings(database=str(tmp_path / "store.db")))
    serving = InThread(app, socket.create_server(("127.0.0.1", 0)))
    try:
        assert serving.ask("PUT", "/v1/streams/s", {"segments": 1}).is_success
        since = []
        for _ in range(2):
            assert serving.ask("POST", WINDOW, {"position": {}}).is_success
            waiting = serving.server._waits.idle.first()
            assert waiting is not None
            since.append(waiting[1])
            time.sleep(0.01)  # the loop counts milliseconds
    finally:
        serving.stop()

    assert since[0] < since[1]


# -- heads that a connection knows ---------------------------------------------------------------------------------


def test_equal_heads_with_other_bodies_are_other_notes(served: OwnProcess) -> None:
    with Raw(served) as raw:
        for time_ in (110, 111, 112):
            raw.send(note(time_, "equal"))
            assert raw.answer().json["late"] is False
            assert time_of(served, "equal") == time_
        raw.send(note(109, "equal"))

        assert raw.answer().json["code"] == "time_went_back"


@pytest.mark.parametrize("cut", [1, 40, -60, -5, -1])
def test_after_an_equal_head_the_body_may_come_in_pieces_or_with_more(served: OwnProcess, cut: int) -> None:
    writer = f"cut{cut}"
    with Raw(served) as raw:
        raw.send(note(210, writer))
        raw.answer()
        pieces = note(211, writer)
        raw.send(pieces[:cut])
        raw.send(pieces[cut:])
        assert raw.answer().status == 200 and time_of(served, writer) == 211
        raw.send(note(212, writer) + note(213, writer)[:cut])
        assert raw.answer().status == 200
        raw.send(note(213, writer)[cut:] + window(9))
        assert [raw.answer().status, raw.answer().status] == [200, 200]
        raw.send(note(214, writer))

        assert raw.answer().status == 200 and time_of(served, writer) == 214


def test_a_head_that_is_known_waits_for_its_body(served: OwnProcess) -> None:
    def head_and_body(time_: int) -> tuple[bytes, bytes]:
        head, end, body = note(time_, "in-two").partition(b"\r\n\r\n")
        return head + end, body

    with Raw(served) as raw:
        raw.send(note(260, "in-two"))
        raw.answer()
        for time_ in (261, 262):
            head, body = head_and_body(time_)
            raw.send(head)
            time.sleep(0.05)  # so that they are read one after the other
            raw.send(body)
            assert raw.answer().status == 200 and time_of(served, "in-two") == time_
        head, body = head_and_body(263)
        for piece in (head, body[:5], body[5:] + window(9)):
            raw.send(piece)
            time.sleep(0.05)
        assert [raw.answer().status, raw.answer().status] == [200, 200]
    with Raw(served) as raw:
        raw.send(head)  # and leaves
    assert time_of(served, "in-two") == 263


def test_a_controller_that_ends_waits_for_the_body_of_a_known_head(serving: InThread) -> None:
    head, end, body = window(1).partition(b"\r\n\r\n")
    with socket.create_connection(serving.listener.getsockname(), 30) as caller:
        caller.sendall(window(1))
        assert caller.recv(4096).startswith(b"HTTP/1.1 200")
        caller.sendall(head + end)
        wait_until(lambda: holds_a_head(serving))
        serving.server.should_exit = True
        wait_until(lambda: not holds_a_head(serving))
        caller.sendall(body)

        answer = caller.recv(4096)
        assert answer.startswith(b"HTTP/1.1 200") and b"connection: close" in answer


def test_equal_heads_with_ids_of_their_own_get_these_back(served: OwnProcess) -> None:
    with Raw(served) as raw:
        for turn in range(3):
            for number in range(8):
                writer = "w" * (number + 1)
                raw.send(note(310 + turn, writer, f"X-Request-Id: of-{number}\r\n"))
                assert raw.answer().headers["x-request-id"] == f"of-{number}"
                assert time_of(served, writer) == 310 + turn


def test_heads_are_known_by_their_door_and_forgotten_if_they_are_too_many() -> None:
    heads, plain, tls = KnownHeads(most=2), ("127.0.0.1", "http"), ("127.0.0.1", "https")
    known = KnownHead({}, DirectCall(lambda *_: None, "s"), 0)
    for head in (b"a", b"b"):
        heads.remember(plain, head, known)
    heads.remember(tls, b"c", known)
    at_plain = heads.at(plain)
    assert set(at_plain) == {b"a", b"b"} and set(heads.at(tls)) == {b"c"}

    heads.remember(plain, b"d", known)

    assert set(at_plain) == {b"d"} and heads.at(plain) is at_plain


def test_a_head_that_closes_or_has_another_method_is_never_taken_for_a_known_one(served: OwnProcess) -> None:
    for time_ in (410, 411):
        with Raw(served) as raw:
            raw.send(note(time_, "closing"))
            raw.answer()
            raw.send(note(time_, "closing", "Connection: close\r\n"))
            assert raw.answer().closed and raw.is_closed()
    with Raw(served) as raw:
        for time_ in (420, 421):
            raw.send(note(time_, "equal-line", 'X-A: "a"\r\n'))
            raw.answer()
        raw.send(note(422, "equal-line", 'X-A: "a"\r\n').replace(b"POST", b"GET ", 1))

        assert raw.answer().status in (400, 405)


def test_a_head_that_is_known_is_checked_anew_each_time(serving: InThread) -> None:
    with socket.create_connection(serving.listener.getsockname(), 30) as caller:
        for required, wanted in ((False, b"200"), (False, b"200"), (True, b"401")):
            serving.app.state.controller.tokens.required = required
            caller.sendall(window(1))
            assert caller.recv(4096).startswith(b"HTTP/1.1 " + wanted)
