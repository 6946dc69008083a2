"""Answers questions for time windows, for the middleware (`hot_calls.py`) and for connections (`direct.py`)."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET
from starlette.types import Receive, Scope

from controller.controller import Controller
from controller.http.bodies import WindowBody
from controller.http.dependencies import body_as
from controller.http.request_bodies import read_body, well_made
from controller.http.responses import to_json
from strandline.core.note import DEFAULT_KEY
from strandline.errors import InvalidNote
from strandline.wire.shapes import decoder_of

TIME_WINDOW: Final = "/time-window"  # behind the path of a stream
_body = decoder_of(WindowBody)


def find_directly(stream: str, controller: Controller, _scope: Scope, body: bytes) -> tuple[bytes, None] | None:
    """The window that a body asks for; None if the body is not well made, or if memory is not enough."""
    asked = well_made(_body, body, _count_names)
    if asked is None:
        return None
    window = controller.reading.known_window(stream, _key_of(asked), asked.position)
    return None if window is None else (to_json(window), None)


async def find_window(stream: str, controller: Controller, scope: Scope, receive: Receive) -> bytes:
    """The same for any body, with what the store has."""
    body = await read_body(scope, receive, as_json=True)
    asked = well_made(_body, body, _count_names) or body_as(WindowBody, body, InvalidNote)
    return to_json(await controller.reading.window(stream, _key_of(asked), asked.position))


def _key_of(asked: WindowBody) -> str:
    return DEFAULT_KEY if asked.key is UNSET else asked.key


def _count_names(asked: WindowBody) -> int:
    return 1 + len(asked.position) + (asked.key is not UNSET)
