"""Calls of the API that a visitor makes from a page, in this process.

They go the way of every other call: the same checks of the token, the same errors, the same journal, and the same way
to another controller if that one serves the stream. So nothing can be done from a page that its token does not allow.
"""

from __future__ import annotations

import asyncio
import json
from typing import Final, TypeVar

from starlette.types import ASGIApp, Message

from controller.dashboard.visitors import Visitor
from strandline.client.calls import Call, Request, Response

Value = TypeVar("Value")

_HOST: Final = b"127.0.0.1"


class OwnCalls:
    """Makes calls with the token of a visitor."""

    def __init__(self, app: ASGIApp, who: Visitor) -> None:
        """`app` is the whole application, with what checks a call."""
        self._app = app
        self._authorization = who.viewer.authorization

    async def make(self, call: Call[Value]) -> Value:
        """The result of a call. It is made once; raises what the API answers, and what the call itself refuses."""
        try:
            request = next(call)
            while True:
                request = call.send(await self._answer(request))
        except StopIteration as done:
            value: Value = done.value
            return value

    async def _answer(self, request: Request) -> Response:
        """In a task of its own, which has a request id of its own."""
        return await asyncio.create_task(self._ask(request), name=request.name)

    async def _ask(self, request: Request) -> Response:
        path, _, query = request.path.partition("?")
        content = b"" if request.body is None else json.dumps(request.body).encode()
        headers = [(b"host", _HOST), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        if self._authorization is not None:
            headers.append((b"authorization", self._authorization))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": headers,
            "client": None,
            "server": None,
        }
        is_read, status, parts = False, 500, list[bytes]()

        async def receive() -> Message:
            nonlocal is_read
            if is_read:
                await asyncio.Event().wait()  # the visitor never leaves before the answer
            is_read = True
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        await self._app(scope, receive, send)
        return Response(status, {}, b"".join(parts))
