"""Requests that come in pieces, or several in one piece: each is judged by its own head, and answered in its turn."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing, suppress
from typing import Any

import pytest

from controller.storage.tokens import add_token, digest_of, open_tokens
from strandline.access import Grant, Role
from strandline.redaction import TOKEN_PREFIX
from tests.door.raw import Raw
from tests.served import NOON, OwnProcess

HOST = "Host: 127.0.0.1\r\n"
NOTES, WINDOW = "/v1/streams/s/notes", "/v1/streams/s/time-window"
READER, WRITER = TOKEN_PREFIX + "r" * 43, TOKEN_PREFIX + "w" * 43


def post(path: str, body: Any, more: str = "") -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\n{HOST}{more}Content-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


def note(time: int, writer: str, more: str = "") -> bytes:
    return post(NOTES, {"writer": writer, "time": time, "position": {"0": time}}, more)


def window(offset: int, more: str = "") -> bytes:
    return post(WINDOW, {"position": {"0": offset}}, more)


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}\r\n"


def time_of(process: OwnProcess, writer: str) -> int:
    found = process.client.get("/v1/streams/s/writers").json()["writers"]
    (time,) = (each["times"][""] for each in found if each["writer"] == writer)
    return int(time)


def test_pipelined_calls_are_answered_in_order_and_what_follows_one_that_closes_is_not(served: OwnProcess) -> None:
    many = {"notes": [{"writer": "order", "time": 12, "position": {"0": 12}}]}
    health = f"GET /healthz HTTP/1.1\r\n{HOST}\r\n".encode()
    with Raw(served) as raw:
        raw.send(note(10, "order") + health + window(9) + note(11, "order") + post(NOTES, many) + note(11, "order"))

        answers = [raw.answer() for _ in range(6)]

    assert [each.status for each in answers] == [200, 200, 200, 200, 200, 409]
    held, healthy, bounds, later, results, refused = (each.json for each in answers)
    assert "marks" in held and healthy == {"status": "ok"} and "lower" in bounds and "marks" in later
    assert len(results["results"]) == 1 and refused["code"] == "time_went_back"
    with Raw(served) as raw:
        raw.send(note(40, "last", "Connection: close\r\n") + note(41, "last"))
        assert raw.answer().closed
    assert time_of(served, "last") == 40


def test_an_answer_comes_in_one_piece(served: OwnProcess) -> None:
    with Raw(served) as raw:
        for time in range(1, 41):
            raw.send(note(time, "one piece"))
            assert raw.socket.recv(65536).endswith(b"}"), "the head came before the body"


CHUNKED = f"POST {NOTES} HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\nno size\r\n".encode()


@pytest.mark.parametrize("rubbish", [b"RUBBISH\r\n\r\n", CHUNKED], ids=["no request", "no whole request"])
@pytest.mark.parametrize("calls", [1, 3])
def test_calls_with_rubbish_behind_them_are_answered_and_then_the_connection_closes(
    served: OwnProcess, rubbish: bytes, calls: int
) -> None:
    with Raw(served) as raw:
        raw.send(b"".join(note(time, f"before-{calls}-{len(rubbish)}") for time in range(301, 301 + calls)) + rubbish)
        answers = [raw.answer() for _ in range(calls)]
        assert [each.status for each in answers] == [200] * calls and answers[-1].closed
    with Raw(served) as raw:
        answer = raw.send(rubbish).answer()
        assert answer.status == 400 and answer.closed


@pytest.mark.parametrize("cut", [1, 40, -60, -5, -1])
def test_a_request_may_come_in_pieces_or_with_more(served: OwnProcess, cut: int) -> None:
    writer = f"cut{cut}"
    with Raw(served) as raw:
        pieces = note(211, writer)
        raw.send(pieces[:cut])
        raw.send(pieces[cut:])
        assert raw.answer().status == 200 and time_of(served, writer) == 211
        raw.send(note(212, writer) + note(213, writer)[:cut])
        assert raw.answer().status == 200
        raw.send(note(213, writer)[cut:] + window(9))
        assert [raw.answer().status, raw.answer().status] == [200, 200]


# -- whose a request is ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A controller with tokens of a writer and of a reader, and a stream."""
    database = tmp_path_factory.mktemp("guarded") / "store.db"
    admin = TOKEN_PREFIX + "a" * 43
    with open_tokens(str(database), make=True) as connection:
        for name, role, token in (("adm", Role.ADMIN, admin), ("w", Role.WRITER, WRITER), ("r", Role.READER, READER)):
            add_token(connection, Grant(name=name, role=role, pattern="*"), digest_of(token.encode()), NOON)
    process = OwnProcess(database)
    try:
        process.client.headers["Authorization"] = f"Bearer {admin}"
        config = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
        assert process.client.put("/v1/streams/s", json=config).status_code == 201
        yield process
    finally:
        process.stop()
    assert "request_failed" not in process.log


@pytest.mark.parametrize("cut", [5, 60, 100])
def test_the_end_of_a_head_gives_nobody_the_rights_of_who_sent_its_begin(guarded: OwnProcess, cut: int) -> None:
    whole = note(310, "first", bearer(WRITER))
    with Raw(guarded) as first:
        for _ in range(3):
            first.send(whole[:cut])
            first.send(whole[cut:])
            assert first.answer().status == 200
        with Raw(guarded) as stranger:
            stranger.send(whole[cut:])

            assert stranger.answer().status in (400, 401)


