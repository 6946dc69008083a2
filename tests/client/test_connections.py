"""Connections that are kept open between requests, answers that come in part or late, and requests over a proxy."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest

from strandline.client.calls import Request, Response
from strandline.client.http import HttpTransport
from strandline.client.over_httpx import CONNECTIONS
from strandline.client.retry import AnswerLost, NotReached, Outcome
from tests.client.conftest import GET, SILENT_MS, Flavour
from tests.in_thread import url_of

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def eventually(happens: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_certificates_are_loaded_for_https_alone(flavour: Flavour, monkeypatch: pytest.MonkeyPatch) -> None:
    load = Mock(return_value=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    monkeypatch.setattr(ssl, "create_default_context", load)
    for scheme, count in (("http", 0), ("https", 1), ("HTTPS", 2)):
        assert isinstance(flavour.send(f"{scheme}://127.0.0.1:1"), NotReached)
        assert load.call_count == count


def test_a_proxy_of_the_environment_gets_the_request(
    flavour: Flavour, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.then(scripted.answer(200, b'"there"'))
    monkeypatch.setenv("http_proxy", scripted.url)
    assert isinstance(flavour.send("http://controller.invalid:8433"), Response)
    assert scripted.received[0].line == "GET http://controller.invalid:8433/v1/x HTTP/1.1"


def test_an_address_without_its_proxy_is_called_directly_with_its_path_before_that_of_the_call(
    flavour: Flavour, scripted: Any, closed_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.then(scripted.answer())
    monkeypatch.setenv("http_proxy", closed_port)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert isinstance(flavour.send(scripted.url + "/a base"), Response)
    assert scripted.received[0].line == "GET /a%20base/v1/x HTTP/1.1"


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:

        def answer_and_close() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(ANSWER)

        transport = HttpTransport(url_of(listener))
        for _ in range(2):
            closed = thread.submit(answer_and_close)
            assert isinstance(transport.send(GET, SILENT_MS), Response)
            closed.result(60)
        transport.close()


@pytest.mark.parametrize("end", [1, 12, 17, 20, 36, len(ANSWER) - 1])
def test_an_answer_that_is_cut_anywhere_is_lost(flavour: Flavour, scripted: Any, end: int) -> None:
    def answer_in_part(out: Any, _: threading.Event) -> bool:
        out.write(ANSWER[:end])
        return False

    scripted.then(answer_in_part)
    assert isinstance(flavour.send(scripted.url), AnswerLost)


def test_a_request_for_which_no_connection_is_free_is_not_sent(scripted: Any) -> None:
    scripted.then(scripted.stay_silent)
    transport = HttpTransport([scripted.url, scripted.url + "/other"])
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        sent = [threads.submit(transport.send, GET, 60_000) for _ in range(CONNECTIONS)]
        eventually(lambda: len(scripted.received) == CONNECTIONS)
        assert transport.send(GET, 20) == NotReached("all connections are in use")
        scripted.over.set()
        assert [each.result() for each in sent]
    transport.close()


def test_an_answer_counts_that_came_before_the_request_was_read() -> None:
    """As 413 for a body that is too large: the server answers, and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as thread:

        def refuse() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1_000)
                connection.sendall(b"HTTP/1.1 413 X\r\nContent-Length: 2\r\n\r\n{}")

        refused = thread.submit(refuse)
        transport = HttpTransport(url_of(server))
        request = Request(method="POST", path="/v1/x", body={"a": "x" * 20_000_000}, repeatable=True)
        outcome = transport.send(request, SILENT_MS)
        refused.result()
        transport.close()
    assert isinstance(outcome, Response)
    assert (outcome.status, outcome.body) == (413, b"{}")


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"x: x\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
    ids=["its first line", "headers", "100 Continue", "a body", "chunks"],
)
def test_an_answer_that_drips_is_lost_in_time(flavour: Flavour, scripted: Any, begin: bytes, part: bytes) -> None:
    scripted.then(scripted.dripping(begin, part))

    def sent(timeout_ms: int) -> Outcome:
        began = time.monotonic()
        outcome = flavour.send(scripted.url, timeout_ms=timeout_ms)
        assert time.monotonic() - began < 30
        return outcome

    lost = AnswerLost("the answer took too long, and its connection was closed")
    assert lost in map(sent, (200, 1_000, 5_000))  # where the machine is busy, a part may come too late for a short one


def test_a_client_goes_on_after_an_answer_that_drips_until_it_is_closed(scripted: Any) -> None:
    scripted.then(scripted.dripping(b"", b"H"), scripted.answer())
    transport = HttpTransport(scripted.url)
    assert isinstance(transport.send(GET, 200), AnswerLost)
    assert isinstance(transport.send(GET, SILENT_MS), Response)
    transport.close()
    with pytest.raises(RuntimeError, match="is closed"):
        transport.send(GET, SILENT_MS)
    assert len(scripted.received) == 2
