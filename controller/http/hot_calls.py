"""The hot path: answers notes and windows in the middleware, before FastAPI's router.

FastAPI's work for each request costs more than a note, and so does its search for the route. Limits, problems and
request ids are those of every other call. Most of these calls do not even get here: see `direct.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

from starlette.types import Receive, Scope, Send

from controller.controller import Controller
from controller.http.notes import NOTES, OF_SEVERAL_STREAMS, take_notes
from controller.http.windows import TIME_WINDOW, find_window
from strandline.errors import UnknownPath

HotCall: TypeAlias = Callable[[Controller, Scope, Receive], Awaitable[bytes]]

STREAMS: Final = "/v1/streams/"
_CALLS: Final = {NOTES: take_notes, TIME_WINDOW: find_window}


def hot_call(scope: Scope) -> HotCall | None:
    """The function that answers a request here, with JSON; None unless it is a note or asks for a window."""
    path: str = scope["path"]
    if scope["method"] != "POST":
        return None
    if path == OF_SEVERAL_STREAMS:
        return partial(take_notes, None)
    stream, slash, call = path.removeprefix(STREAMS).partition("/")
    found = _CALLS.get(slash + call) if path.startswith(STREAMS) and stream else None
    return None if found is None else partial(found, stream)


class AnsweredBefore:
    """The router's entry for a path of such a call. A request that gets here used another method."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise UnknownPath(path=scope["path"])
