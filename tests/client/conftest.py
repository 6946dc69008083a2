"""Servers that break off, stay silent or answer anything, as a test tells them; and the two clients that are alike."""

from __future__ import annotations

import asyncio
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedIOBase
from typing import Any, TypeAlias

import httpx
import pytest

from strandline.client.calls import Call, Request
from strandline.client.http import AsyncConnection, AsyncHttpxTransport, Connection, HttpTransport, Seams
from strandline.client.retry import Outcome, Patience


@dataclass
class Received:
    """A request as it came in."""

    line: str
    headers: Mapping[str, str]
    body: bytes
    connection: int


# What is done about a request; False: the connection ends with it.
Behaviour: TypeAlias = Callable[[BufferedIOBase, threading.Event], bool]


@dataclass
class ScriptedServer:
    """Does what is next in its script about each request; the last entry stays for all that follow."""

    url: str = ""
    script: list[Behaviour] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def then(self, *behaviours: Behaviour) -> None:
        self.script.extend(behaviours)

    @staticmethod
    def answer(status: int = 200, body: bytes = b"{}", **headers: str) -> Behaviour:
        def behave(out: BufferedIOBase, over: threading.Event) -> bool:
            lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
            lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
            out.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            return True

        return behave

    @staticmethod
    def hang_up(out: BufferedIOBase, over: threading.Event) -> bool:
        """The request was read, and the connection ends without an answer."""
        return False

    @staticmethod
    def cut_short(out: BufferedIOBase, over: threading.Event) -> bool:
        """The answer breaks off in its middle."""
        out.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"late": ')
        return False

    @staticmethod
    def babble(out: BufferedIOBase, over: threading.Event) -> bool:
        """What comes back is no HTTP."""
        out.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        return False

    @staticmethod
    def stay_silent(out: BufferedIOBase, over: threading.Event) -> bool:
        """No answer, until the test is over."""
        over.wait()
        return False

    @staticmethod
    def dripping(begin: bytes, part: bytes) -> Behaviour:
        """An answer that begins so, goes on with the same part again and again, each soon enough, and never ends."""

        def behave(out: BufferedIOBase, over: threading.Event) -> bool:
            out.write(begin)
            while not over.wait(0.01):
                out.write(part)
            return False

        return behave


class _Handler(socketserver.StreamRequestHandler):
    server: _Server
    disable_nagle_algorithm = True

    def handle(self) -> None:
        script = self.server.scripted
        with script.lock:
            script.connections += 1
            connection = script.connections
        while line := self.rfile.readline().decode().strip():
            headers: dict[str, str] = {}
            while header := self.rfile.readline().decode().strip():
                name, _, value = header.partition(":")
                headers[name.lower()] = value.strip()
            body = self.rfile.read(int(headers.get("content-length", 0)))
            with script.lock:
                script.received.append(Received(line, headers, body, connection))
                behave = script.script.pop(0) if len(script.script) > 1 else script.script[0]
            try:
                if not behave(self.wfile, script.over):
                    return
            except OSError:
                return  # the client has gone


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, scripted: ScriptedServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scripted = scripted
        scripted.url = f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def _serving() -> Iterator[ScriptedServer]:
    served = ScriptedServer()
    server = _Server(served)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        served.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with _serving() as served:
        yield served


@pytest.fixture
def other() -> Iterator[ScriptedServer]:
    """A second one, at another address."""
    with _serving() as served:
        yield served


@pytest.fixture
def closed_port() -> Iterator[str]:
    """An address where nobody listens: the port is bound, so that nobody else takes it."""
    import socket

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def no_pause() -> Seams:
    """Seams of calls that must not pause."""

    def sleep(seconds: float) -> None:
        raise AssertionError(f"it paused for {seconds} s")

    async def sleep_async(seconds: float) -> None:
        sleep(seconds)

    return Seams(sleep=sleep, sleep_async=sleep_async)


# An attempt takes as long only where no answer comes: a server of a busy machine has that long to read the request.
SILENT_MS = 2_000
QUICK = Patience(deadline_ms=60_000, attempt_ms=SILENT_MS, first_pause_ms=1, pause_bound_ms=1)
GET = Request(method="GET", path="/v1/x", repeatable=True)


@dataclass
class Flavour:
    """Either of the twins, to be used in the same way."""

    name: str
    runner: asyncio.Runner | None

    def mocked(self, answer: Callable[[httpx.Request], httpx.Response]) -> Any:
        """What a transport takes as `client`: one that answers so."""
        over = httpx.MockTransport(answer)
        return (lambda: httpx.Client(transport=over)) if self.runner is None else httpx.AsyncClient(transport=over)

    def send(
        self, url: str | Sequence[str], request: Request = GET, timeout_ms: float = SILENT_MS, **options: Any
    ) -> Outcome:
        if self.runner is None:
            transport = HttpTransport(url, **options)
            try:
                return transport.send(request, timeout_ms)
            finally:
                transport.close()

        async def send() -> Outcome:
            transport = AsyncHttpxTransport(url, **options)
            try:
                return await transport.send(request, timeout_ms)
            finally:
                await transport.close()

        return self.runner.run(send())

    def run(self, url: str | Sequence[str], *made: Callable[[], Call[Any]], **options: Any) -> list[Any]:
        """Makes calls one after the other over one connection."""
        if self.runner is None:
            with Connection(url, **options) as connection:
                return [connection.run(make()) for make in made]

        async def run() -> list[Any]:
            async with AsyncConnection(url, **options) as connection:
                return [await connection.run(make()) for make in made]

        return self.runner.run(run())


@pytest.fixture(params=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    if request.param == "sync":
        yield Flavour("sync", None)
    else:
        with asyncio.Runner() as runner:
            yield Flavour("async", runner)
