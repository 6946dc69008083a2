"""One connection of a caller: uvicorn's, with a bound on everything that a caller may send, delay, or not read.

A connection waits for its caller in one of these states. A caller that takes too long, or sends too much, is refused:

    handshake ──► first byte ──► head ──► body ──► (it is answered) ──► idle ──► head …
                                                          │
                            (it is refused) ────► lingering ──► closed

No connection has a timer: `WaitQueues` has a queue for each state, and the server checks the queues now and then. The
application answers a refused request like any other: the answer has the same headers, and is counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final, NoReturn, Protocol, cast
from urllib.parse import unquote

import httptools
from starlette.types import Message
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_client_addr, get_path_with_query_string
from uvicorn.server import ServerState

from controller.http.browser_gate import PROBES
from controller.http.browser_policies import Header
from controller.http.middleware import REFUSAL
from controller.http.wait_queue import WaitQueue, longest
from controller.limits import (
    BODIES_BYTES,
    BODY_DEADLINE_S,
    DISCARDED_BYTES,
    EVICTED_AFTER_S,
    FIRST_BYTE_S,
    FRAMING_BYTES,
    HANDSHAKE_S,
    HEAD_BYTES,
    HEAD_DEADLINE_S,
    HEADER_BYTES,
    HEADERS,
    KEEP_ALIVE_S,
    LINGER_S,
    PIPELINED_REQUESTS,
    RESERVED_CONNECTIONS,
    RESERVED_S,
    SEND_STALL_BYTES,
    SEND_STALL_S,
    URL_BYTES,
)
from strandline.errors import (
    BadRequest,
    HeadersTooLarge,
    InternalFailure,
    Overloaded,
    RequestTooSlow,
    StrandlineError,
    TooLarge,
    UrlTooLong,
)
from strandline.limits import BODY_BYTES

log = logging.getLogger(__name__)

# Handlers that read bodies refuse a body that is too large themselves; any other body is cut off a little later.
READ_BY_OTHERS_BYTES: Final = BODY_BYTES + 4 * HIGH_WATER_LIMIT


class Caller(Protocol):
    """What may stand in a queue: a connection, or one that is about to begin."""

    def overdue(self, queue: WaitQueue[Caller]) -> None:
        """Called when it has waited too long in this queue, and was taken out of it."""

    def drop(self) -> None:
        """Ends it now, in any state."""


class WaitQueues:
    """The connections that wait for their callers, by what they wait for, and the memory that their bodies take."""

    def __init__(self) -> None:
        self.body_bytes = 0  # of all requests that are not answered yet
        self.handshake: WaitQueue[Caller] = WaitQueue(HANDSHAKE_S)  # of TLS
        self.first_byte: WaitQueue[Caller] = WaitQueue(FIRST_BYTE_S)  # of the first request
        self.head: WaitQueue[Caller] = WaitQueue(HEAD_DEADLINE_S)  # the rest of a request line and its headers
        self.body: WaitQueue[Caller] = WaitQueue(BODY_DEADLINE_S)  # the rest of a body
        self.idle: WaitQueue[Caller] = WaitQueue(KEEP_ALIVE_S)  # the next request
        self.lingering: WaitQueue[Caller] = WaitQueue(LINGER_S)  # the end of input that is discarded
        self.stalled: WaitQueue[Caller] = WaitQueue(SEND_STALL_S)  # until the caller reads more of an answer
        self.reserved: WaitQueue[Caller] = WaitQueue(RESERVED_S)  # the end of a connection for probes only
        self._evictable = (self.handshake, self.first_byte, self.head, self.body, self.idle, self.lingering)

    def look(self, now: float) -> None:
        """Ends what is overdue."""
        for queue in (*self._evictable, self.stalled, self.reserved):
            for caller in queue.overdue(now):
                caller.overdue(queue)

    def make_room(self, now: float) -> bool:
        """Ends the connection that has waited longest for its caller; False if none has waited for long."""
        caller = longest(self._evictable, now, EVICTED_AFTER_S)
        if caller is not None:
            self._drop(caller)
        return caller is not None

    def make_reserved_room(self) -> None:
        """Ends the oldest of the connections for probes, if all of their places are taken."""
        first = self.reserved.first()
        if first is not None and len(self.reserved) >= RESERVED_CONNECTIONS:
            self._drop(first[0])

    def _drop(self, caller: Caller) -> None:
        """Ends a connection. Until it has ended, it is not chosen again."""
        for queue in (*self._evictable, self.reserved):
            queue.leave(caller)
        caller.drop()


class _TurnedAway(Exception):
    """Ends the parsing of a request; the connection keeps the reason."""


class Exchange(RequestResponseCycle):
    """A request, and its answer."""

    body_bytes = 0  # received so far, of its body
    _head = b""  # of the answer, until it goes with the body

    def give_up(self) -> None:
        """Discards the rest of the answer. To the application it looks as if the client had left."""
        self.response_complete = True
        self.lose_client()

    def lose_client(self) -> None:
        self.disconnected = True
        self.message_event.set()

    async def send(self, message: Message) -> None:  # type: ignore[override]  # uvicorn types messages more narrowly
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if self.response_complete:
            raise RuntimeError(f"{message['type']} was sent after the end of the answer")
        if not self.response_started:
            self._send_head(message["status"], message.get("headers", ()))
        else:
            self._send_body(message.get("body", b""), more=message.get("more_body", False))

    def _begin(self, status: int) -> None:
        self.response_started = True
        if self.waiting_for_100_continue:
            # The client waits for permission to send the body. After this answer it may send the body or not. So the
            # next bytes could be a body or a request, and the connection ends.
            self.keep_alive = self.keep_alive and not self.more_body
            self.waiting_for_100_continue = False
        if self.access_log:
            _log_access(self.access_logger, self.scope, status)

    def _send_head(self, status: int, headers: Iterable[Header]) -> None:
        self._begin(status)
        lines = [STATUS_LINE[status]]
        for given, value in (*self.default_headers, *headers):
            name = given.lower()
            if name == b"content-length" and self.chunked_encoding is None:
                self.expected_content_length = int(value)
                self.chunked_encoding = False
            elif name == b"connection":
                self.keep_alive = self.keep_alive and b"close" not in value.lower()
                continue
            lines += (name, b": ", value, b"\r\n")
        count = len(lines) // 4 + 1
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
            count += 1
        if self.chunked_encoding is None and self.scope["method"] != "HEAD" and status not in (204, 304):
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
            count += 1
        lines.append(b"\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != count + 1 or head.count(b"\r") != count + 1 or b"\0" in head:
            raise RuntimeError("a header of the answer has a character that would end it")
        if self.chunked_encoding:  # its body may take long to begin
            self.transport.write(head)
        else:
            self._head = head

    def _send_body(self, body: bytes, *, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
            body = b""
        if self.chunked_encoding:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self.transport.write(chunk if more else chunk + b"0\r\n\r\n")
        else:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0:
                raise RuntimeError("the answer is longer than its Content-Length")
            self.transport.write(self._head + body)
            self._head = b""
        if not more:
            if self.expected_content_length:
                raise RuntimeError("the answer is shorter than its Content-Length")
            self._complete()

    def _complete(self) -> None:
        self.response_complete = True
        self.message_event.set()
        self.on_response()


def _log_access(logger: logging.Logger, scope: Any, status: int) -> None:
    logger.info(
        '%s - "%s %s HTTP/%s" %d',
        get_client_addr(scope),
        scope["method"],
        get_path_with_query_string(scope),
        scope["http_version"],
        status,
    )


class HttpConnection(HttpToolsProtocol):
    """A connection that speaks HTTP/1.1."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        loop: asyncio.AbstractEventLoop,
        waits: WaitQueues,
        *,
        overloaded: Overloaded | None = None,
    ) -> None:
        """With `overloaded`, it answers all requests but probes with that error, and closes after one answer."""
        super().__init__(config, server_state, app_state, loop)
        self._waits = waits
        self._queue: WaitQueue[Caller] | None = None  # where it waits for its caller
        self._overloaded = overloaded
        self._answering: Exchange | None = None  # its answer is being sent, or was the last one
        self._reading: Exchange | None = None  # its body is being received
        self._in_head = self._in_body = False
        self._run = 0  # bytes without progress: since a head began, or since the last byte of data of a body
        self._deaf = False  # further input is discarded
        self._cut = False  # a request was not read to its end
        self._discarded = 0  # bytes of this request that came after its answer
        self._refusal: StrandlineError | None = None
        self._unsent_bytes = 0  # at the last check of how much the caller has read

    # -- the beginning and the end -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        if self._overloaded is not None:
            self._waits.reserved.enter(self, self.loop.time())
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._waits.stalled.leave(self)
        self._waits.reserved.leave(self)
        self._drop_pipelined()
        if self._answering is not None:
            self._release(self._answering)
            self._answering.lose_client()
        super().connection_lost(exc)

    def drop(self) -> None:
        self._stop_waiting()
        self.transport.abort()

    def shutdown(self) -> None:
        if self._answering is None or (self._answering.response_complete and not self.pipeline):
            self.transport.close()
        else:
            self._answering.keep_alive = False

    def _end(self) -> None:
        """Closes the connection. A caller that is still sending can read the answer first: a reset would discard it."""
        self._deaf = True
        self._drop_pipelined()
        if self._cut or self._in_body:
            self.flow.resume_reading()
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self._wait()
        else:
            self._stop_waiting()
            self.transport.close()
            self._unsent_bytes = self.transport.get_write_buffer_size()
            self._waits.stalled.enter(self, self.loop.time())

    # -- waiting for the caller ----------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Enters the queue of the present state, unless it is there already."""
        waits, answering = self._waits, self._answering
        queue: WaitQueue[Caller] | None
        if answering is not None and not answering.response_complete and not self._in_head and not self._in_body:
            queue = None
        elif self._deaf:
            queue = waits.lingering
        elif self._in_body:
            queue = waits.body
        elif self._in_head:
            queue = waits.head
        else:
            queue = waits.first_byte if answering is None else waits.idle
        self._enter(queue)

    def _enter(self, queue: WaitQueue[Caller] | None) -> None:
        """Enters a queue, unless it is there already."""
        if queue is not self._queue:
            self._stop_waiting()
            self._queue = queue
            if queue is not None:
                queue.enter(self, self.loop.time())

    def _stop_waiting(self) -> None:
        if self._queue is not None:
            self._queue.leave(self)
            self._queue = None

    def overdue(self, queue: WaitQueue[Caller]) -> None:
        waits, now = self._waits, self.loop.time()
        if queue is waits.stalled:
            unsent = self.transport.get_write_buffer_size()
            if unsent and unsent <= self._unsent_bytes - SEND_STALL_BYTES:
                self._unsent_bytes = unsent
                queue.enter(self, now)
            else:
                self.drop()
        elif queue is waits.reserved:
            self.drop()
        elif queue is waits.body and self.flow.read_paused:
            queue.enter(self, now)  # we do not read it: that is not the caller's fault
        else:
            self._queue = None
            if queue is waits.lingering:
                self.drop()
            elif queue is waits.head:
                self._refuse(RequestTooSlow(what="the request's headers", limit_s=int(queue.limit_s)))
            elif queue is waits.body:
                self._refuse(RequestTooSlow(what="the request's body", limit_s=int(queue.limit_s)))
            else:
                self._end()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self._waits.stalled.enter(self, self.loop.time())

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._waits.stalled.leave(self)

    # -- reading -------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), HEAD_BYTES):
            self._feed(data[start : start + HEAD_BYTES] if len(data) > HEAD_BYTES else data)
        if self.parser is not None:  # else it has become a websocket
            self._wait()

    def _feed(self, data: bytes) -> None:
        """Parses a piece. A bound may be exceeded by what one piece holds."""
        if self._deaf or self.parser is None:
            self._discard(data)
            return
        self._run += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._upgrade()
            return
        except httptools.HttpParserError as error:
            self._refuse(self._refusal or self._fault(error))
            return
        if self._in_head and self._run > HEAD_BYTES:
            self._refuse(HeadersTooLarge(what="bytes of headers", limit=HEAD_BYTES))
        elif self._in_body and self._run > FRAMING_BYTES:
            self._refuse(BadRequest(reason=f"between two pieces of its body are more than {FRAMING_BYTES} bytes"))

    def _discard(self, data: bytes) -> None:
        """Counts discarded input; a caller that does not stop sending is dropped, and loses the answer."""
        self._discarded += len(data)
        if self._discarded > DISCARDED_BYTES and self.parser is not None:
            self.drop()

    def _fault(self, error: httptools.HttpParserError) -> StrandlineError:
        if isinstance(error, httptools.HttpParserCallbackError):  # an error of ours, which the parser passes on
            log.error("a request could not be read", exc_info=error)
            return InternalFailure(reason=type(error.__context__).__name__)
        return BadRequest(reason=str(error) or "it cannot be parsed")

    def _turn_away(self, error: StrandlineError) -> NoReturn:
        """Stops the parser within one of its callbacks."""
        self._refusal = error
        raise _TurnedAway

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._run = self._discarded = 0
        self._reading = None

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > URL_BYTES:
            self._turn_away(UrlTooLong(limit=URL_BYTES))

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:  # a trailer: it must not be taken for a header
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))
        if len(value) > HEADER_BYTES:
            self._turn_away(HeadersTooLarge(what="bytes in one header", limit=HEADER_BYTES))
        if len(self.headers) > HEADERS:
            self._turn_away(HeadersTooLarge(what="headers", limit=HEADERS))

    def on_headers_complete(self) -> None:
        came_in_pieces = self._run > 0  # else it is no larger than a piece
        self._in_head, self._in_body, self._run = False, True, 0
        if came_in_pieces and sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES:
            self._turn_away(HeadersTooLarge(what="bytes of headers", limit=HEAD_BYTES))
        scope, version = self.scope, self.parser.get_http_version()
        scope["method"] = self.parser.get_method().decode("ascii")
        if version not in ("1.1", "1.0"):
            self._turn_away(BadRequest(reason=f"HTTP/{version} is not spoken here"))
        scope["http_version"] = version
        self._read_target()
        if len(self.pipeline) >= PIPELINED_REQUESTS:
            waiting, what = len(self.pipeline), "requests wait on one connection"
            self._turn_away(Overloaded(waiting=waiting, limit=PIPELINED_REQUESTS, what=what))
        if self.parser.should_upgrade() and self._should_upgrade():
            if not self._is_free() or scope["method"] != "GET":
                self._turn_away(BadRequest(reason="a websocket begins with a GET, after all other answers"))
            return
        if self._overloaded is not None and scope["path"] not in PROBES:
            self._turn_away(self._overloaded)
        keep_alive = version == "1.1" and self._overloaded is None and self.parser.should_keep_alive()
        self._reading = self._exchange(keep_alive=keep_alive and not self.parser.should_upgrade())
        self._answer(self._reading)

    def _read_target(self) -> None:
        """Reads path and query. If the target is a whole URL, as in a request to a proxy, its host counts."""
        try:
            parsed = httptools.parse_url(self.url)
            raw_path = parsed.path or b"/"
            path = raw_path.decode("ascii")
        except (httptools.HttpParserError, UnicodeDecodeError):
            self._turn_away(BadRequest(reason="its target is no URL"))
        if parsed.schema:
            authority = self.url.partition(b"//")[2].partition(b"/")[0].partition(b"?")[0]
            self.headers[:] = [*(each for each in self.headers if each[0] != b"host"), (b"host", authority)]
            self.url = raw_path + (b"?" + parsed.query if parsed.query else b"")
        scope = self.scope
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = parsed.query or b""

    def on_body(self, body: bytes) -> None:
        self._run = 0
        exchange = self._reading
        if exchange is None or exchange.response_complete:
            self._discard(body)
            return
        waits = self._waits
        exchange.body_bytes += len(body)
        waits.body_bytes += len(body)
        if exchange.body_bytes > READ_BY_OTHERS_BYTES:
            self._turn_away(TooLarge(limit=BODY_BYTES))
        if waits.body_bytes > BODIES_BYTES:
            self._turn_away(Overloaded(waiting=waits.body_bytes, limit=BODIES_BYTES, what="bytes are being read"))
        exchange.body += body
        if len(exchange.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        exchange.message_event.set()

    def on_message_complete(self) -> None:
        exchange, self._reading = self._reading, None
        self._in_body = False
        if exchange is not None and not exchange.response_complete:
            exchange.more_body = False
            exchange.message_event.set()

    # -- answering -----------------------------------------------------------------------------------------------------

    def _exchange(self, *, keep_alive: bool) -> Exchange:
        return Exchange(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )

    def _release(self, exchange: Exchange) -> None:
        """Releases the memory of its body."""
        self._waits.body_bytes -= exchange.body_bytes
        exchange.body_bytes = 0

    def _drop_pipelined(self) -> None:
        """Drops the requests whose answers have not begun."""
        for waiting, _ in self.pipeline:
            self._release(cast(Exchange, waiting))
        self.pipeline.clear()

    def _is_free(self) -> bool:
        """Whether all answers that were due have been given."""
        return self._answering is None or (self._answering.response_complete and not self.pipeline)

    def _answer(self, exchange: Exchange) -> None:
        """Lets the application answer, in the order in which requests came."""
        self.cycle = exchange
        if self._is_free():
            self._start(exchange)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))

    def _start(self, exchange: Exchange) -> None:
        self._answering = exchange
        self._start_asgi_task(exchange, self.app)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        answered = self._answering
        assert answered is not None  # the answer that is complete is its own
        self._release(answered)
        if self.transport.is_closing():
            return
        if not answered.keep_alive:
            self._end()
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start(cast(Exchange, self.pipeline.pop()[0]))
        self._wait()

    def _refuse(self, error: StrandlineError) -> None:
        """Answers a request that was partly read with a problem, after all answers that are due; reads no more."""
        self._deaf = self._cut = True
        begun, self._reading = self._reading, None
        if self._in_head or begun is None:
            self._describe_what_is_known()
        self._in_head = self._in_body = False
        if begun is not None:
            if begun.response_started:
                self._end() if begun.response_complete else self.drop()
                return
            begun.give_up()
            self._release(begun)
            if self.pipeline and self.pipeline[0][0] is begun:
                self.pipeline.popleft()
        self.scope = {**self.scope, REFUSAL: error}  # type: ignore[typeddict-unknown-key]  # for our own application
        exchange = self._exchange(keep_alive=False)
        exchange.more_body = exchange.waiting_for_100_continue = False
        self._answer(exchange)
        self._wait()

    def _describe_what_is_known(self) -> None:
        """Makes a scope for a request that was partly read: without headers, and with the path as it was sent."""
        if not self._in_head and not self._in_body:
            self.on_message_begin()
        path = self.url.partition(b"?")[0][:URL_BYTES]
        self.scope |= {"headers": [], "path": path.decode("latin-1"), "raw_path": path, "query_string": b""}
        self.scope.setdefault("method", "GET")

    def _upgrade(self) -> None:
        """Becomes a websocket. For any other protocol, the request is answered and the connection closes."""
        if not self._should_upgrade():
            self._deaf = True
            return
        self._stop_waiting()
        self._waits.reserved.leave(self)
        self.handle_websocket_upgrade()
        self.parser = None  # type: ignore[assignment]  # as when the connection is lost
