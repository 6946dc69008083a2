"""What a browser sends for a page that is not the controller's own is turned away, over real sockets."""

from __future__ import annotations

import socket
from collections.abc import Callable
from itertools import product

import pytest

from controller.http.routes import ROUTES
from tests.door.raw import Answer, ask
from tests.served import OwnProcess
from tests.tokens.test_serving import create

NOTE = b'{"writer": "w", "time": 1, "position": {}}'
NOTES = "/v1/streams/s/notes"
FOREIGN = (
    ("Origin: http://evil.example",),
    ("Origin: null",),
    ("Sec-Fetch-Site: cross-site",),
    ("Sec-Fetch-Site: same-site",),
    ("Origin: http://127.0.0.1:1", "Sec-Fetch-Site: same-site"),
    ("Origin: https://evil.example", "Sec-Fetch-Site: same-origin"),
)


def request(method: str, path: str, *headers: str, host: str | None = "localhost", body: bytes = b"") -> bytes:
    named = () if host is None else (f"Host: {host}",)
    length = (f"Content-Length: {len(body)}",) if body else ()
    return "\r\n".join([f"{method} {path} HTTP/1.1", *named, *headers, *length, "", ""]).encode("latin-1") + body


def state(process: OwnProcess) -> list[object]:
    paths = ("/v1/streams/s", "/v1/streams/s/writers", "/v1/streams/s/marks", "/v1/streams/s/journal", "/v1/streams")
    found = [process.client.get(path).json() for path in paths]
    found[0].pop("held_by")  # it says how long ago somebody was heard
    return found


# -- the name that was called --------------------------------------------------------------------------------------


OWN_NAMES = ("localhost", "LOCALHOST:1", "x.localhost", "127.0.0.1", "127.9.9.9:8433", "[::1]:8433")
POINTED_HERE = ("evil.example", "127.0.0.1.evil.example:8433", "10.1.2.3", "0.0.0.0:8433", "[::2]")
OPENING = (("GET", "/v1/streams"), ("GET", "/"), ("DELETE", "/v1/streams/s"), ("GET", "/docs"))


def test_it_answers_to_the_names_of_its_own_machine_and_a_name_that_was_pointed_at_it_opens_nothing_but_probes(
    served: OwnProcess,
) -> None:
    before = state(served)
    for host in OWN_NAMES:
        assert ask(served, request("GET", "/v1/streams", host=host)).status == 200, host
    for host, asked in product(POINTED_HERE, OPENING):
        answer = ask(served, request(*asked, host=host))
        assert (answer.status, answer.code) == (421, "wrong_host"), (host, asked)
        assert f"--allowed-host {host.partition(':')[0]}" in answer.json["detail"] or host == "[::2]"
    for path in ("/healthz", "/readyz"):
        assert ask(served, request("GET", path, host="balancer.example")).status == 200
    assert state(served) == before


@pytest.mark.parametrize("headers", [(), ("Host:",), ("Host: a b",), ("Host: a", "Host: b"), ("Host: u@a",)])
def test_a_request_without_one_host_is_refused(served: OwnProcess, headers: tuple[str, ...]) -> None:
    for path in ("/healthz", "/v1/streams", "/"):
        answer = ask(served, request("GET", path, *headers, host=None))
        assert (answer.status, answer.code) == (400, "bad_request"), path


def test_http_1_0_needs_no_host(served: OwnProcess) -> None:
    assert ask(served, b"GET /v1/streams HTTP/1.0\r\n\r\n").status == 200
    assert ask(served, request("GET", "/v1/streams", host=None)).code == "bad_request"  # also after one of 1.0
    assert ask(served, b"GET /v1/streams HTTP/1.0\r\nHost: evil.example\r\n\r\n").code == "wrong_host"


