"""What stands around every request: the checks of its page and its token. And what every answer gets: the clock, a
request id, problems, and what a browser may do with it. Pure ASGI.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterable, Mapping

from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.controller import Controller
from controller.http.auth import Rules, check_group, guarded
from controller.http.browser_gate import BrowserGate
from controller.http.browser_policies import Header, protected
from controller.http.forwarding.forwarding import Forwarding
from controller.http.problems import answer_with
from controller.limits import REQUEST_ID_CHARACTERS
from controller.records.operator_log import REQUEST_ID, log_event
from strandline.errors import (
    BadRequest,
    InternalFailure,
    InvalidParameter,
    MethodNotAllowed,
    StoreUnavailable,
    StrandlineError,
    UnknownPath,
)

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,%d}" % REQUEST_ID_CHARACTERS)


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
        dashboard: bool = False,
        forwarding: Forwarding | None = None,
    ) -> None:
        """`app` answers, `owner` has the controller, `rules` say who may call, and request ids begin with `run_id`. A
        `dashboard` checks tokens for its own paths. `forwarding` passes calls on to other controllers; None if this is
        the only one."""
        self._gate = gate
        self._rules = rules
        self._dashboard = dashboard
        self._app = app
        self._owner = owner
        self._forwarding = forwarding
        self._prefix = run_id.encode()
        self._count = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["app"] = self._owner
        controller: Controller = self._owner.state.controller
        request_id = _sent_id(scope) or b"%s-%d" % (self._prefix, next(self._count))
        counts = controller.counts
        REQUEST_ID.set(request_id)
        started = ended = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started, ended
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            if message["type"] == "http.response.start":
                started = True
                counts.responses[message["status"]] += 1
                message["headers"] = self._headers(scope, controller, message.get("headers", ()), request_id)
            await send(message)

        try:
            if not scope["path"].startswith("/"):  # such as that of `OPTIONS *`
                raise BadRequest(reason="its target is no path")
            self._gate.check(scope, tokens_required=controller.tokens.required)
            is_free = self._rules.is_open(scope["path"], dashboard=self._dashboard)
            group = None if is_free else self._admit(scope, controller)
            if self._forwarding is not None and not is_free:
                its_own = await self._forwarding.answer(controller, scope, receive, send, request_id)
                if its_own is None:
                    return
                receive = its_own
            if group is not None:
                await check_group(scope, controller, group)
            sending: Send = send_with_headers
            if not is_free:
                sending = guarded(scope, controller.tokens, receive, send_with_headers)
            await self._app(scope, receive, sending)
        except Exception as error:
            problem, headers = problem_of(scope, error)
            if ended:
                return
            if started:
                raise
            await answer_with(scope, problem, headers)(scope, receive, send_with_headers)

    def _admit(self, scope: Scope, controller: Controller) -> str | None:
        """Lets a call of the API in if its token allows it; returns what `Rules.admit` does."""
        if controller.replaced is not None:
            raise StoreUnavailable(reason=str(controller.replaced))  # what is in memory is out of date
        return self._rules.admit(scope, controller.tokens)

    def _headers(
        self, scope: Scope, controller: Controller, given: Iterable[Header], request_id: bytes
    ) -> list[Header]:
        """The headers of an answer, with those that every answer has."""
        more: Iterable[Header] = ()
        time = controller.clock.now()
        if self._forwarding is not None:
            time, more = self._forwarding.told(scope, time)
        return [*protected(given), (b"strandline-time", b"%d" % time), (b"x-request-id", request_id), *more]


def _sent_id(scope: Scope) -> bytes | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return bytes(value)
    return None


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
                allowed = tuple(each.strip() for each in headers.get("Allow", "").split(",") if each.strip())
                return MethodNotAllowed(method=scope["method"], path=path, allowed=allowed), headers
            if code == 404:
                return UnknownPath(path=path), headers
            return BadRequest(reason=error.detail), headers  # such as a form that cannot be parsed
    log_event("request_failed", logging.ERROR, error=error, method=scope["method"], path=scope["path"])
    return InternalFailure(reason=type(error).__name__), headers


def _bad_parameter(error: RequestValidationError) -> InvalidParameter:
    first = error.errors()[0]
    name = str(first["loc"][-1])
    # A caller may send its access token as the time index's `token` by mistake: it must not get into a log.
    value = None if first["type"] == "missing" else "…" if name == "token" else first["input"]
    return InvalidParameter(name=name, value=value, wanted=first["msg"])
