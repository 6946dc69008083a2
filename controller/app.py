"""The application: the one place where its parts are put together."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from threading import Lock
from typing import Any, Final

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse
from fastapi.telemetry import TelemetryConfig
from starlette.types import ASGIApp

from controller.clock import HostClock
from controller.dashboard.routes import add_dashboard
from controller.http.browser_gate import BrowserGate
from controller.http.documentation import HEADERS, page
from controller.http.metrics_text import MetricsText
from controller.http.middleware import Envelope
from controller.http.openapi import CONTRACT_VERSION, describe
from controller.http.problems import add_problems
from controller.http.request_bodies import BodiesRead
from controller.http.responses import JsonAnswer, to_json
from controller.http.routes import HOT, ROUTERS
from controller.http.shapes import in_front
from controller.lifecycle import start_controller
from controller.limits import DEFAULT_LIMITS, Limits
from controller.settings import Settings
from controller.storage.refusals import StoreRefused

OTLP_ENDPOINTS: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
)


class SystemClock:
    """The clocks of this host."""

    # CLOCK_BOOTTIME goes on while the host is suspended; not every system has it.
    _MONOTONIC: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def wall(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> int:
        return time.clock_gettime_ns(self._MONOTONIC) // 1_000_000


class Application(FastAPI):
    """FastAPI, with the hot routes in front of it: what it does around a handler takes longer than a note. It serves
    these too where something else has to see each call: a trace, or middleware that was added."""

    def __init__(self, around: Callable[[ASGIApp], ASGIApp], telemetry: TelemetryConfig, **options: Any) -> None:
        super().__init__(telemetry=telemetry, **options)
        self._around = around
        self._is_traced = telemetry["tracing"]
        self.add_middleware(around)

    def build_middleware_stack(self) -> ASGIApp:
        whole = super().build_middleware_stack()
        if self._is_traced or len(self.user_middleware) > 1:
            return whole
        return in_front(whole, HOT, self._around)


def create_app(
    settings: Settings | None = None,
    *,
    clock: HostClock | None = None,
    name: str | None = None,
    dashboard: bool = True,
    by_hand: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> FastAPI:
    """The controller as an application, for any server, and for use within another application:

        uvicorn --factory controller.app:create_app

    Without `settings`, it has those of the environment; OpenTelemetry's own variables count with both. A fresh store
    gets its schema. Without tokens it answers on loopback only, whatever address the server listens on.

    `clock` replaces the host's two clocks, None for the real ones. The host's wall clock may step back; the
    controller's never does. With a clock that is moved `by_hand`, nothing happens before `Controller.run_due`.
    `name` is what operators see of this controller. The store is opened when the application starts. A `dashboard`
    serves pages beside the API. `limits` are what callers may take.
    """
    if settings is None:
        settings = Settings.from_environment(os.environ)
    host = SystemClock() if clock is None else clock

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            named = name if name is not None else f"{socket.gethostname()}:{os.getpid()}"
            controller = await start_controller(settings.database, host, named, by_hand=by_hand, limits=limits)
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

    around = partial(Envelope, gate=BrowserGate(settings.allowed_hosts, settings.host, insecure=settings.insecure))
    app = Application(
        around,
        telemetry_of(os.environ),
        title="Strandline",
        summary="Notes in, marks out: exact watermarks for partitioned logs.",
        version=CONTRACT_VERSION,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.grafana_url = settings.grafana_url
    app.state.bodies = BodiesRead(limits.bodies_bytes)
    add_problems(app)
    for router in ROUTERS:
        app.include_router(router)
    _add_documentation(app)
    if dashboard:
        add_dashboard(app)
    return app


def telemetry_of(variables: Mapping[str, str]) -> TelemetryConfig:
    """What FastAPI sends by OpenTelemetry, to the endpoint that the standard variables name: a span for each call, and
    metrics and failures as it has them. Without an endpoint nothing, which also saves each call the look for a
    provider that FastAPI takes by default."""
    on = variables.get("OTEL_SDK_DISABLED", "").lower() != "true" and any(map(variables.get, OTLP_ENDPOINTS))
    auto_configure = on and variables.get("FASTAPI_OTEL_AUTO_CONFIGURE", "true").lower() == "true"
    return {"tracing": on, "metrics": on, "logs": on, "operation_spans": False, "auto_configure": auto_configure}


def _add_documentation(app: FastAPI) -> None:
    """/openapi.json, and /docs: the same as a page. They are made in a thread, once: they take as long as thousands of
    notes."""
    app.openapi = cache(partial(describe, app))  # type: ignore[method-assign]  # FastAPI's own way to extend it
    document: Callable[[], bytes] = cache(lambda: to_json(app.openapi()))
    shown: Callable[[], str] = cache(lambda: page(app.openapi()))
    making = Lock()  # who asks meanwhile waits: `cache` would make it for each of them

    @app.get("/openapi.json", include_in_schema=False)
    def openapi_json() -> Response:
        with making:
            return JsonAnswer(document())

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        with making:
            return HTMLResponse(shown(), headers=HEADERS)
