"""Callers that send nothing, or slowly, or do not take their answers: each is given up after a while.

It takes half a minute, since the limits are the controller's own; so all of them are slow at the same time.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest

from controller.limits import BODY_DEADLINE_S, FIRST_BYTE_S, HANDSHAKE_S, HEAD_DEADLINE_S, LINGER_S, SEND_STALL_S
from tests.door.raw import PATIENCE_S, Raw
from tests.served import OwnProcess
from tests.tokens.test_serving import Certificate, certificate

pytestmark = pytest.mark.full

__all__ = ["certificate"]

LONGEST_S = max(FIRST_BYTE_S, HEAD_DEADLINE_S, BODY_DEADLINE_S, SEND_STALL_S, HANDSHAKE_S) + LINGER_S + PATIENCE_S
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
BODY = b"POST /v1/streams/s/notes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
ANSWERED = BODY.replace(b"/notes", b"/marks/live")  # which takes no POST, and says so before the body has come
WINDOW = BODY.replace(b"/notes", b"/time-window").replace(b"1000", b"15")
LARGE = b"GET /v1/streams/large HTTP/1.1\r\nHost: localhost\r\n"
ESTABLISHED = "01"

# What each sends at first, and then now and then.
SLOW = {
    "nothing": (b"", b""),
    "a head": (HEAD + b"X: ", b"a"),
    "a URL": (b"GET /", b"a"),
    "a body": (BODY, b" "),
    "a body in chunks": (BODY.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked"), b"1\r\n \r\n"),
    "a trailer": (BODY.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked") + b"0\r\nX: ", b"a"),
    "a body that nobody wants": (ANSWERED, b" "),
    "a second head": (HEAD + b"\r\n" + HEAD, b"a"),
}
TOO_SLOW = b'"code":"request_too_slow"'


class Slow:
    """Connections that send a byte now and then, until they end."""

    def __init__(self) -> None:
        self._open: dict[socket.socket, tuple[str, bytes]] = {}
        self._got: dict[str, bytes] = {}

    def add(self, name: str, raw: Raw, drop: bytes = b"") -> None:
        self._open[raw.socket], self._got[name] = (name, drop), b""

    def wait(self, deadline: float) -> dict[str, bytes]:
        """What each got until it ended."""
        while self._open:
            assert time.monotonic() < deadline, f"still open: {[name for name, _ in self._open.values()]}"
            for connection in select.select(list(self._open), [], [], 1)[0]:
                name = self._open[connection][0]
                try:
                    more = connection.recv(1 << 16)
                except OSError:
                    more = b""
                self._got[name] += more
                if not more:
                    del self._open[connection]
            for connection, (_, drop) in self._open.items():
                with suppress(OSError):  # that it ended is seen above
                    connection.send(drop)
        return self._got


def test_who_is_slow_is_given_up_and_hears_why(serve: Callable[..., OwnProcess], certificate: Certificate) -> None:
    trusted = ssl.create_default_context(cafile=certificate.certificate)
    plain = serve()
    secured = serve(
        *("--ssl-certfile", certificate.certificate, "--ssl-keyfile", certificate.key),
        database="tls.db",
        trusted=trusted,
    )
    for process in (plain, secured):
        process.client.put("/v1/streams/s", json={"segments": 1})
        process.client.put("/v1/streams/large", json={"segments": 3_000})
    with ExitStack() as opened:
        slow, stalled = Slow(), []
        for name, (first, drop) in SLOW.items():
            slow.add(name, opened.enter_context(Raw(plain)).send(first), drop)
            slow.add(f"{name}, over TLS", opened.enter_context(Raw(secured, trusted)).send(first), drop)
        known = opened.enter_context(Raw(plain)).send(WINDOW + b'{"position":{}}')
        assert known.answer().status == 200
        slow.add("a body after a head that is known", known.send(WINDOW))
        for name, first in (("nothing", b""), ("half a hello", b"\x16\x03\x01\x02\x00\x01"), ("no TLS", HEAD)):
            slow.add(f"{name} before TLS", opened.enter_context(Raw(secured)).send(first))
        for process, trust in ((plain, None), (secured, trusted)):
            for asked in ((LARGE + b"\r\n") * 60, LARGE + b"Connection: close\r\n\r\n"):
                stalled.append(opened.enter_context(Raw(process, trust, receives=4_096)).send(asked))
        deadline = time.monotonic() + LONGEST_S

        got = slow.wait(deadline)
        wait_until_given_up(stalled, deadline)

    for name, said in got.items():
        match name.removesuffix(", over TLS"):
            case "a body that nobody wants":
                assert said.startswith(b"HTTP/1.1 405 ") and said.count(b"HTTP/1.1 ") == 1, (name, said)
            case "a second head":
                assert said.startswith(b"HTTP/1.1 200 ") and said.count(b"HTTP/1.1 408 ") == 1, (name, said)
            case "nothing":
                assert said == b"", (name, said)
            case plainly if plainly in SLOW or plainly == "a body after a head that is known":
                assert said.startswith(b"HTTP/1.1 408 ") and TOO_SLOW in said, (name, said)
            case _:
                assert said == b"", (name, said)
    for process in (plain, secured):
        assert process.client.get("/healthz").status_code == 200
        assert process.client.get("/v1/streams/s/writers").json()["writers"] == []
        assert process.stop() == 0 and "Traceback" not in process.log


def wait_until_given_up(stalled: list[Raw], deadline: float) -> None:
    """The controller's end of a connection whose answer nobody takes is closed: only the kernel can tell."""
    wanted = {raw.socket.getsockname()[1] for raw in stalled}
    while wanted & held():
        assert time.monotonic() < deadline, "an answer that nobody takes is kept"
        select.select([], [], [], 0.5)


def held() -> set[int]:
    """The ports of those who are connected to a server of this machine that still holds its end."""
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return {int(remote.partition(":")[2], 16) for _, _, remote, state, *_ in rows if state == ESTABLISHED}
