"""Versions of streams in headers, where several controllers serve a store: no caller is shown less than it has seen.

Strandline-Version   of an answer: how new the stream is that it shows
Strandline-Seen      of a request: the greatest of these that the caller had in an answer, of any controller
"""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import Request, Response

from controller.lifecycle import Controller
from strandline.errors import InvalidParameter

SEEN: Final = "Strandline-Seen"
VERSION: Final = "Strandline-Version"
VERSIONED: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "headers": {
            VERSION: {
                "schema": {"type": "string"},
                "description": "of the stream that the answer shows; only on stores that several controllers may serve",
            }
        }
    }
}
_WELL_MADE: Final = re.compile(r"[0-9a-zA-Z]{1,32}-[0-9]{1,19}")
SEEN_HEADER: Final = {
    "name": SEEN,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": f"^{_WELL_MADE.pattern}$"},
    "description": "the newest `Strandline-Version` that the caller got: no controller shows it an older state",
}
_SEEN: Final = SEEN.lower().encode()
_VERSION: Final = VERSION.lower().encode()


def seen_by(request: Request) -> str | None:
    """What the caller of a hot route has seen. (Starlette's headers by name take longer than the rest of it.)"""
    seen: bytes | None = dict(request.scope["headers"]).get(_SEEN)
    return None if seen is None else seen.decode("latin-1")


async def catch_up(controller: Controller, stream: str, seen: str | None) -> None:
    """Makes what is in memory of a stream at least as new as what the caller has seen. Raises StoreUnavailable, and
    InvalidParameter for a version that no answer had."""
    if seen is None:
        return
    if not _WELL_MADE.fullmatch(seen):
        raise InvalidParameter(name=SEEN, value=seen, wanted="it is the Strandline-Version of an answer")
    await controller.reading.catch_up(stream, seen.encode())


def versioned(response: Response, controller: Controller, stream: str) -> Response:
    """The answer, with the version of the stream."""
    version = controller.reading.version_of(stream)
    if version is not None:
        response.raw_headers.append((_VERSION, version))
    return response