def test_names_can_be_added_in_the_environment(
    serve: Callable[..., OwnProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE_ALLOWED_HOST", "*.example.org, other.example")
    process, hosts = serve(), ("board.example", "a.example.org", "other.example")
    assert [ask(process, request("GET", "/v1/streams", host=host)).status for host in hosts] == [421, 200, 200]


def own_address() -> str | None:
    """An address of this machine beside loopback, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # which sends nothing
        except OSError:
            return None
        return str(probe.getsockname()[0])


def test_hosts_are_the_called_address_or_any_with_tokens(serve: Callable[..., OwnProcess]) -> None:
    process, address = serve("--host", "0.0.0.0", "--insecure"), own_address()

    def status(host: str, called: str = "127.0.0.1") -> int:
        with socket.create_connection((called, process.client.base_url.port or 0), timeout=60) as connection:
            connection.sendall(request("GET", "/v1/streams", host=host))
            return int(connection.recv(12)[9:])

    assert (status("127.0.0.1"), status("10.9.8.7"), status("strandline.example")) == (200, 421, 421)
    if address is not None:
        assert (status(address, address), status(address), status("10.9.8.7", address)) == (200, 421, 421)
    create(str(process.database), "admin", "--role", "admin")
    while status("127.0.0.1") == 200:  # it looks for tokens twice a second
        pass
    assert (status("strandline.example"), status("10.9.8.7")) == (401, 401)
    process.stop()
    process = serve("--host", "0.0.0.0", "--allowed-host", "strandline.example", "--allowed-host", "*.example.com")
    assert (status("strandline.example"), status("evil.example"), status("127.0.0.1")) == (401, 421, 401)
    assert (status("a.example.com"), status("example.com")) == (401, 421)
    process.stop()
    process = serve()
    assert (status("strandline.example"), status("localhost")) == (421, 401)  # on this machine the list holds


# -- the page that sent it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", FOREIGN)
def test_no_route_that_changes_something_takes_a_foreign_page(served: OwnProcess, headers: tuple[str, ...]) -> None:
    before = state(served)
    names = {"{stream}": "s", "{group}": "g", "{writer}": "w", "{reader}": "r", "{segment}": "0"}
    routes = [
        *(each.call for each in ROUTES if each.permission is not None),
        "POST /sign-in",
        "POST /sign-out",
        "POST /acts/exclude?stream=s&writer=w",
        "POST /tokens",
    ]
    for route in routes:
        method, path = route.split(" ")
        for parameter, name in names.items():
            path = path.replace(parameter, name)
        if method != "GET":
            answer = ask(served, request(method, path, "Content-Type: text/plain", *headers, body=NOTE))
            assert (answer.status, answer.code) == (403, "foreign_origin"), route
    assert state(served) == before


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("Origin: http://localhost", "Sec-Fetch-Site: same-origin"),
        ("Origin: http://localhost",),
        ("Sec-Fetch-Site: none",),
        ("Origin: https://board.example", "X-Forwarded-Host: board.example"),
        ("Origin: https://localhost",),
    ],
)
def test_its_own_pages_and_programs_may(served: OwnProcess, headers: tuple[str, ...]) -> None:
    noted = ask(served, request("POST", NOTES, "Content-Type: application/json", *headers, body=NOTE))
    assert noted.status == 200


def test_a_foreign_page_can_link_here_and_reads_nothing(served: OwnProcess) -> None:
    answer = ask(served, request("GET", "/v1/streams/s", "Origin: http://evil.example", "Sec-Fetch-Site: cross-site"))

    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    preflight = ask(
        served, request("OPTIONS", NOTES, "Origin: http://evil.example", "Access-Control-Request-Method: POST")
    )
    assert preflight.status == 405 and "access-control-allow-origin" not in preflight.headers


# -- what the body is called ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (("Content-Type: application/json",), 200),
        (("Content-Type: application/json; charset=utf-8",), 200),
        (("Content-Type: application/x-www-form-urlencoded",), 200),
        ((), 200),
        (("Content-Type: text/plain",), 415),
        (("Content-Type: multipart/form-data; boundary=x",), 415),
        (("Content-Type: application/x-www-form-urlencoded", "Origin: http://localhost"), 415),
        (("Content-Type: application/x-www-form-urlencoded", "Sec-Fetch-Site: none"), 415),
        (("Origin: http://localhost",), 415),
    ],
)
def test_a_body_is_json_by_name(served: OwnProcess, headers: tuple[str, ...], expected: int) -> None:
    def check(answer: Answer) -> None:
        assert answer.status == expected
        assert expected == 200 or answer.code == "wrong_media_type"

    check(ask(served, request("POST", NOTES, *headers, body=NOTE)))
    check(ask(served, request("POST", "/v1/streams/s/time-window", *headers, body=b'{"position": {}}')))
