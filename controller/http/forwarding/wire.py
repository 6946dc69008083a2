"""One connection to another controller, and one call on it at a time.

A client for general use costs several times what the call itself does; this one knows only what controllers send: an
answer with a length or in chunks.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from controller.limits import HEAD_BYTES, PEER_BUFFER_BYTES, PEER_CONNECT_MS

Headers = tuple[tuple[bytes, bytes], ...]

_PORTS: Final = {"http": 80, "https": 443}


class NotTaken(Exception):
    """Nothing was done: the call may be made again, also elsewhere."""


class NoAnswer(Exception):
    """It is not known whether the call was carried out."""


class Wire(asyncio.Protocol):
    """A connection. After `send` the answer is read with `head` and `pieces`, to its end or not at all."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.free_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._parser: httptools.HttpResponseParser
        self._pieces: deque[bytes] = deque()
        self._held_bytes = 0  # of the pieces
        self._head_bytes = 0
        self._in_call = self._has_head = self._complete = False
        self._keep_alive = True
        self._lost: str | None = None  # why nothing more comes
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_free(self) -> bool:
        """Whether another call may be sent."""
        return self._lost is None and self._keep_alive and (self._complete or not self._in_call)

    def send(self, request: bytes) -> None:
        """Sends a whole request."""
        self.status, self.headers = 0, []
        self._head_bytes = 0
        self._in_call, self._has_head, self._complete = True, False, False
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(request)

    async def head(self, within_s: float) -> None:
        """Waits for the status and the headers. Raises NoAnswer."""
        while not self._has_head:
            await self._more(within_s)

    async def pieces(self, within_s: float) -> AsyncIterator[bytes]:
        """The body as it comes, each piece within this time. Raises NoAnswer where it breaks off."""
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._held_bytes -= len(piece)
                if not self._pieces and self._lost is None:
                    self._transport.resume_reading()
                yield piece
            if self._complete:
                return
            await self._more(within_s)

    def close(self) -> None:
        """Ends the connection at once, and with it the call."""
        self._transport.abort()

    async def _more(self, within_s: float) -> None:
        if self._lost is not None:
            raise NoAnswer(self._lost)
        self._waiter = self._loop.create_future()
        try:
            async with asyncio.timeout(within_s):
                await self._waiter
        except TimeoutError:
            raise NoAnswer(f"nothing came for {within_s:.0f} s") from None
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, reason: str) -> None:
        self._lost = self._lost or reason
        self._transport.abort()
        self._wake()

    # -- what the event loop calls -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._in_call or self._complete:
            self._fail("it sent what nobody asked for")
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"its answer is no HTTP/1.1: {error}")
        if not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._fail(f"its headers are larger than {HEAD_BYTES} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = self._lost or (str(exc) if exc else "") or "it closed the connection"
        self._wake()

    # -- what the parser calls -----------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._has_head = True
        self._wake()

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._held_bytes += len(body)
        if self._held_bytes > PEER_BUFFER_BYTES:
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        self._complete = True
        self._keep_alive = self._parser.should_keep_alive()
        self._wake()


class Address:
    """Where another controller is."""

    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        """`tls` says whom to trust with https, None: as this machine does. Raises NotTaken for what is no such URL."""
        try:
            parts = urlsplit(url)
            host, port, scheme = parts.hostname, parts.port, parts.scheme
        except ValueError as error:
            raise NotTaken(f"its controller has no address that can be called: {error}") from None
        if host is None or scheme not in _PORTS:
            raise NotTaken("its controller has no address that can be called")
        self.authority = parts.netloc.rpartition("@")[2].encode("ascii", "replace")
        self._host, self._port = host, port or _PORTS[scheme]
        self._tls = (tls or ssl.create_default_context()) if scheme == "https" else None

    async def connect(self) -> Wire:
        """A new connection. Raises NotTaken."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(PEER_CONNECT_MS / 1000):
                _, wire = await loop.create_connection(Wire, self._host, self._port, ssl=self._tls)
        except TimeoutError:
            raise NotTaken(f"its controller was not reached in {PEER_CONNECT_MS} ms") from None
        except (OSError, ValueError) as error:  # a host that is none is a ValueError
            raise NotTaken(f"its controller was not reached: {error}") from None
        return wire
