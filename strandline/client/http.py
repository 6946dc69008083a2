"""Connections: calls driven over a transport; and httpx as one, in the only module that imports it.

A transport sends one request and says what came of it; below this seam sit httpx, a faster client, or a test. It
never raises for a controller that is away: that is an outcome. What is repeated is decided in `retry.py`.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar, assert_never
from urllib.parse import urlsplit

import httpx

from strandline.client.calls import Call, Request, Response
from strandline.client.credentials import check_token, find_token, trust
from strandline.client.loop import drive, drive_async
from strandline.client.retry import AnswerLost, NotReached, Outcome, Patience, Pause, Send, Step, Told, persist
from strandline.errors import InvalidConfig, UnexpectedAnswer
from strandline.fork import OwningProcess
from strandline.limits import ANSWER_BYTES, CONNECT_MS, CONNECTIONS, IDLE_CONNECTION_MS

Value = TypeVar("Value")

# What an attempt fails with before anything of the request was sent.
UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


class Transport(Protocol):
    """Sends requests, from several threads at once."""

    def send(self, request: Request, timeout_ms: float) -> Outcome: ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """Sends requests, from several tasks of one event loop at once."""

    async def send(self, request: Request, timeout_ms: float) -> Outcome: ...

    async def close(self) -> None: ...


def _monotonic_ms() -> float:
    return time.monotonic() * 1000


@dataclass(frozen=True, slots=True)
class Seams:
    """Where the loops meet the world: a clock that never steps back, sleep in seconds, numbers from 0 to 1."""

    now_ms: Callable[[], float] = _monotonic_ms
    sleep: Callable[[float], None] = time.sleep
    sleep_async: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random


class Connection:
    """A controller's address, and how calls reach it. Any number of writers and readers may share one."""

    def __init__(
        self,
        controller: str,
        *,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
        patience: Patience | None = None,
        transport: Transport | None = None,
        seams: Seams | None = None,
    ) -> None:
        """`controller` is a URL.

        Without `token` and `token_file` the environment's STRANDLINE_TOKEN and STRANDLINE_TOKEN_FILE count, without
        `ca_file`, which has the certificates to trust, its STRANDLINE_CA_FILE and SSL_CERT_FILE. A transport brings its
        own of both. Raises InvalidConfig for a URL that is none, a token that cannot be sent, files without either.
        """
        self.controller = check_controller(controller)
        self._origin = OwningProcess(f"a connection to {self.controller}")
        if transport is None:
            transport = HttpxTransport(controller, token=find_token(token, token_file), trusted=trust(ca_file))
        self._transport = transport
        self.patience = patience if patience is not None else Patience()
        self._seams = seams if seams is not None else Seams()

    def with_patience(self, patience: Patience) -> Connection:
        """The same connection, and the same transport, for calls that are kept up for longer or less long."""
        return Connection(self.controller, patience=patience, transport=self._transport, seams=self._seams)

    def run(self, call: Call[Value]) -> Value:
        """Makes a call; returns or raises what it does, or ControllerAway or OutcomeUnknown. Raises UsedAfterFork in a
        process that was forked from the one that made the connection."""
        self._origin.check()
        seams = self._seams
        steps = persist(
            call, patience=self.patience, random=seams.random, controller=self.controller, now_ms=seams.now_ms()
        )
        return drive(steps, self._take)

    def _take(self, step: Step) -> Told:
        outcome: Outcome | None
        match step:
            case Send(request, timeout_ms):
                outcome = self._transport.send(request, timeout_ms)
            case Pause(pause_ms):
                outcome = None
                self._seams.sleep(pause_ms / 1000)
            case _:
                assert_never(step)
        return Told(outcome, self._seams.now_ms())

    def close(self) -> None:
        if self._origin.is_here:  # else the parent goes on with it
            self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncConnection:
    """The same for one event loop."""

    def __init__(
        self,
        controller: str,
        *,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
        patience: Patience | None = None,
        transport: AsyncTransport | None = None,
        seams: Seams | None = None,
    ) -> None:
        """See `Connection`."""
        self.controller = check_controller(controller)
        self._origin = OwningProcess(f"a connection to {self.controller}")
        if transport is None:
            transport = AsyncHttpxTransport(controller, token=find_token(token, token_file), trusted=trust(ca_file))
        self._transport = transport
        self.patience = patience if patience is not None else Patience()
        self._seams = seams if seams is not None else Seams()

    def with_patience(self, patience: Patience) -> AsyncConnection:
        """See `Connection.with_patience`."""
        return AsyncConnection(self.controller, patience=patience, transport=self._transport, seams=self._seams)

    async def run(self, call: Call[Value]) -> Value:
        """See `Connection.run`."""
        self._origin.check()
        seams = self._seams
        steps = persist(
            call, patience=self.patience, random=seams.random, controller=self.controller, now_ms=seams.now_ms()
        )
        return await drive_async(steps, self._take)

    async def _take(self, step: Step) -> Told:
        outcome: Outcome | None
        match step:
            case Send(request, timeout_ms):
                outcome = await self._transport.send(request, timeout_ms)
            case Pause(pause_ms):
                outcome = None
                await self._seams.sleep_async(pause_ms / 1000)
            case _:
                assert_never(step)
        return Told(outcome, self._seams.now_ms())

    async def close(self) -> None:
        if self._origin.is_here:
            await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def reach(
    controller: str | Connection, *, token: str | None, token_file: str | None, ca_file: str | None
) -> tuple[Connection, Callable[[], None]]:
    """The connection of a client, and how it lets go of that: to a URL it has its own and closes it; one that is
    shared brings its own token and stays open."""
    if not isinstance(controller, str):
        return controller, lambda: None
    own = Connection(controller, token=token, token_file=token_file, ca_file=ca_file)
    return own, own.close


