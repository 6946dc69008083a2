"""Versions of streams in headers, where several controllers serve a store: no caller is shown less than it has seen.

Strandline-Version   of an answer: how new the stream is that it shows
Strandline-Seen      of a request: the greatest of these that the caller had in an answer, of any controller
"""

from __future__ import annotations

import re
from typing import Final

from fastapi import Request, Response

from controller.controller import Controller
from controller.http.request_headers import sent_headers
from strandline.errors import InvalidParameter

SEEN: Final = b"strandline-seen"
VERSION: Final = b"strandline-version"
_WELL_MADE: Final = re.compile(rb"[0-9a-zA-Z]{1,32}-[0-9]{1,19}")


async def catch_up(controller: Controller, stream: str, request: Request) -> None:
    """Makes what is in memory of a stream at least as new as what the caller has seen. Raises StoreUnavailable, and
    InvalidParameter for a version that no answer had."""
    seen = sent_headers(request.scope).get(SEEN)
    if seen is not None:
        if not _WELL_MADE.fullmatch(seen):
            shown = seen.decode("latin-1")
            raise InvalidParameter(
                name="Strandline-Seen", value=shown, wanted="it is the Strandline-Version of an answer"
            )
        await controller.reading.catch_up(stream, seen)


def versioned(response: Response, controller: Controller, stream: str) -> Response:
    """The answer, with the version of the stream."""
    version = controller.reading.version_of(stream)
    if version is not None:
        response.raw_headers.append((VERSION, version))
    return response
