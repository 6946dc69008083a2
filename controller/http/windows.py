"""Time windows: the one call of readers that has direct answers."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET
from starlette.types import Scope

from controller.controller import Controller
from controller.http.bodies import WindowBody
from controller.http.request_bodies import well_made
from controller.http.responses import to_json
from strandline.core.note import DEFAULT_KEY
from strandline.wire.shapes import decoder_of

TIME_WINDOW: Final = "/time-window"  # behind the path of a stream
_body = decoder_of(WindowBody)


def find_directly(stream: str, controller: Controller, _scope: Scope, body: bytes) -> tuple[bytes, None] | None:
    """The window that a body asks for; None if the body is not well made, or if memory is not enough."""
    asked = well_made(_body, body, _count_names)
    if asked is None:
        return None
    window = controller.reading.known_window(stream, key_of(asked), asked.position)
    return None if window is None else (to_json(window), None)


def key_of(asked: WindowBody) -> str:
    return DEFAULT_KEY if asked.key is UNSET else asked.key


def _count_names(asked: WindowBody) -> int:
    return 1 + len(asked.position) + (asked.key is not UNSET)
