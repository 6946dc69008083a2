"""Versions of streams in headers, where several controllers serve a store: no caller is shown less than it has seen.

Strandline-Version   of an answer: how new the stream is that it shows
Strandline-Seen      of a request: the greatest of these that the caller had in an answer, of any controller
"""

from __future__ import annotations

from typing import Final

from fastapi import Request, Response

from controller.controller import Controller
from controller.http.request_headers import sent_headers

SEEN: Final = b"strandline-seen"
VERSION: Final = b"strandline-version"


async def catch_up(controller: Controller, stream: str, request: Request) -> None:
    """Makes what is in memory of a stream at least as new as what the caller has seen. Raises StoreUnavailable."""
    await controller.reading.catch_up(stream, sent_headers(request.scope).get(SEEN))


def versioned(response: Response, controller: Controller, stream: str) -> Response:
    """The answer, with the version of the stream."""
    version = controller.reading.version_of(stream)
    if version is not None:
        response.raw_headers.append((VERSION, version))
    return response
