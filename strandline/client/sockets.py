"""Blocking requests over connections that are kept open, by the standard library's HTTP client.

Each request has a connection to itself. Afterwards the connection is kept for the next request to that address, unless
the server closes it.
"""

from __future__ import annotations

import http.client
import io
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlsplit

from strandline.client.calls import Response
from strandline.client.exchange import AllInUse, Exchange, Exchanged
from strandline.client.retry import AnswerLost, NotReached
from strandline.limits import CONNECTIONS, IDLE_CONNECTION_MS

_PART_BYTES: Final = 65_536
_SELECTOR: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)  # Windows has no poll
_BROKEN: Final = (OSError, http.client.HTTPException)


class KeptConnections:
    """Connections to any addresses, for any number of threads: at most CONNECTIONS, each idle for a while at most."""

    def __init__(self, trust: Callable[[], ssl.SSLContext]) -> None:
        """`trust` has the certificates to trust; it is called for the first address with https."""
        self._trust = trust
        self._trusted: ssl.SSLContext | None = None
        self._changed = threading.Condition()
        self._idle: list[_Kept] = []  # the one that was used last is last
        self._in_use = 0
        self._closed = False

    def exchange(self, sent: Exchange) -> Exchanged:
        """Sends a request and reads its answer. Raises UnexpectedAnswer for one that is too large."""
        kept = self._take(sent)
        if kept is None:
            return AllInUse("all connections are in use")
        lasts = False
        try:
            try:
                kept.connect(sent.connect_s)
            except _BROKEN as error:
                return NotReached(_reason(error))
            try:
                response, lasts = kept.ask(sent)
            except _BROKEN as error:
                return AnswerLost(_reason(error))
            return response
        finally:
            self._give_back(kept, lasts=lasts)

    def close(self) -> None:
        """Closes the idle connections, and each other one after its request."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
        for kept in idle:
            kept.close()

    def _take(self, sent: Exchange) -> _Kept | None:
        """A connection, which may have to be made; None if none was free in time."""
        superfluous = None
        with self._changed:
            if self._closed:
                raise RuntimeError("the connection to the controller is closed")
            if not self._changed.wait_for(self._has_room, sent.connect_s):
                return None
            self._in_use += 1
            for place in reversed(range(len(self._idle))):
                if self._idle[place].address == sent.address:
                    found = self._idle.pop(place)
                    break
            else:
                found = None
                if self._in_use + len(self._idle) > CONNECTIONS:
                    superfluous = self._idle.pop(0)
        if superfluous is not None:
            superfluous.close()
        if found is not None:
            if found.is_open():
                return found
            found.close()
        return _Kept(sent.address, self._context)

    def _has_room(self) -> bool:
        return self._in_use < CONNECTIONS

    def _give_back(self, kept: _Kept, *, lasts: bool) -> None:
        with self._changed:
            self._in_use -= 1
            lasts = lasts and not self._closed
            if lasts:
                kept.idle_since = time.monotonic()
                self._idle.append(kept)
            old = self._idle.pop(0) if self._idle and self._idle[0].is_old() else None
            self._changed.notify()
        if old is not None:
            old.close()
        if not lasts:
            kept.close()

    def _context(self) -> ssl.SSLContext:
        if self._trusted is None:
            self._trusted = self._trust()
        return self._trusted


class _HeadReader:
    """Reads the head of an answer line by line. The standard library takes a connection's end for the head's."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._file = file
        self.close = file.close

    def readline(self, limit: int) -> bytes:
        line = self._file.readline(limit)
        if not line.endswith(b"\n"):
            raise http.client.RemoteDisconnected("the head of the answer is not whole")
        return line


class _InTime(io.RawIOBase):
    """What a socket receives, until a moment. The first part may be late, after a pause of this process."""

    def __init__(self, sock: socket.socket, received: io.RawIOBase, late_at: float) -> None:
        self._sock = sock
        self._received = received
        self._late_at = late_at
        self._has_begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._has_begun:
            left_s = self._late_at - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("the answer did not come whole in time")
            self._sock.settimeout(left_s)
        self._has_begun = True
        return self._received.readinto(buffer)

    def close(self) -> None:
        self._received.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer with a whole head, which comes in time."""

    def __init__(self, sock: socket.socket, *, late_at: float, **given: Any) -> None:
        super().__init__(sock, **given)
        self.fp = io.BufferedReader(_InTime(sock, self.fp.detach(), late_at))

    def begin(self) -> None:
        if self.headers is None:
            file, self.fp = self.fp, _HeadReader(self.fp)
            try:
                super().begin()
            finally:
                if self.fp is not None:  # else it was closed
                    self.fp = file


class _AtOnce(http.client.HTTPConnection):
    """Sends head and body of a request at once; `http.client` would send two packets."""

    _held: list[bytes] | None = None  # what is to be sent, until it is whole

    def request_at_once(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> None:
        self._held = []
        try:
            self.request(method, path, body=body, headers=headers)
        finally:
            held, self._held = self._held, None
        self.send(b"".join(held))

    def send(self, data: Any) -> None:
        if self._held is None:
            super().send(data)
        else:
            self._held.append(data)


class _SecureAtOnce(_AtOnce, http.client.HTTPSConnection):
    """The same over TLS."""


class _Kept:
    """One connection. It is made when it is first needed."""

    __slots__ = ("_connection", "_path", "_selector", "address", "idle_since")

    def __init__(self, address: str, trust: Callable[[], ssl.SSLContext]) -> None:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        self.address = address
        self.idle_since = 0.0
        self._path = quote(parts.path, safe="/%:@!$&'()*+,;=~")
        self._connection = (
            _SecureAtOnce(host, port, context=trust()) if parts.scheme == "https" else _AtOnce(host, port)
        )
        self._selector = _SELECTOR()

    def connect(self, timeout_s: float) -> None:
        connection = self._connection
        if connection.sock is None:
            connection.timeout = timeout_s
            connection.connect()
            assert connection.sock is not None
            self._selector.register(connection.sock, selectors.EVENT_READ)

    def is_old(self) -> bool:
        return time.monotonic() > self.idle_since + IDLE_CONNECTION_MS / 1000

    def is_open(self) -> bool:
        """Whether a request may be sent. Something to read on an idle connection is its end."""
        return not self.is_old() and not self._selector.select(0)

    def ask(self, sent: Exchange) -> tuple[Response, bool]:
        """Sends a request over this connection; returns the answer, and whether the connection lasts."""
        connection, request = self._connection, sent.request
        connection.sock.settimeout(sent.wait_s)
        connection.response_class = partial(_Answer, late_at=sent.late_at)  # type: ignore[assignment]  # it makes one
        with suppress(BrokenPipeError, ConnectionResetError):  # a server may answer before it has read all of a request
            connection.request_at_once(request.method, self._path + request.path, sent.content, sent.headers)
        with connection.getresponse() as answer:
            while part := answer.read1(_PART_BYTES):
                sent.add(part, answer.status)
            if answer.length:
                raise http.client.IncompleteRead(bytes(sent.body), answer.length)
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Response(answer.status, headers, bytes(sent.body)), not answer.will_close

    def close(self) -> None:
        self._connection.close()


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
