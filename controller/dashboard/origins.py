"""Keeps pages of other origins away from the channel over which the dashboard's own pages talk to the controller."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

CHANNEL: Final = "/_nicegui_ws/"
_REFUSED: Final = "this channel is for the dashboard's own pages; a proxy has to pass on Host, or X-Forwarded-Host"


class SameOrigin:
    """Refuses the channel to browsers that show a page of another origin. Other programs send no origin."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if CHANNEL not in scope.get("path", "") or is_own(Headers(scope=scope)):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": _REFUSED})
        else:
            await PlainTextResponse(_REFUSED, status_code=403)(scope, receive, send)


def is_own(headers: Headers) -> bool:
    """Whether a request comes from a page of the origin that it goes to, or from no page at all."""
    origin = headers.get("origin")
    if origin is None:
        return True
    page = urlsplit(origin.lower())
    default = {"http": ":80", "https": ":443"}.get(page.scheme, "")
    hosts = (headers.get("host", ""), headers.get("x-forwarded-host", "").partition(",")[0].strip())
    return bool(page.netloc) and page.netloc in {host.lower().removesuffix(default) for host in hosts}
