"""What stands around every request: the checks of its page and its token. And what every answer gets: the clock, a
request id, problems, and what a browser may do with it. Pure ASGI.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Mapping
from typing import Final

from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.controller import Controller
from controller.http.auth import Rules, check_group, grant_of
from controller.http.browser_gate import BrowserGate
from controller.http.browser_policies import protected
from controller.http.problems import answer_with
from controller.http.request_headers import sent_headers
from controller.http.responses import TYPE_OF_EVENTS, event_of_end
from controller.records.operator_log import REQUEST_ID, log_event
from controller.tokens import NOT_KNOWN
from strandline.errors import (
    BadRequest,
    InternalFailure,
    InvalidParameter,
    MethodNotAllowed,
    StrandlineError,
    Unauthenticated,
    UnknownPath,
)

REQUEST_ID_CHARACTERS: Final = 100  # of a caller's own `X-Request-Id`

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,%d}" % REQUEST_ID_CHARACTERS)


class Answer:
    """The answer to a request, on its way: it gets the headers that every answer has.

    A guarded one is given while the token of its request is valid, which it can outlive if it waits. After the token is
    revoked, an answer that has not begun becomes a refusal, and server-sent events end.
    """

    __slots__ = (
        "_controller", "_has_events", "_is_refused", "_receive", "_request_id", "_scope", "_send", "ended", "guarded",
        "started",
    )  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, send: Send, controller: Controller, request_id: bytes) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._controller = controller
        self._request_id = request_id
        self._has_events = self._is_refused = False
        self.guarded = self.started = self.ended = False

    async def __call__(self, message: Message) -> None:
        if self._is_refused:
            return  # to the handler it looks as if the client had left
        begins, controller = message["type"] == "http.response.start", self._controller
        if self.guarded and (begins or self._has_events) and not controller.tokens.still_allows(grant_of(self._scope)):
            await self._refuse(begins)
            return
        if begins:
            self.started = True
            controller.counts.responses[message["status"]] += 1
            headers = message["headers"] = protected(message.get("headers", ()))
            self._has_events = TYPE_OF_EVENTS in headers
            headers += ((b"strandline-time", b"%d" % controller.clock.now()), (b"x-request-id", self._request_id))
        else:
            self.ended = not message.get("more_body", False)
        await self._send(message)

    async def _refuse(self, begins: bool) -> None:
        self.guarded = False
        if begins:
            await answer_with(self._scope, Unauthenticated(reason=NOT_KNOWN))(self._scope, self._receive, self)
        else:
            await self({"type": "http.response.body", "body": event_of_end(Unauthenticated.code)})
        self._is_refused = True


class Middleware:
    """Wraps every request."""

    def __init__(
        self,
        app: ASGIApp,
        owner: Starlette,
        gate: BrowserGate,
        rules: Rules,
        run_id: str,
        *,
        dashboard: bool,
    ) -> None:
        """`app` answers, `owner` has the controller, `rules` say who may call, and request ids begin with `run_id`. A
        `dashboard` checks tokens for its own paths."""
        self._gate = gate
        self._rules = rules
        self._dashboard = dashboard
        self._app = app
        self._owner = owner
        self._prefix = run_id.encode()
        self._count = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD" and not scope["path"].endswith("/marks/live"):  # which would not end
            scope = {**scope, "method": "GET"}  # the server sends no body for it
        scope["app"] = self._owner
        controller: Controller = self._owner.state.controller
        path, sent = scope["path"], sent_headers(scope)
        sent_id = sent.get(b"x-request-id")
        if sent_id is None or not _REQUEST_ID.fullmatch(sent_id):
            sent_id = b"%s-%d" % (self._prefix, next(self._count))
        REQUEST_ID.set(sent_id)
        answer = Answer(scope, receive, send, controller, sent_id)
        try:
            if not path.startswith("/") or path.endswith("\n"):  # the router's patterns leave out a last line feed
                raise BadRequest(reason="its target is no path")  # such as that of `OPTIONS *`
            if b"upgrade" in sent and (b"transfer-encoding" in sent or sent.get(b"content-length", b"0") != b"0"):
                raise BadRequest(reason="a call with a body cannot change the protocol: leave out the header Upgrade")
            tokens = controller.tokens
            self._gate.check(scope, sent, tokens_required=tokens.required)
            is_free = not path.startswith("/v1/") and self._rules.is_open(path, dashboard=self._dashboard)
            group = None if is_free or not tokens.required else self._rules.admit(scope, sent, tokens)
            if group is not None:
                await check_group(scope, controller, group)
            answer.guarded = not is_free
            await self._app(scope, receive, answer)
        except Exception as error:
            problem, headers = problem_of(scope, error)
            if answer.ended:
                return
            if answer.started:
                raise
            answer.guarded = False
            await answer_with(scope, problem, headers)(scope, receive, answer)


def problem_of(scope: Scope, error: Exception) -> tuple[StrandlineError, Mapping[str, str]]:
    """What a caller is answered for an error, with the headers that go with it. Logs a bug."""
    headers: Mapping[str, str] = {}
    match error:
        case StrandlineError():
            return error, headers
        case RequestValidationError():
            return _bad_parameter(error), headers
        case HTTPException():
            headers = error.headers or {}
            path, code = scope["path"], error.status_code
            if code == 405:
                allowed = _methods(scope)
                refused = MethodNotAllowed(method=scope["method"], path=path, allowed=allowed)
                return refused, {"Allow": ", ".join(allowed)}
            if code == 404:
                return UnknownPath(path=path), headers
            return BadRequest(reason=error.detail), headers  # such as a form that cannot be parsed
    log_event("request_failed", logging.ERROR, error=error, method=scope["method"], path=scope["path"])
    return InternalFailure(reason=type(error).__name__), headers


def _methods(scope: Scope) -> tuple[str, ...]:
    """The methods of all routes of a path; the exception has those of one."""
    routes = [each for each in scope["app"].routes if each.matches(scope)[0] is not Match.NONE]
    return tuple(sorted({method for each in routes for method in getattr(each, "methods", None) or ()}))


def _bad_parameter(error: RequestValidationError) -> InvalidParameter:
    first = error.errors()[0]
    name = str(first["loc"][-1])
    # A caller may send its access token as the time index's `token` by mistake: it must not get into a log.
    value = None if first["type"] == "missing" else "…" if name == "token" else first["input"]
    return InvalidParameter(name=name, value=value, wanted=first["msg"])
