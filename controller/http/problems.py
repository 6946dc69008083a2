"""Errors as answers: the exception handlers of the application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from fastapi import FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from controller.http.browser_gate import path_within
from controller.http.callers import Caller
from controller.lifecycle import Controller
from controller.tokens import NONE_SHOWN
from strandline.errors import (
    Denied,
    Forbidden,
    InvalidParameter,
    MethodNotAllowed,
    StrandlineError,
    Unauthenticated,
    Unavailable,
    UnknownPath,
)
from strandline.wire.problems import MEDIA_TYPE, status_of, to_problem

RETRY_AFTER_S: Final = 1  # the Retry-After of a 503


def add_problems(app: FastAPI) -> None:
    """Answers errors with problems."""

    app.exception_handler(StrandlineError)(refused)
    app.exception_handler(RequestValidationError)(bad_parameter)
    app.exception_handler(HTTPException)(not_routed)


async def refused(request: Request, error: StrandlineError) -> Response:
    return answer_with(request, error)


async def bad_parameter(request: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    name = str(first["loc"][-1])
    # A caller may send its access token as the time index's `token` by mistake: it must not get into a log.
    value = None if first["type"] == "missing" else "…" if name == "token" else first["input"]
    return answer_with(request, InvalidParameter(name=name, value=value, wanted=first["msg"]))


async def not_routed(request: Request, error: HTTPException) -> Response:
    """What no route takes is a problem; what a handler says by an HTTPException, FastAPI answers."""
    if is_nowhere(request, error):
        return answer_with(request, UnknownPath(path=request.url.path))
    if error.status_code == 405:
        allowed = _methods(request)
        problem = MethodNotAllowed(method=request.method, path=request.url.path, allowed=allowed)
        return answer_with(request, problem, {"Allow": ", ".join(allowed)})
    return await http_exception_handler(request, error)


def is_nowhere(request: Request, error: HTTPException) -> bool:
    """Whether no route has the path of a request. (The application itself is the endpoint where it is mounted.)"""
    return error.status_code == 404 and request.scope.get("endpoint") in (None, request.app)


def answer_with(request: Request, error: StrandlineError, headers: Mapping[str, str] | None = None) -> Response:
    """The problem that answers a request, and when to try again if that may help. It is counted, and a caller that was
    denied is logged."""
    controller: Controller = request.app.state.controller
    controller.counts.problems[error.code] += 1
    given = dict(headers or {})
    if isinstance(error, Unavailable):
        given["Retry-After"] = str(RETRY_AFTER_S)
    if isinstance(error, Unauthenticated):
        wrong = "" if error.reason == NONE_SHOWN else ', error="invalid_token"'
        given["WWW-Authenticate"] = f'Bearer realm="strandline"{wrong}'
    if isinstance(error, Denied):
        log_denied(request, error)
    if isinstance(error, Forbidden) and error.writer is not None and error.stream is not None:
        controller.streams.journal_refusal(error.stream, error, _name_of(request))
    body = msgspec.json.encode(to_problem(error))
    return Response(body, status_code=status_of(error), headers=given, media_type=MEDIA_TYPE)


def log_denied(request: Request, error: Denied) -> None:
    """Logs a caller that was denied, for the whole call or for some of its streams."""
    controller: Controller = request.app.state.controller
    client = None if request.client is None else request.client.host
    method, path = request.scope.get("method", "GET"), request.url.path  # a websocket begins with a GET
    controller.denials.record(error, method=method, path=path, client=client, by=_name_of(request))


def _name_of(request: Request) -> str | None:
    caller: Caller | None = getattr(request.state, "caller", None)
    return None if caller is None else caller.name


def _methods(request: Request) -> tuple[str, ...]:
    """The methods of all routes of a path; the exception has those of one."""
    path = path_within(request.scope)
    routes = [each.original_route for each in iter_route_contexts(request.app.routes)]
    found = {
        method
        for each in routes
        if isinstance(each, Route) and each.path_regex.match(path)
        for method in each.methods or ()
    }
    return tuple(sorted(found))
