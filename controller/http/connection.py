"""Bounds for what a caller could take without end of a connection, for which uvicorn has no options:

    connections    past the limit, the one that has waited longest for its caller makes room
    bytes          of a head, of trailers, of what stands between two pieces of a body, of a body after its answer
    requests       behind one that is not answered
    time           to the first request, of a head, of a body, and until a caller reads its answer

A caller that breaks one is not answered. At the end of the process callers have less time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from controller.limits import Limits
from controller.operator_log import log_event

NEVER: Final = float("inf")
LOG_PAUSE_S: Final = 10.0  # between two log lines about too many connections
_HEAD: Final = b"HTTP/1.1 "
_OF_KNOWN_LENGTH: Final = b"\r\ncontent-length: "


class Connections:
    """The open connections of a process, at most `limit`, checked now and then: none has a timer of its own."""

    def __init__(self, limits: Limits, limit: int) -> None:
        self.limits = limits
        self.waiting: dict[HttpConnection, float] = {}  # for their callers, longest first, and since when
        self.open: set[HttpConnection] = set()
        self._limit = limit
        self._pause_s = min(limits.head_s, limits.body_s, limits.unread_answer_s, 2.0) / 4
        self._logged_at = -NEVER
        self.ends_at = NEVER  # when the process waits for callers no longer

    def stop(self, calls_end_in_s: float) -> None:
        """The process ends: callers have less time for what they have to send or to read."""
        within_s = min(calls_end_in_s - self.limits.cut_grace_s, self.limits.callers_s)
        self.ends_at = asyncio.get_running_loop().time() + max(0.0, within_s)

    def add(self, connection: HttpConnection, now: float) -> None:
        """Adds one that has begun. Past the limit one ends: it, if no other has waited for long."""
        if not self.open:
            connection.loop.call_later(self._pause_s, self._check, connection.loop)
        self.open.add(connection)
        self.waiting[connection] = now
        if len(self.open) > self._limit:
            oldest, since = next(iter(self.waiting.items()))
            (oldest if now - since >= self.limits.evicted_after_s else connection).end()
            if now - self._logged_at >= LOG_PAUSE_S:
                log_event("connections_full", logging.WARNING, open=len(self.open), limit=self._limit)
                self._logged_at = now

    def remove(self, connection: HttpConnection) -> None:
        self.open.discard(connection)
        self.waiting.pop(connection, None)

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(self.open):
            until = connection.awaited_until(now)
            if now > until or (now > self.ends_at and until != NEVER):
                connection.end()
        if self.open:
            loop.call_later(self._pause_s, self._check, loop)


class Joined(asyncio.Transport):
    """A transport that sends the head of an answer with what follows: uvicorn writes each by itself, and to send one
    more piece takes a tenth of the time of a note. What may have nothing behind it is sent at once."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._to = transport
        self._head = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._head:
            self._to.write(self._head + data)
            self._head = b""
        elif data[: len(_HEAD)] == _HEAD and _OF_KNOWN_LENGTH in bytes(data):
            self._head = bytes(data)
        else:
            self._to.write(data)

    def flush(self) -> None:
        """The answer is over: that to HEAD has nothing but a head."""
        if self._head:
            self._to.write(self._head)
            self._head = b""

    def close(self) -> None:
        self.flush()
        self._to.close()

    def abort(self) -> None:
        self._to.abort()

    def is_closing(self) -> bool:
        return self._to.is_closing()

    def pause_reading(self) -> None:
        self._to.pause_reading()

    def resume_reading(self) -> None:
        self._to.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # as asyncio has it
        return self._to.get_extra_info(name, default)


class HttpConnection(HttpToolsProtocol):
    """A connection of uvicorn's, which parses and answers."""

    def __init__(self, connections: Connections, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._among = connections
        self._limits = connections.limits
        self._is_over = False  # what comes from here on is not read
        self._bytes = self._unwanted_bytes = 0  # without progress; of a body, after its answer
        self._answering: RequestResponseCycle | None = None  # others wait in the pipeline, and uvicorn has the last one
        self._send_by = self._read_by = NEVER  # when the caller has to have sent, and read, more

    def end(self) -> None:
        self._among.remove(self)
        self.transport.abort()

    def awaited_until(self, now: float) -> float:
        """Until when its caller has to have sent or read more; NEVER if it waits for the answer itself."""
        if self.transport.is_closing() and self._read_by == NEVER:
            self._read_by = now + self._limits.unread_answer_s
        if self.flow.read_paused and self._send_by != NEVER:
            self._send_by = now + self._limits.body_s  # what we do not read is not the caller's fault
        return min(self._send_by, self._read_by)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        self._joined = Joined(transport)
        super().connection_made(self._joined)
        now = self.loop.time()
        self._send_by = now + self._limits.first_byte_s
        self._among.add(self, now)
        if self._among.ends_at != NEVER:
            self.shutdown()  # its TLS handshake took until now

    def connection_lost(self, exc: Exception | None) -> None:
        self._among.remove(self)
        super().connection_lost(exc)
        if self.timeout_keep_alive_task is not None:  # after a reset uvicorn would keep it, and all of this with it
            self.timeout_keep_alive_task.cancel()
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()

    def data_received(self, data: bytes) -> None:
        limits = self._limits
        for start in range(0, len(data), limits.head_bytes):
            if self._is_over or self.transport.is_closing():
                return
            piece = data[start : start + limits.head_bytes]
            self._bytes += len(piece)
            super().data_received(piece)
            bytes_exceed = self._bytes > limits.head_bytes or self._unwanted_bytes > limits.unwanted_bytes
            if bytes_exceed or len(self.pipeline) > limits.pipelined_requests:
                self.end()
        if self._send_by == NEVER and (self._answering is None or self.cycle.response_complete):
            # uvicorn waits for the next request no longer, although what came began none.
            self._send_by = self.loop.time() + limits.keep_alive_s

    def send_400_response(self, msg: str) -> None:
        """Answers what is no request. If there are whole requests before it, they are answered instead, and then the
        connection closes: a caller would take the refusal for theirs."""
        if self.pipeline and self.cycle.more_body:
            self.pipeline.popleft()  # it is not whole
        last = self.pipeline[0][0] if self.pipeline else self._answering
        if last is None or last.more_body or last.response_complete:
            super().send_400_response(msg)
            return
        last.keep_alive = False
        self._is_over = True
        self._send_by = NEVER

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read_by = self.loop.time() + self._limits.unread_answer_s

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read_by = NEVER

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._bytes = self._unwanted_bytes = 0
        self._send_by = self.loop.time() + self._limits.head_s

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if not self.pipeline:
            self._answering = self.cycle
        if self.parser.should_upgrade():
            # The parser takes what follows, the body too, for another request: nothing of it is read.
            self.cycle.keep_alive = False
            self._is_over = True
        else:
            self.headers = []  # what comes from here on are trailers, which are no headers
        self._bytes = 0
        self._send_by = self.loop.time() + self._limits.body_s

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._bytes = 0
        if self.cycle.response_complete:
            self._unwanted_bytes += len(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._send_by = NEVER
        if not self.cycle.response_complete:
            self._among.waiting.pop(self, None)

    def on_response_complete(self) -> None:
        self._joined.flush()
        is_last = not self.pipeline
        if not is_last:
            self._answering = self.pipeline[-1][0]
        super().on_response_complete()
        if is_last:
            self._among.waiting.setdefault(self, self.loop.time())