def reach_async(
    controller: str | AsyncConnection, *, token: str | None, token_file: str | None, ca_file: str | None
) -> tuple[AsyncConnection, Callable[[], Awaitable[None]]]:
    """The same for one event loop."""
    if not isinstance(controller, str):
        return controller, _stay_open
    own = AsyncConnection(controller, token=token, token_file=token_file, ca_file=ca_file)
    return own, own.close


async def _stay_open() -> None:
    pass


class HttpxTransport:
    """Requests over httpx. An attempt may take as much longer than its timeout as it takes to connect."""

    def __init__(
        self,
        controller: str,
        *,
        token: str | None = None,
        trusted: ssl.SSLContext | None = None,
        client: httpx.Client | None = None,
        answer_bytes: int = ANSWER_BYTES,
    ) -> None:
        """`trusted` instead of what the machine trusts; `client` is for proxies and the like; it is closed too."""
        self._answer_bytes = answer_bytes
        self._base = check_controller(controller)
        self._headers = _headers(token)
        self._client = client if client is not None else httpx.Client(limits=_limits(), verify=trusted or True)

    def send(self, request: Request, timeout_ms: float) -> Outcome:
        late_at = time.monotonic() + timeout_ms / 1000
        asked, body = _Asked(request, self._base, self._headers, timeout_ms), bytearray()
        try:
            with self._client.stream(
                asked.method, asked.url, content=asked.content, headers=asked.headers, timeout=asked.timeout
            ) as response:
                for chunk in response.iter_bytes():
                    if body and time.monotonic() > late_at:  # whoever was stopped meanwhile finds it all there
                        return AnswerLost(f"only {len(body)} bytes of the answer came in time")
                    body += chunk
                    if len(body) > self._answer_bytes:
                        raise _too_large(request, response, self._answer_bytes)
                return _response(response, bytes(body))
        except httpx.RequestError as error:
            return _outcome_of(error)

    def close(self) -> None:
        self._client.close()


