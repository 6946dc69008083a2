"""What a page of the dashboard may load and run: what comes from the controller, and the scripts that it was sent with.

The library writes scripts into its pages, and makes functions of texts that come over the socket. So `'unsafe-eval'`
cannot be left out; but a script or a handler that somebody gets into the text of a page does not run, because it does
not know the page's nonce. Styles stand beside nearly every element.
"""

from __future__ import annotations

import secrets
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_SCRIPT: Final = b"<script"


class ScriptNonces:
    """Gives each script of a page the page's own nonce, and the page a policy that lets run nothing else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        parts: list[bytes] = []

        async def send_page(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_page(message):
                start = message
            elif start is None:
                await send(message)
            else:
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    page = start
                    start = None
                    body = _with_nonces(page, b"".join(parts))
                    await send(page)
                    await send({"type": "http.response.body", "body": body})

        await self._app(scope, receive, send_page)


def _is_page(message: Message) -> bool:
    headers = MutableHeaders(raw=message["headers"])
    return headers.get("content-type", "").startswith("text/html") and "content-security-policy" not in headers


def _with_nonces(start: Message, body: bytes) -> bytes:
    """The page with nonces; its policy, and its length, stand in `start` then."""
    nonce = secrets.token_urlsafe(16)
    changed = body.replace(_SCRIPT, b'<script nonce="%b"' % nonce.encode())
    start["headers"] = list(start["headers"])
    headers = MutableHeaders(raw=start["headers"])
    headers["content-security-policy"] = _POLICY.format(nonce=nonce)
    headers["content-length"] = str(len(changed))
    return changed
