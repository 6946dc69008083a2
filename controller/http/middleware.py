"""What stands around every request: a request id, and the check of the page that a browser sends it for. And what every
answer gets: the clock, the request's id, and what a browser may do with it. Pure ASGI."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
from collections.abc import Awaitable
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.commit.loop import STOPPED
from controller.http.browser_gate import BrowserGate
from controller.http.browser_policies import protected
from controller.http.callers import Caller
from controller.http.problems import answer_with
from controller.http.responses import TYPE_OF_EVENTS, event_of_end
from controller.lifecycle import Controller
from controller.operator_log import REQUEST_ID, log_event
from controller.storage.refusals import StoreRefused
from controller.tokens import NOT_KNOWN
from strandline.errors import (
    BadRequest,
    InternalFailure,
    StoreUnavailable,
    StoreUndecided,
    StrandlineError,
    Unauthenticated,
)

REQUEST_ID_CHARACTERS: Final = 100  # of a caller's own `X-Request-Id`

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,%d}" % REQUEST_ID_CHARACTERS)
NOT_STARTED: Final = (
    "the controller was not started: the lifespan of its application has not run. Where it is mounted in another "
    "application, enter `app.router.lifespan_context(app)` in the lifespan of that one"
)


class Answer:
    """The answer to a request, on its way: it gets the headers that every answer has.

    What was permitted is answered while the caller's token is valid, which it can outlive if it waits. After the token
    is revoked, an answer that has not begun becomes a refusal, and server-sent events end.
    """

    __slots__ = ("_controller", "_has_events", "_is_refused", "_request_id", "_scope", "_send", "ended", "started")

    def __init__(self, scope: Scope, send: Send, controller: Controller, request_id: bytes) -> None:
        self._scope = scope
        self._send = send
        self._controller = controller
        self._request_id = request_id
        self._has_events = self._is_refused = False
        self.started = self.ended = False

    def __call__(self, message: Message) -> Awaitable[None]:
        if self._is_refused:
            return _as_if_left()
        begins, controller = message["type"] == "http.response.start", self._controller
        if begins or self._has_events:
            caller: Caller | None = self._scope["state"].get("caller")
            if caller is not None and not controller.tokens.still_allows(caller.grant):
                return self._refuse(begins)
        if begins:
            self.started = True
            controller.counts.responses[message["status"]] += 1
            headers = message["headers"] = protected(message.get("headers", ()))
            self._has_events = TYPE_OF_EVENTS in headers
            headers += ((b"strandline-time", b"%d" % controller.clock.now()), (b"x-request-id", self._request_id))
        else:
            self.ended = not message.get("more_body", False)
        return self._send(message)

    async def _refuse(self, begins: bool) -> None:
        error = Unauthenticated(reason=NOT_KNOWN)
        request = Request(self._scope)
        refusal = answer_with(request, error)
        del self._scope["state"]["caller"]
        if begins:
            await refusal(self._scope, request.receive, self)
        else:
            await self({"type": "http.response.body", "body": event_of_end(error.code)})
        self._is_refused = True


async def _as_if_left() -> None:
    """What a handler gets that goes on with an answer of which there is no more: nothing."""


class Envelope:
    """Wraps every request."""

    def __init__(self, app: ASGIApp, gate: BrowserGate) -> None:
        self._app = app
        self._gate = gate
        self._prefix = secrets.token_hex(4).encode()  # of request ids
        self._count = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, _in_words(scope, send) if scope["type"] == "lifespan" else send)
            return
        path, sent = scope["path"], dict(scope["headers"])
        if scope["method"] == "HEAD" and not path.endswith("/marks/live"):  # which would not end
            scope = {**scope, "method": "GET"}  # the server sends no body for it
        sent_id = sent.get(b"x-request-id")
        if sent_id is None or not _REQUEST_ID.fullmatch(sent_id):
            sent_id = b"%s-%d" % (self._prefix, next(self._count))
        REQUEST_ID.set(sent_id)
        controller: Controller | None = getattr(scope["app"].state, "controller", None)
        if controller is None:
            raise RuntimeError(NOT_STARTED)
        scope.setdefault("state", {})["controller"] = controller
        answer = Answer(scope, send, controller, sent_id)
        try:
            if not path.startswith("/") or path.endswith("\n"):  # the router's patterns leave out a last line feed
                raise BadRequest(reason="its target is no path")  # such as that of `OPTIONS *`
            if b"upgrade" in sent and (b"transfer-encoding" in sent or sent.get(b"content-length", b"0") != b"0"):
                raise BadRequest(reason="a call with a body cannot change the protocol: leave out the header Upgrade")
            self._gate.check(scope, sent, tokens_required=controller.tokens.required)
            await self._app(scope, receive, answer)
        except (Exception, asyncio.CancelledError) as error:
            if answer.ended:
                return
            if answer.started:
                raise
            if isinstance(error, StrandlineError):
                refused = error
            elif isinstance(error, asyncio.CancelledError):  # by uvicorn, for which it takes too long at the end
                refused = (StoreUnavailable if scope["method"] == "GET" else StoreUndecided)(reason=STOPPED)
            else:
                refused = failure(error, scope)
            await answer_with(Request(scope), refused)(scope, receive, answer)


def failure(error: Exception, scope: Scope) -> InternalFailure:
    """Logs a fault of ours, of which callers are told no more than its kind."""
    log_event("request_failed", logging.ERROR, error=error, method=scope["method"], path=scope["path"])
    return InternalFailure(reason=type(error).__name__)


def _in_words(scope: Scope, send: Send) -> Send:
    """Sends a sentence in place of a traceback if the store cannot be served: that is not a bug."""

    async def send_in_words(message: Message) -> None:
        refused: StoreRefused | None = getattr(scope["app"].state, "refused", None)
        if refused is not None and message["type"] == "lifespan.startup.failed":
            message = {**message, "message": str(refused)}
        await send(message)

    return send_in_words
