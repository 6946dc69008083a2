"""Adds the dashboard to the application, at `/`, and keeps it away from the paths of the API."""

from __future__ import annotations

import importlib.util
import logging
import multiprocessing
from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.routing import Match, Mount
from starlette.types import Message, Receive, Scope, Send

from controller.dashboard import plain_pages
from controller.dashboard.limits import RECONNECT_S
from controller.dashboard.nonces import ScriptNonces
from controller.dashboard.visitor_gate import VisitorGate, bound_channels

log = logging.getLogger(__name__)

TITLE: Final = "Strandline"
# Their answers stay JSON problems where the API has no such path, or no such method.
_OF_THE_API: Final = ("/v1", "/healthz", "/readyz", "/metrics", "/docs", "/openapi.json")


class _Beside(Mount):
    """Handles every path that is not the API's."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = scope.get("path", "")
        if any(path == each or path.startswith(f"{each}/") for each in _OF_THE_API):
            return Match.NONE, {}
        return super().matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on a copy of the scope: the library stores itself where our error handler expects our application.

        A client that has left is not passed on: the library of the channel would report that as an error of its own.
        """
        if scope["type"] != "http":
            await super().handle(dict(scope), receive, send)
            return
        first: Message | None = await receive()
        if first is not None and first["type"] == "http.disconnect":
            return

        async def receive_all() -> Message:
            nonlocal first
            message, first = first, None
            return message if message is not None else await receive()

        await super().handle(dict(scope), receive_all, send)


def is_installed() -> bool:
    try:
        return importlib.util.find_spec("nicegui") is not None
    except ModuleNotFoundError:
        return False


def _has_shared_memory() -> bool:
    """Whether the library can start: it makes a pool of processes, which we do not use, and takes no for a failure."""
    try:
        multiprocessing.get_context("fork").Lock()
    except OSError:
        return False
    return True


def add_dashboard(app: FastAPI) -> None:
    """Adds the dashboard, or a page that says how to get it. Once in a process: the library keeps its pages globally.

    Called last, since it takes every path that nothing before it does.
    """
    if not is_installed():
        app.add_api_route("/", plain_pages.missing, include_in_schema=False, response_model=None)
        return
    if not _has_shared_memory():
        log.warning("there is no dashboard: its library needs /dev/shm, where this process may not write")
        app.add_api_route("/", plain_pages.no_shared_memory, include_in_schema=False, response_model=None)
        return
    import nicegui

    from controller.dashboard.pages import add_pages
    from controller.dashboard.visitors import router

    app.include_router(router)
    add_pages(app)
    nicegui.app.add_exception_handler(404, _no_page)
    nicegui.app.add_exception_handler(Exception, _failed)
    nicegui.app.add_middleware(ScriptNonces)  # first, so that it sees pages before they are compressed
    nicegui.app.config.quasar_config["loadingBar"]["skipHijack"] = True  # no bar for the library's own requests
    nicegui.ui.run_with(
        app,
        title=TITLE,
        favicon="🌊",
        dark=None,
        language="en-US",
        show_welcome_message=False,
        binding_refresh_interval=None,
        tailwind=False,  # it looks for its classes in the browser, at each change of a page; we have none of them
        reconnect_timeout=RECONNECT_S,
    )
    mounted = app.router.routes.pop()
    assert isinstance(mounted, Mount)
    bound_channels()
    app.router.routes.append(_Beside(mounted.path, VisitorGate(mounted.app)))


async def _no_page(request: Request, _error: Exception) -> HTMLResponse:
    return plain_pages.no_page(request.url.path)


async def _failed(_request: Request, error: Exception) -> HTMLResponse:
    return plain_pages.failed(error)