class AsyncHttpxTransport:
    """The same, async. httpx's async client gets slower with concurrency: send many notes at once in one request."""

    def __init__(
        self,
        controller: str,
        *,
        token: str | None = None,
        trusted: ssl.SSLContext | None = None,
        client: httpx.AsyncClient | None = None,
        answer_bytes: int = ANSWER_BYTES,
    ) -> None:
        """`trusted` instead of what the machine trusts; `client` is for proxies and the like; it is closed too."""
        self._answer_bytes = answer_bytes
        self._base = check_controller(controller)
        self._headers = _headers(token)
        self._client = client if client is not None else httpx.AsyncClient(limits=_limits(), verify=trusted or True)

    async def send(self, request: Request, timeout_ms: float) -> Outcome:
        late_at = time.monotonic() + timeout_ms / 1000
        asked, body = _Asked(request, self._base, self._headers, timeout_ms), bytearray()
        try:
            async with self._client.stream(
                asked.method, asked.url, content=asked.content, headers=asked.headers, timeout=asked.timeout
            ) as response:
                async for chunk in response.aiter_bytes():
                    if body and time.monotonic() > late_at:  # whoever was stopped meanwhile finds it all there
                        return AnswerLost(f"only {len(body)} bytes of the answer came in time")
                    body += chunk
                    if len(body) > self._answer_bytes:
                        raise _too_large(request, response, self._answer_bytes)
                return _response(response, bytes(body))
        except httpx.RequestError as error:
            return _outcome_of(error)

    async def close(self) -> None:
        await self._client.aclose()


class _Asked:
    """A request in httpx's terms."""

    __slots__ = ("content", "headers", "method", "timeout", "url")

    def __init__(self, request: Request, base: str, headers: dict[str, str], timeout_ms: float) -> None:
        connect = min(timeout_ms, CONNECT_MS) / 1000
        self.method = request.method
        self.url = base + request.path
        self.timeout = httpx.Timeout(connect, read=timeout_ms / 1000)
        if request.body is None:
            self.content, self.headers = None, headers
        else:
            self.content = json.dumps(request.body, separators=(",", ":"), allow_nan=False).encode()
            self.headers = headers | {"Content-Type": "application/json"}


def check_controller(controller: str) -> str:
    """The URL of a controller, without a slash at its end. Raises InvalidConfig for anything else than one."""
    wanted = 'a URL with http or https, a host, and no user, query or fragment, like "http://127.0.0.1:8433"'
    try:
        parts = urlsplit(controller)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        raise InvalidConfig(name="controller", value=controller, wanted=wanted) from None
    if parts.username is not None or parts.password is not None:
        raise InvalidConfig(name="controller", value=f"{parts.scheme}://…@{parts.hostname}", wanted=wanted)
    named = parts.scheme in ("http", "https") and parts.hostname and port_is_fine
    if not named or parts.query or parts.fragment:
        raise InvalidConfig(name="controller", value=controller, wanted=wanted)
    return controller.rstrip("/")


def _headers(token: str | None) -> dict[str, str]:
    headers = {
        "Accept": "application/json, application/problem+json",
        "Accept-Encoding": "identity",
        "User-Agent": "strandline",
    }
    if token is not None:
        headers["Authorization"] = f"Bearer {check_token(token)}"
    return headers


def _limits() -> httpx.Limits:
    return httpx.Limits(
        max_connections=CONNECTIONS,
        max_keepalive_connections=CONNECTIONS,
        keepalive_expiry=IDLE_CONNECTION_MS / 1000,
    )


def _response(response: httpx.Response, body: bytes) -> Response:
    return Response(response.status_code, {name.lower(): value for name, value in response.headers.items()}, body)


def _too_large(request: Request, response: httpx.Response, limit_bytes: int) -> UnexpectedAnswer:
    return UnexpectedAnswer(
        call=request.name,
        answer_status=response.status_code,
        answer_code=None,
        reason=f"it is larger than {limit_bytes} bytes: ask for less at a time",
    )


def _outcome_of(error: httpx.RequestError) -> Outcome:
    reason = str(error) or type(error).__name__
    return NotReached(reason) if isinstance(error, UNSENT) else AnswerLost(reason)
