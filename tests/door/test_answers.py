"""What every answer says to a browser, and odd requests that are answered as any other."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.door.raw import ask
from tests.served import OwnProcess

ALWAYS = {"x-content-type-options": "nosniff", "cross-origin-resource-policy": "same-origin"}
NOTE = b'{"writer":"w","time":1,"position":{}}'
REQUESTS = {
    "a note": b"POST /v1/streams/s/notes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 37\r\n\r\n" + NOTE,
    "a page": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a page for signing in": b"GET /sign-in HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a page that is not there": b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "the documentation": b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "the OpenAPI document": b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a probe": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "metrics": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a redirection": b"POST /sign-out HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a refusal": b"DELETE /v1/streams/none HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no such path": b"GET /v1/none HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a wrong host": b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "a foreign page": b"POST /sign-out HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n",
    "a socket of a foreign page": b"GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
}


@pytest.mark.parametrize("what", REQUESTS)
def test_every_answer_says_what_a_browser_may_do_with_it(served: OwnProcess, what: str) -> None:
    answer = ask(served, REQUESTS[what])

    assert {name: answer.headers.get(name) for name in ALWAYS} == ALWAYS
    if "socket" not in what:
        assert answer.headers["strandline-time"].isdigit() and answer.headers["x-request-id"]
    if answer.headers.get("content-type") == "application/json":
        return
    policy = answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "same-origin"
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "base-uri 'none'" in policy
    if "text/html" in answer.headers.get("content-type", ""):
        assert "http:" not in policy and "*" not in policy and "script-src 'unsafe-inline'" not in policy
    else:
        assert "-src '" not in policy.replace("default-src '", "")


def test_the_documentation_has_every_route_and_needs_nothing_else(served: OwnProcess) -> None:
    page = unescape(served.client.get("/docs").text)

    for path, methods in served.client.get("/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            assert f"<b>{method.upper()}</b> <code>{path}</code> {operation['summary']}" in page
    assert "<script" not in page and "//" not in page.replace("<!doctype", "")
    for named in re.findall(r'href="#(\w+)"', page):
        assert f'id="{named}"' in page


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"nonsense", 400),
        (b"OPTIONS * HTTP/1.1", 400),
        (b"GET * HTTP/1.1", 400),
        (b"OPTIONS a:80 HTTP/1.1", 400),
        (b"CONNECT a:80 HTTP/1.1", 400),
        (b"GET http:// HTTP/1.1", 400),
        (b"GET /\xff HTTP/1.1", 400),
        (b"GET /%ff%00 HTTP/1.1", 404),
        (b"PRI * HTTP/2.0", 400),
        (b"TRACE /healthz HTTP/1.1", 405),
        (b"OPTIONS /healthz HTTP/1.1", 405),
        (b"GET //healthz HTTP/1.1", 404),
        (b"HEAD /healthz HTTP/1.1", 200),
        (b"HEAD /v1/streams/nowhere HTTP/1.1", 404),
        (b"HEAD /v1/streams/nowhere/marks/live HTTP/1.1", 405),
    ],
)
def test_an_unusual_target_or_version_gets_its_proper_status(served: OwnProcess, line: bytes, status: int) -> None:
    answer = ask(served, line + b"\r\nHost: localhost\r\n\r\n")

    assert answer.status == status, answer
    assert status != 405 or "GET" in answer.headers["allow"]


def test_a_request_to_upgrade_is_answered_as_any_other(served: OwnProcess) -> None:
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
    assert ask(served, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + upgrade).status == 200