def test_each_pipelined_request_is_judged_by_its_own_headers(guarded: OwnProcess) -> None:
    with Raw(guarded) as raw:
        raw.send(note(320, "mixed", bearer(WRITER)) + note(321, "mixed") + note(322, "mixed", bearer(READER)))
        raw.send(window(1, bearer(READER)) + window(1))

        assert [raw.answer().status for _ in range(5)] == [200, 401, 403, 200, 401]
    assert time_of(guarded, "mixed") == 320
    for path in ("/metrics", "/metrics%0A", "/metrics%0A%0A", "/v1/streams%0A"):  # a line feed at the end opens nothing
        with Raw(guarded) as raw:
            assert raw.send(f"GET {path} HTTP/1.1\r\n{HOST}\r\n".encode()).answer().status in (400, 401)


def test_a_request_that_begins_before_another_fails_is_judged_by_its_own_headers(guarded: OwnProcess) -> None:
    with Raw(guarded) as raw:
        for moment in (330, 331):  # a head that came before
            raw.send(note(moment, "failing", bearer(WRITER)))
            assert raw.answer().status == 200
        with closing(sqlite3.connect(guarded.database, isolation_level=None)) as store:
            store.execute("BEGIN IMMEDIATE")  # the first one's commit waits for this, and fails by the trigger
            store.execute("CREATE TRIGGER refuse BEFORE INSERT ON writer_change BEGIN SELECT RAISE(ABORT, 'no'); END")
            second = note(333, "failing")
            for piece in (note(332, "failing", bearer(WRITER)), second[:60]):
                raw.send(piece)
                time.sleep(0.1)  # so that they are read one after the other
            store.execute("COMMIT")
            assert raw.answer().status == 503
            store.execute("DROP TRIGGER refuse")
        raw.send(second[60:])
        assert raw.answer().status == 401
    assert time_of(guarded, "failing") == 331


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("ahead", [0, 65_536])  # of the hidden one: a piece that the parser gets at a time
def test_a_body_after_an_upgrade_is_no_request_of_its_own(served: OwnProcess, pieces: int, ahead: int) -> None:
    hidden = note(50, "smuggled")
    head = post(NOTES, b" " * ahead + hidden, "Connection: Upgrade\r\nUpgrade: h2c\r\n").partition(b"\r\n\r\n")[0]
    whole = (head + b"\r\n\r\n").ljust(ahead) + hidden
    at = len(whole) - len(hidden) if pieces == 2 else len(whole)
    with Raw(served) as raw:
        raw.send(whole[:at])
        with suppress(OSError):  # it may have ended
            raw.send(whole[at:])
        answer = raw.answer()

        assert (answer.status, answer.code) == (400, "bad_request") and "Upgrade" in answer.json["detail"]
        assert answer.closed

    found = served.client.get("/v1/streams/s/writers").json()["writers"]
    assert "smuggled" not in {each["writer"] for each in found}


ODD_HEADERS = (
    "Origin: null", "Origin: \x00", "Origin: \xff", "Sec-Fetch-Site: \xff", "Origin: null\r\nX-Forwarded-Host: \xff",
    "X-Forwarded-Prefix: /<script>", "Content-Type: \xff", "Expect: 200", "Connection: ,,,", "Upgrade: \x80",
    "Sec-WebSocket-Version: 8", "Sec-WebSocket-Key: x", "HTTP2-Settings: AAMAAABkAAQAAP__", "Authorization: Bearer",
    "Authorization: Bearer \xff", "Origin: http://127.0.0.1\r\nCookie: strandline_token=\xff; a=b", "Cookie: a;;=",
    "X-Request-Id: a\tb", "X-Request-Id: " + "a" * 200, "Last-Event-ID: \x80", "Strandline-Seen: \xff",
    "Range: bytes=0-", "If-None-Match: *", "Host:", "Host: \xff", "Host: a b", "Host: [::1]:1",
    "Host: 127.0.0.1:99999999", "Host: evil.example", "Content-Length: -1", "Content-Length: 5, 5",
    "Content-Length: 99999999999999999999", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding : x",
    "\x00: a", "a b: c", ": d", "no colon", " folded", "X-A: \x0b\x0c", "X: " + "y" * 20_000,
)  # fmt: skip
ASKED = (
    *("GET /v1/streams", "GET /v1/streams/s/marks", "GET /v1/streams/s/marks/live?after=none", "GET /", "GET /sign-in"),
    *("POST /sign-in", "POST /sign-out", "POST /v1/streams/s/notes", "DELETE /v1/streams/none", "GET /%ff%00"),
)


@pytest.mark.parametrize("token", [None, READER], ids=["stranger", "reader"])
@pytest.mark.parametrize("asked", ASKED)
def test_no_header_is_a_fault_of_the_controller(guarded: OwnProcess, asked: str, token: str | None) -> None:
    for odd in ODD_HEADERS:
        names = () if odd.startswith("Host") else (HOST.strip(),)
        shown = () if token is None or odd.startswith("Authorization") else (bearer(token).strip(),)
        head = "\r\n".join([f"{asked} HTTP/1.1", *names, *shown, odd, "Connection: close", "", ""])
        with Raw(guarded) as raw, suppress(OSError):  # a request of which nothing can be made may end unanswered
            status = raw.send(head.encode("latin-1")).socket.recv(12)[9:]
            assert status in (b"", b"200", b"204", b"303", b"400", b"401", b"403", b"404", b"409", b"413", b"415",
                              b"417", b"421", b"422", b"431", b"501"), (odd, status)  # fmt: skip
