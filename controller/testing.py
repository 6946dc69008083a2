"""The real controller in this process: its ASGI application on a store of its own, and a clock that the test moves."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from controller.app import create_app
from controller.lifecycle import Controller
from controller.limits import DEFAULT_LIMITS, Limits
from controller.settings import Settings
from strandline.client import calls
from strandline.client.calls import Request
from strandline.client.http import AsyncConnection, AsyncHttpxTransport, AsyncTransport, Connection
from strandline.client.retry import Outcome, Patience
from strandline.core.checks import check_whole
from strandline.core.config import StreamConfig
from strandline.testing.clock import ManualClock
from strandline.testing.faults import AsyncFaultyTransport, Faults, FaultyTransport, Script

ADDRESS: Final = "http://controller"  # of the controller, for connections in this process
LOCALHOST: Final = "127.0.0.1"

MARKS_AT_ONCE: Final = StreamConfig(mark_interval_ms=0, max_ahead_ms=None)
"""A mark for every advance, and times that may be far from the clock; otherwise the defaults of streams."""


class InProcessController:
    """A controller in this process, as a context manager. Only its clock and the network are not real.

    Its deadlines (timeouts of writers and readers, the mark interval) and its periodic work (the removal of old marks)
    depend only on the time that `pass_time` lets pass: nothing happens by itself, on a slow machine either. A caller's
    own wait (`wait_ms`) takes real time, and ends as soon as its event comes.
    """

    def __init__(
        self,
        database: Path | str | None = None,
        clock: ManualClock | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
        **settings: Any,
    ) -> None:
        """`database` is as in `Settings`; None is a temporary file. `settings` are the other fields of `Settings`.
        `limits` are those of the controller."""
        self._limits = limits
        self._open = ExitStack()
        if database is None:
            folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="strandline-"))
            database = Path(folder, "strandline.db")
        self.database = database
        self.clock = clock if clock is not None else ManualClock()
        self._settings = Settings(database=str(database), **settings)
        self._serving = ExitStack()
        self.app: FastAPI
        self.portal: BlockingPortal
        self._client: httpx.AsyncClient

    # -- streams and clients -----------------------------------------------------------------------------------------

    def create_stream(self, stream: str, segments: int = 1, config: StreamConfig = MARKS_AT_ONCE) -> bool:
        """Creates a stream with the segments "0", "1" and so on; returns whether it is new."""
        with self.connection() as connection:
            return connection.run(calls.create_stream(stream, segments, config))

    def connection(
        self, faults: Script | None = None, *, token: str | None = None, patience: Patience | None = None
    ) -> Connection:
        """A connection for writers and readers, with scripted faults. It never sleeps: pauses between attempts end at
        once, but count against deadlines."""
        inner = _FromOutside(self.portal, self._transport(token))
        transport = FaultyTransport(inner, faults if faults is not None else Faults())
        return Connection(ADDRESS, patience=patience, transport=transport, seams=transport.time.seams())

    def async_connection(
        self, faults: Script | None = None, *, token: str | None = None, patience: Patience | None = None
    ) -> AsyncConnection:
        """A connection for the event loop of the test."""
        inner = _FromAnotherLoop(self.portal, self._transport(token))
        transport = AsyncFaultyTransport(inner, faults if faults is not None else Faults())
        return AsyncConnection(ADDRESS, patience=patience, transport=transport, seams=transport.time.seams())

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Sends any request and returns the answer; `more` goes to httpx."""
        return self.request_soon(method, path, **more).result()

    def request_soon(self, method: str, path: str, **more: Any) -> Future[httpx.Response]:
        """Sends any request and does not wait for the answer."""
        return self.portal.start_task_soon(partial(self._client.request, method, path, **more))

    def listen(self) -> str:
        """Serves HTTP too, on a free loopback port; returns the URL, for other processes."""
        listener = self._open.enter_context(socket.create_server((LOCALHOST, 0)))
        config = uvicorn.Config(
            self._application, interface="asgi3", lifespan="off", log_config=None, log_level="warning"
        )
        self._open.enter_context(self.portal.wrap_async_context_manager(_served(uvicorn.Server(config), listener)))
        return f"http://{LOCALHOST}:{listener.getsockname()[1]}"

    # -- time --------------------------------------------------------------------------------------------------------

    def pass_time(self, milliseconds: int) -> None:
        """Lets time pass, and handles every deadline at its own moment. On return all effects are durable.

        Raises InvalidConfig for a time below 0: to step the clock back, set `clock.now`.
        """
        check_whole("milliseconds", milliseconds, least=0)
        self.portal.call(self._pass_time, milliseconds)

    async def _pass_time(self, milliseconds: int) -> None:
        controller: Controller = self.app.state.controller
        deadlines, until = controller.streams.timers, self.clock.now + milliseconds
        while (moment := deadlines.next_moment) is not None:
            wait_ms = max(0, moment - controller.clock.now())
            if self.clock.now + wait_ms >= until:
                break
            self.clock.now += wait_ms
            await deadlines.all_advanced()
            await asyncio.sleep(0)  # lets tasks run that wait for the effects
        self.clock.now = until
        await controller.run_due()

    def restart(self, *, after_ms: int = 0) -> None:
        """Stops the controller in order, and starts it again on the same store, `after_ms` later."""
        with self.stopped():
            self.clock.now += after_ms

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stops the controller in order during the block, which may replace its store, and starts it again."""
        self._serving.close()
        yield
        self._begin()

    # -- start and end -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.push(self._open.pop_all())
            self.portal = opened.enter_context(start_blocking_portal())
            opened.callback(lambda: self._serving.close())
            self._begin()
            client = httpx.AsyncClient(transport=self._asgi(), base_url=ADDRESS, timeout=30)
            self._client = opened.enter_context(self.portal.wrap_async_context_manager(client))
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def _begin(self) -> None:
        self.app = create_app(
            self._settings, clock=self.clock, name="test", by_hand=True, dashboard=False, limits=self._limits
        )
        lifespan = self.app.router.lifespan_context(self.app)
        self._serving.enter_context(self.portal.wrap_async_context_manager(lifespan))

    async def _application(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)  # the present one: connections outlive a restart

    def _asgi(self) -> httpx.ASGITransport:
        return httpx.ASGITransport(self._application)

    def _transport(self, token: str | None) -> AsyncTransport:
        return AsyncHttpxTransport(ADDRESS, token=token, client=httpx.AsyncClient(transport=self._asgi()))


class _FromOutside:
    """Sends requests from any thread to the controller's event loop."""

    def __init__(self, portal: BlockingPortal, inner: AsyncTransport) -> None:
        self._portal = portal
        self._inner = inner

    def send(self, request: Request, timeout_ms: float) -> Outcome:
        return self._portal.call(self._inner.send, request, timeout_ms)

    def close(self) -> None:
        self._portal.call(self._inner.close)


class _FromAnotherLoop:
    """Sends requests from the caller's event loop to the controller's."""

    def __init__(self, portal: BlockingPortal, inner: AsyncTransport) -> None:
        self._portal = portal
        self._inner = inner

    async def send(self, request: Request, timeout_ms: float) -> Outcome:
        return await asyncio.wrap_future(self._portal.start_task_soon(self._inner.send, request, timeout_ms))

    async def close(self) -> None:
        await asyncio.wrap_future(self._portal.start_task_soon(self._inner.close))


@asynccontextmanager
async def _served(server: uvicorn.Server, listener: socket.socket) -> AsyncIterator[None]:
    """Runs a server. The listener takes connections at once, so callers need not wait for the server's start."""
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving
