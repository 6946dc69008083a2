"""Callers that send nothing, or slowly, or do not take their answers: the connection of each ends after a while."""

from __future__ import annotations

import select
import signal
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from controller.app import create_app
from controller.settings import Settings
from tests.door.raw import PATIENCE_S, Raw
from tests.in_thread import InThread
from tests.served import OwnProcess
from tests.tokens.test_serving import Certificate, certificate

__all__ = ["certificate"]

LIMITS = {"first_byte_s": 0.4, "head_s": 0.4, "body_s": 0.6, "unread_answer_s": 0.8, "keep_alive_s": 1}
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
BODY = b"POST /v1/streams/s/notes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
ANSWERED = BODY.replace(b"/notes", b"/marks/live")  # which takes no POST, and says so before the body has come
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
    "a line after an answer": (HEAD + b"\r\n", b"\r\n"),
    "a body after its answer": (ANSWERED + b" " * 998, b"\r\n"),
}


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


def test_who_reads_no_more_over_tls_does_not_hold_up_the_end(
    serve: Callable[..., OwnProcess], certificate: Certificate
) -> None:
    """Such a caller does not confirm the end of its connection. Past its time, uvicorn would log an error."""
    trusted = ssl.create_default_context(cafile=certificate.certificate)
    secured = serve("--ssl-certfile", certificate.certificate, "--ssl-keyfile", certificate.key, trusted=trusted)
    secured.client.put("/v1/streams/s", json={"segments": 1})
    with ExitStack() as opened:
        for asked in ("healthz", "v1/streams/s/marks/live", "v1/streams/s/marks?wait_ms=20000"):
            caller = opened.enter_context(Raw(secured, trusted))
            caller.send(f"GET /{asked} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            if "wait" not in asked:
                assert caller.socket.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        while "\nstrandline_waiting_readers 0" in secured.client.get("/metrics").text:
            pass
        assert secured.stop() == 0
    assert secured.errors == "", secured.errors


def test_a_handshake_that_ends_after_the_controller_began_to_end_is_not_waited_for(
    serve: Callable[..., OwnProcess], certificate: Certificate
) -> None:
    secured = serve("--ssl-certfile", certificate.certificate, "--ssl-keyfile", certificate.key)
    with Raw(secured) as caller:
        coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
        secure = ssl.create_default_context(cafile=certificate.certificate)
        session = secure.wrap_bio(coming, going, server_hostname="127.0.0.1")
        with suppress(ssl.SSLWantReadError):
            session.do_handshake()
        caller.send(going.read())
        while select.select([caller.socket], [], [], 0.3)[0]:
            coming.write(caller.socket.recv(1 << 16))
        session.do_handshake()
        session.write(HEAD + b"\r\n")
        secured.process.send_signal(signal.SIGTERM)
        with suppress(ConnectionError):
            while True:  # until it listens no more
                Raw(secured).socket.close()
        caller.send(going.read())
        assert secured.stop() == 0
    assert secured.errors == "", secured.errors


def test_a_slow_reader_over_tls_gets_a_whole_answer_before_its_connection_ends(
    tmp_path: Path, certificate: Certificate
) -> None:
    """All of the answer, which is below 64 KiB, waits in a buffer below TLS, which the controller cannot ask, for
    longer than a caller has to confirm that the connection ends."""
    trusted = ssl.create_default_context(cafile=certificate.certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        app = create_app(Settings(database=f"sqlite:///{tmp_path / 'store.db'}"))
        served = InThread(app, listener, (certificate.certificate, certificate.key), trusted)
        assert served.client.put("/v1/streams/large", json={"segments": 400}).is_success
        with socket.socket() as plain:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            plain.connect(listener.getsockname())
            with trusted.wrap_socket(plain, server_hostname="127.0.0.1") as caller:
                caller.sendall(LARGE + b"Connection: close\r\n\r\n")
                got = b""
                while more := caller.recv(2_048):
                    got += more
                    time.sleep(len(more) / 15_000)
        served.stop()
    head, _, body = got.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head, head


def test_the_connection_of_who_is_slow_ends(serve: Callable[..., OwnProcess], certificate: Certificate) -> None:
    trusted = ssl.create_default_context(cafile=certificate.certificate)
    plain = serve(**LIMITS)
    secured = serve(
        *("--ssl-certfile", certificate.certificate, "--ssl-keyfile", certificate.key),
        database="tls.db",
        trusted=trusted,
        **LIMITS,
    )
    for process in (plain, secured):
        process.client.put("/v1/streams/s", json={"segments": 1})
        process.client.put("/v1/streams/large", json={"segments": 3_000})
    with ExitStack() as opened:
        slow, stalled = Slow(), []
        for name, (first, drop) in SLOW.items():
            slow.add(name, opened.enter_context(Raw(plain)).send(first), drop)
            slow.add(f"{name}, over TLS", opened.enter_context(Raw(secured, trusted)).send(first), drop)
        for process, trust in ((plain, None), (secured, trusted)):
            for asked in ((LARGE + b"\r\n") * 60, LARGE + b"Connection: close\r\n\r\n"):
                stalled.append(opened.enter_context(Raw(process, trust, receives=4_096)).send(asked))
        deadline = time.monotonic() + PATIENCE_S

        got = slow.wait(deadline)
        wait_until_given_up(stalled, deadline)

    for name, said in got.items():
        match name.removesuffix(", over TLS"):
            case "a body that nobody wants" | "a body after its answer":
                assert said.startswith(b"HTTP/1.1 405 ") and said.count(b"HTTP/1.1 ") == 1, (name, said)
            case "a second head" | "a line after an answer":
                assert said.startswith(b"HTTP/1.1 200 ") and said.count(b"HTTP/1.1 ") == 1, (name, said)
            case _:
                assert said == b"", (name, said)
    for process in (plain, secured):
        assert process.client.get("/healthz").status_code == 200
        assert process.client.get("/v1/streams/s/writers").json()["writers"] == []
        assert process.stop() == 0 and "Traceback" not in process.log


def wait_until_given_up(stalled: list[Raw], deadline: float) -> None:
    """The controller's end of a connection whose answer nobody takes is closed: only the kernel can tell."""
    wanted = {(raw.socket.getpeername()[1], raw.socket.getsockname()[1]) for raw in stalled}
    while wanted & held():
        assert time.monotonic() < deadline, "an answer that nobody takes is kept"
        select.select([], [], [], 0.5)


def held() -> set[tuple[int, int]]:
    """The connections that this machine holds, each by its own port and the other's. The other's alone would not do:
    the kernel gives one port to connections with several servers."""
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    ends = ((own, remote) for _, own, remote, state, *_ in rows if state == ESTABLISHED)
    return {(int(own.partition(":")[2], 16), int(remote.partition(":")[2], 16)) for own, remote in ends}
