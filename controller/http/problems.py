"""Errors as answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import Scope

from controller.controller import Controller
from controller.tokens import NONE_SHOWN
from strandline.errors import Denied, Forbidden, StrandlineError, Unauthenticated, Unavailable
from strandline.wire.problems import MEDIA_TYPE, status_of, to_problem

RETRY_AFTER_S: Final = 1  # the Retry-After of a 503


def answer_with(scope: Scope, error: StrandlineError, headers: Mapping[str, str] | None = None) -> Response:
    """The problem that answers a request, and when to try again if that may help. It is counted, and a caller that was
    denied is logged."""
    controller: Controller = scope["app"].state.controller
    controller.counts.problems[error.code] += 1
    given = dict(headers or {})
    if isinstance(error, Unavailable):
        given["Retry-After"] = str(RETRY_AFTER_S)
    if isinstance(error, Unauthenticated):
        wrong = "" if error.reason == NONE_SHOWN else ', error="invalid_token"'
        given["WWW-Authenticate"] = f'Bearer realm="strandline"{wrong}'
    if isinstance(error, Denied):
        log_denied(scope, error)
    if isinstance(error, Forbidden) and error.writer is not None and error.stream is not None:
        controller.notes.journal_refusal(error.stream, error, scope.get("strandline.caller"))
    body = msgspec.json.encode(to_problem(error))
    return Response(body, status_code=status_of(error), headers=given, media_type=MEDIA_TYPE)


def log_denied(scope: Scope, error: Denied) -> None:
    """Logs a caller that was denied, for the whole call or for some of its streams."""
    controller: Controller = scope["app"].state.controller
    address, by = scope.get("client"), scope.get("strandline.caller")
    client = None if address is None else address[0]
    method = scope.get("method", "GET")  # a websocket begins with one
    controller.denials.tell(error, method=method, path=scope["path"], client=client, by=by)
