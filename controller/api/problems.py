"""Errors as answers."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from controller.limits import RETRY_AFTER_S
from controller.services.tokens import NONE_SHOWN
from strandline.errors import StrandlineError, Unauthenticated, Unavailable
from strandline.protocol.problems import MEDIA_TYPE, status_of, to_problem


def problem_response(error: StrandlineError, headers: dict[str, str] | None = None) -> Response:
    """The problem of an error, and when to try again where that may help."""
    given = dict(headers or {})
    if isinstance(error, Unavailable):
        given["Retry-After"] = str(RETRY_AFTER_S)
    if isinstance(error, Unauthenticated):
        wrong = "" if error.reason == NONE_SHOWN else ', error="invalid_token"'
        given["WWW-Authenticate"] = f'Bearer realm="strandline"{wrong}'
    body = msgspec.json.encode(to_problem(error))
    return Response(body, status_code=status_of(error), headers=given, media_type=MEDIA_TYPE)
