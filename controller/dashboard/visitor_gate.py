"""The gate in front of the dashboard's library: only signed-in visitors pass, in bounded numbers.

The library keeps state for every page and every channel that is requested. So no caller who has not signed in reaches
it, and the number of both is bounded. `controller/http/browser_gate.py` has already refused pages of other origins.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.cluster.records import ControllerRow
from controller.dashboard import page_home, plain_pages
from controller.dashboard.limits import CHANNEL_BYTES, CHANNELS, PAGE_OPENING_S, PAGES
from controller.dashboard.visitors import to_sign_in, visitor
from controller.http.request_bodies import read_body
from strandline.errors import BadJson, TooLarge

CHANNEL: Final = "/_nicegui_ws/"
ASSETS: Final = "/_nicegui/"
_NOBODY: Final = "sign in first, at /sign-in"
_FULL: Final = f"{CHANNELS} channels of the dashboard are open, which is the most that there can be"
_POLL: Final = "this page was drawn by another controller: its channel has to poll here"
_TOO_LARGE: Final = f"a message of a page has at most {CHANNEL_BYTES} bytes"


class VisitorGate:
    """Lets signed-in visitors through to the library, with a bounded number of pages and channels."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["strandline.tokens"] = scope["app"].state.controller.tokens
        home = page_home.home_of(scope)
        if home is not None:
            await self._elsewhere(home, scope, receive, send)
            return
        name, path = page_home.split(scope["path"])
        scope = page_home.without_name(scope)
        if path.startswith(CHANNEL):
            await self._channel(scope, receive, send)
        elif scope["type"] != "http" or path.startswith(ASSETS):  # no state is kept for these
            await self._app(scope, receive, send)
        elif name is not None:  # pages themselves are nobody's
            await RedirectResponse(path)(scope, receive, send)
        elif visitor(Request(scope)) is None:
            await to_sign_in(Request(scope))(scope, receive, send)
        elif _is_full_of_pages():
            await plain_pages.too_many(PAGES)(scope, receive, send)
        else:
            await self._app(page_home.drawn_here(scope), receive, send)

    async def _elsewhere(self, home: ControllerRow, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on what a page of another controller asks for. Its channel polls then."""
        if visitor(HTTPConnection(scope)) is None:
            await _refuse((401, _NOBODY), scope, receive, send)
        elif scope["type"] == "websocket":
            await _refuse((409, _POLL), scope, receive, send)
        else:
            try:
                body = await read_body(scope, receive, CHANNEL_BYTES)
            except (TooLarge, BadJson):
                await PlainTextResponse(_TOO_LARGE, status_code=413)(scope, receive, send)
                return
            if not await page_home.passed_on(home, scope, body, send):
                await self(page_home.without_name(scope), _replay(body, receive), send)

    async def _channel(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = _refusal(scope)
        if refused is not None:
            await _refuse(refused, scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "POST":
            try:  # the library would read it whole, whatever its size
                body = await read_body(scope, receive, CHANNEL_BYTES)
            except (TooLarge, BadJson):
                await PlainTextResponse(_TOO_LARGE, status_code=413)(scope, receive, send)
                return
            await self._app(scope, _replay(body, receive), send)
        else:
            await self._app(scope, receive, send)


def bound_channels() -> None:
    """Bounds the size of a message on a channel that polls."""
    from nicegui import core

    core.sio.eio.max_http_buffer_size = CHANNEL_BYTES


def _refusal(scope: Scope) -> tuple[int, str] | None:
    """The reason why a request may not use the channel, with its status."""
    from nicegui import core

    connection = HTTPConnection(scope)
    if visitor(connection) is None:
        return 401, _NOBODY
    if "sid" not in connection.query_params and len(core.sio.eio.sockets) >= CHANNELS:
        return 503, _FULL
    return None


async def _refuse(refused: tuple[int, str], scope: Scope, receive: Receive, send: Send) -> None:
    status, reason = refused
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
    else:
        await PlainTextResponse(reason, status_code=status)(scope, receive, send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, then all further messages."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _is_full_of_pages() -> bool:
    """Whether no further page can be opened. Pages whose channel was never opened are dropped first."""
    from nicegui import Client

    if len(Client.instances) < PAGES:
        return False
    Client.prune_instances(client_age_threshold=PAGE_OPENING_S)
    return len(Client.instances) >= PAGES
