"""Puts the dashboard on the application, at `/`, and keeps it away from the paths of the API."""

from __future__ import annotations

import importlib.util
from typing import Final

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from starlette.routing import Match, Mount
from starlette.types import Scope

TITLE: Final = "Strandline"
# Their answers stay JSON problems where the API has no such path, or no such method.
_OF_THE_API: Final = ("/v1", "/healthz", "/readyz", "/metrics", "/docs", "/openapi.json")
_MISSING: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Strandline</title>
<body style="font: 16px/1.5 system-ui, sans-serif; max-width: 38rem; margin: 4rem auto; padding: 0 1rem">
<h1>Strandline</h1><p>The controller is running. Its dashboard is not installed here; it comes with</p>
<pre>pip install 'strandline[dashboard]'</pre><p>and the next start of <code>strandline serve</code>.
The same can be seen in a terminal: <code>strandline watch</code>. The API describes itself at
<a href="/docs">/docs</a>.</p></body></html>
"""


class _Beside(Mount):
    """Takes every path that is not the API's."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = scope.get("path", "")
        if any(path == each or path.startswith(f"{each}/") for each in _OF_THE_API):
            return Match.NONE, {}
        return super().matches(scope)


def is_installed() -> bool:
    try:
        return importlib.util.find_spec("nicegui") is not None
    except ModuleNotFoundError:
        return False


def add_dashboard(app: FastAPI) -> None:
    """Adds the dashboard, or a page that says how to get it. Once in a process: the library keeps its pages globally.

    Called last, since it takes every path that nothing before it does.
    """
    if not is_installed():
        app.add_api_route("/", _missing, include_in_schema=False)
        return
    from nicegui import ui

    from controller.dashboard.pages import add_pages
    from controller.dashboard.visiting import router

    app.include_router(router)
    add_pages(app)
    ui.run_with(app, title=TITLE, favicon="🌊", dark=None, show_welcome_message=False, binding_refresh_interval=None)
    mounted = app.router.routes.pop()
    assert isinstance(mounted, Mount)
    app.router.routes.append(_Beside(mounted.path, mounted.app))


async def _missing() -> HTMLResponse:
    return HTMLResponse(_MISSING)
