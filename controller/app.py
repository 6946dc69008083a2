"""The application: the one place where its parts are put together."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from starlette.types import Message, Receive, Scope, Send

from controller.clock import HostClock
from controller.controller import Controller
from controller.dashboard.routes import add_dashboard
from controller.http.auth import Rules
from controller.http.browser_gate import BrowserGate
from controller.http.declared import DeclaredRoute, Routes
from controller.http.documentation import HEADERS, Documentation
from controller.http.metrics_text import MetricsText
from controller.http.middleware import Middleware
from controller.http.openapi import CONTRACT_VERSION, describe
from controller.http.request_bodies import BodiesRead
from controller.http.responses import JsonAnswer
from controller.http.routes import ROUTERS, declared_by
from controller.limits import DEFAULT_LIMITS, Limits
from controller.settings import Settings
from controller.storage.database import check_store
from controller.storage.refusals import StoreRefused


class SystemClock:
    """The clocks of this host."""

    # CLOCK_BOOTTIME goes on while the host is suspended; not every system has it.
    _MONOTONIC: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def wall(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> int:
        return time.clock_gettime_ns(self._MONOTONIC) // 1_000_000


class Application(FastAPI):
    """FastAPI inside of the middleware, which answers with problems: FastAPI's own layers for errors have no work."""

    def __init__(self, gate: BrowserGate, rules: Rules, *, dashboard: bool, **settings: Any) -> None:
        super().__init__(**settings)
        run_id = secrets.token_hex(4)
        self._envelope = Middleware(self.router, self, gate, rules, run_id, dashboard=dashboard)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._envelope(scope, receive, send)
            return

        async def send_in_words(message: Message) -> None:
            """Sends a sentence in place of a traceback if the store cannot be served: that is not a bug."""
            refused: StoreRefused | None = getattr(self.state, "refused", None)
            if refused is not None and message["type"] == "lifespan.startup.failed":
                message = {**message, "message": str(refused)}
            await send(message)

        await super().__call__(scope, receive, send_in_words)


def from_environment() -> Application:
    """The application with the settings of the environment, for servers that make it themselves:

        uvicorn --factory controller.app:from_environment

    A fresh store gets its schema. Without tokens it answers on loopback only, whatever address the server listens on.
    """
    settings = Settings.from_environment(os.environ)
    check_store(settings.database)
    return create_app(settings, dashboard=True)


def create_app(
    settings: Settings,
    *,
    clock: HostClock | None = None,
    name: str | None = None,
    dashboard: bool = False,
    by_hand: bool = False,
    routers: Sequence[Routes] = ROUTERS,
    limits: Limits = DEFAULT_LIMITS,
) -> Application:
    """The controller as an ASGI application.

    `clock` replaces the host's two clocks, None for the real ones. The host's wall clock may step back; the
    controller's never does. With a clock that is moved `by_hand`, nothing happens before `Controller.run_due`.
    `name` is what operators see of this controller. The store is opened when the application starts. A `dashboard`
    serves pages beside the API. A request is looked up in the `routers` in this order. `limits` are what callers may
    take.
    """

    host = SystemClock() if clock is None else clock

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            named = name if name is not None else f"{socket.gethostname()}:{os.getpid()}"
            controller = await Controller.start(settings.database, host, named, by_hand=by_hand, limits=limits)
        except StoreRefused as refused:
            app.state.refused = refused
            raise
        controller.measures.keys = settings.metrics_keys
        app.state.controller = controller
        app.state.exposition = MetricsText(controller)
        try:
            yield
        finally:
            await controller.stop()

    routes = declared_by(routers)
    app = Application(
        BrowserGate(settings.allowed_hosts, settings.host, insecure=settings.insecure),
        Rules(routes),
        dashboard=dashboard,
        title="Strandline",
        summary="Notes in, marks out: exact watermarks for partitioned logs.",
        version=CONTRACT_VERSION,
        lifespan=lifespan,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.grafana_url = settings.grafana_url
    app.state.bodies = BodiesRead(limits.bodies_bytes)
    _add_routes(app, routers)
    if dashboard:
        add_dashboard(app)
    app.openapi = partial(_openapi, app, routes)  # type: ignore[method-assign]  # FastAPI's own way to extend it
    return app


def _add_routes(app: FastAPI, routers: Sequence[Routes]) -> None:
    for router in routers:
        app.router.routes.extend(router.routes)  # `include_router` makes each of them again for each application
    documentation = Documentation(lambda: app.openapi())
    app.add_route("/docs", partial(_docs, documentation), include_in_schema=False)
    app.add_route("/openapi.json", partial(_openapi_json, documentation), include_in_schema=False)


def _openapi(app: FastAPI, routes: Sequence[DeclaredRoute]) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = describe(app, routes)
    return app.openapi_schema


async def _docs(documentation: Documentation, _request: Request) -> Response:
    return HTMLResponse((await documentation.documents()).page, headers=HEADERS)


async def _openapi_json(documentation: Documentation, _request: Request) -> Response:
    return JsonAnswer((await documentation.documents()).openapi)
