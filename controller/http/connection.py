"""One connection of a caller: uvicorn's, which parses and answers. What is added here counts, and ends connections:

    how many there are            past the limit, the one that has waited longest for its caller makes room
    bytes without progress        of a head, or of what stands between two pieces of a body
    requests on one connection    that wait for the answers before them
    time                          to the first request, of a head, of a body, and until a caller reads its answer

A caller that breaks a bound is no client of this API: its connection ends without an answer. At the end of the process
callers have less time.
"""

from __future__ import annotations

import asyncio
import logging
import select
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from controller.limits import Limits
from controller.records.operator_log import log_event

NEVER: Final = float("inf")
LOG_PAUSE_S: Final = 10.0  # between two log lines about too many connections
CONFIRMED_S: Final = 1.0  # how long a caller may take to confirm the end of a connection, as TLS has it


class Connections:
    """The open connections of a process, checked now and then: none of them has a timer of its own."""

    def __init__(self, limits: Limits, limit: int) -> None:
        """At most `limit` connections are open."""
        self.limits = limits
        self._limit = limit
        self._open: set[HttpConnection] = set()
        self._waiting: dict[HttpConnection, float] = {}  # for their callers, longest first, and since when
        self._pause_s = min(limits.head_s, limits.body_s, limits.unread_answer_s, 2.0) / 4
        self._checking = False
        self._made_room = self._turned_away = 0
        self._logged_at = -NEVER
        self._stops_waiting_at = NEVER  # for callers; set once the process ends

    @property
    def ending(self) -> bool:
        """Whether the process ends."""
        return self._stops_waiting_at != NEVER

    def stop(self, calls_end_in_s: float) -> None:
        """For the end of the process: callers have less time for what they have to send or to read."""
        within_s = min(calls_end_in_s - self.limits.cut_grace_s, self.limits.callers_s)
        self._stops_waiting_at = asyncio.get_running_loop().time() + max(0.0, within_s)

    def add(self, connection: HttpConnection, now: float) -> None:
        """Adds one that has begun. Past the limit, one has to end: it, if no other has waited for long."""
        self._open.add(connection)
        if len(self._open) > self._limit:
            oldest, since = next(iter(self._waiting.items()), (connection, now))
            if now - since >= self.limits.evicted_after_s:
                self._made_room += 1
            else:
                oldest = connection
                self._turned_away += 1
            oldest.end()
            self._log_full(now)
        if not self._checking:
            self._checking = True
            connection.loop.call_later(self._pause_s, self._check, connection.loop)

    def remove(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        self._waiting.pop(connection, None)

    def waits(self, connection: HttpConnection, now: float) -> None:
        """From now on this one waits for its caller."""
        self._waiting.setdefault(connection, now)

    def is_served(self, connection: HttpConnection) -> None:
        """From now on the caller of this one waits."""
        self._waiting.pop(connection, None)

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(self._open):
            awaited_until = connection.awaited_until(now)
            if now > awaited_until or (now > self._stops_waiting_at and awaited_until != NEVER):
                connection.end()
        self._checking = bool(self._open)
        if self._checking:
            loop.call_later(self._pause_s, self._check, loop)

    def _log_full(self, now: float) -> None:
        if now - self._logged_at >= LOG_PAUSE_S:
            log_event(
                "connections_full",
                logging.WARNING,
                open=len(self._open),
                limit=self._limit,
                made_room=self._made_room,
                turned_away=self._turned_away,
            )
            self._logged_at, self._made_room, self._turned_away = now, 0, 0


class HttpConnection(HttpToolsProtocol):
    """A connection that speaks HTTP/1.1."""

    def __init__(self, connections: Connections, **uvicorns: Any) -> None:
        """All but `connections` is what uvicorn gives its protocols."""
        super().__init__(**uvicorns)
        self._among = connections
        self._limits = connections.limits
        self._is_over = False  # what comes from here on is not read
        self._bytes = 0  # without progress
        self._unwanted_bytes = 0  # of a body, after its answer
        self._answering: RequestResponseCycle | None = None  # others wait in the pipeline, and uvicorn has the last one
        self._send_by = self._read_by = NEVER  # when the caller has to have sent, and read, more
        self._confirm_by = NEVER  # when it has to have confirmed the end of the connection, which it got

    def end(self) -> None:
        """Ends it now, in any state."""
        self._among.remove(self)
        self.transport.abort()

    def awaited_until(self, now: float) -> float:
        """Until when its caller has to have sent or read more; NEVER if it waits for the answer itself."""
        if self.transport.is_closing():
            if self._read_by == NEVER:
                self._read_by = now + self._limits.unread_answer_s
            if not self._all_is_sent():
                self._confirm_by = NEVER
            elif self._confirm_by == NEVER:
                self._confirm_by = now + CONFIRMED_S
        if self.flow.read_paused and self._send_by != NEVER:
            self._send_by = now + self._limits.body_s  # what we do not read is not the caller's fault
        return min(self._send_by, self._read_by, self._confirm_by)

    def _all_is_sent(self) -> bool:
        """Whether the system has all that its caller is to get. Over TLS there is a buffer below the one that can be
        asked: while something waits there, the socket takes no more."""
        socket = self.transport.get_extra_info("socket")  # None if it has ended just now
        if socket is None or self.transport.get_write_buffer_size():
            return socket is None
        poll = select.poll()
        poll.register(socket.fileno(), select.POLLOUT)
        return bool(poll.poll(0))

    def _exceeds(self) -> bool:
        limits = self._limits
        waiting, unwanted = len(self.pipeline), self._unwanted_bytes
        return (
            self._bytes > limits.head_bytes or waiting > limits.pipelined_requests or unwanted > limits.unwanted_bytes
        )

    # -- from the transport --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        now = self.loop.time()
        self._send_by = now + self._limits.first_byte_s
        self._among.waits(self, now)
        self._among.add(self, now)
        if self._among.ending:
            self.shutdown()  # its TLS handshake took until now

    def connection_lost(self, exc: Exception | None) -> None:
        self._among.remove(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # after a reset uvicorn would keep the timer, and all of this with it
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()

    def data_received(self, data: bytes) -> None:
        most = self._limits.head_bytes
        for start in range(0, len(data), most):
            if self._is_over:
                return
            piece = data[start : start + most] if len(data) > most else data
            self._bytes += len(piece)
            super().data_received(piece)
            if self._exceeds():
                self.end()
            if self.transport.is_closing():
                return
        if self._send_by == NEVER and (self._answering is None or self._answering.response_complete):
            # uvicorn waits for the next request no longer, although what came began none.
            self._send_by = self.loop.time() + self._limits.keep_alive_s

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read_by = self.loop.time() + self._limits.unread_answer_s

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read_by = NEVER

    # -- from the parser -----------------------------------------------------------------------------------------------

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
        self._bytes = 0
        self._send_by = NEVER
        if not self.cycle.response_complete:
            self._among.is_served(self)

    def on_response_complete(self) -> None:
        is_last = not self.pipeline
        if not is_last:
            self._answering = self.pipeline[-1][0]
        super().on_response_complete()
        if is_last:
            self._among.waits(self, self.loop.time())
