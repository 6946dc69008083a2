"""Reads bodies within a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec
from fastapi import Request
from starlette.types import Receive

from controller.http.callers import check_still_allowed
from strandline.errors import BadJson, Overloaded, TooLarge, WrongMediaType
from strandline.limits import BODY_BYTES

SMALL_BODY_BYTES: Final = 16 * 1024  # a larger body of notes is counted against the memory of all

Body = TypeVar("Body")
JSON: Final = b"application/json"
_SENT_BY_BROWSERS: Final = frozenset({b"origin", b"sec-fetch-site"})  # at least one, with everything that has a body
_OF_PROGRAMS: Final = frozenset({None, b"application/x-www-form-urlencoded"})


async def read_body(request: Request, limit: int = BODY_BYTES, *, as_json: bool = False) -> bytes:
    """The whole body. Raises TooLarge, BadJson if it is cut short, and with `as_json` WrongMediaType for another type.
    (FastAPI's `max_body_size` answers in plain text, and bounds each body by itself.)

    It has no deadline: the connection has one, and ends if a caller does not send the rest in time. Raises Overloaded
    if the bodies of all callers together take too much memory.
    """
    headers = dict(request.scope["headers"])
    size = headers.get(b"content-length")
    if size is not None and size.isdigit() and int(size) > limit:
        raise TooLarge(limit=limit)
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise _cut_short()
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        bodies: BodiesRead = request.app.state.bodies
        body = await bodies.rest(body, request.receive, limit)
    if len(body) > limit:
        raise TooLarge(limit=limit)
    if body and as_json and headers.get(b"content-type") != JSON:
        _check_media_type(headers)
    return body


async def read_call(request: Request) -> bytes:
    """The body of a call of the API, whose caller is checked again once it is here. Raises what `read_body` raises, and
    Unauthenticated or Forbidden."""
    body = await read_body(request, as_json=True)
    await check_still_allowed(request)
    return body


class BodiesRead:
    """The bodies that are being read, of all callers of an application: their memory, and the thread for those that
    take long."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._closely = asyncio.Lock()

    async def read_closely(self, read: Callable[[bytes], Body], body: bytes) -> Body:
        """Reads a body in a thread, one such body at a time: other calls go on, however many there are."""
        async with self._closely:
            return await asyncio.to_thread(read, body)

    async def rest(self, first: bytes, receive: Receive, limit: int) -> bytes:
        """A body that begins with `first`, to its end or until it is longer than `limit`."""
        body, more = bytearray(first), True
        self._bytes += len(first)
        try:
            while more and len(body) <= limit:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _cut_short()
                piece = message.get("body", b"")
                body += piece
                self._bytes += len(piece)
                more = message.get("more_body", False)
                if self._bytes > self._limit:
                    raise Overloaded(waiting=self._bytes, limit=self._limit, what="bytes are being read")
            return bytes(body)
        finally:
            self._bytes -= len(body)


def _cut_short() -> BadJson:
    return BadJson(reason="it was cut short")


async def until_left(receive: Receive) -> None:
    """Waits until the client has left, once its body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _check_media_type(headers: Mapping[bytes, bytes]) -> None:
    """Raises WrongMediaType for a body whose type is not JSON.

    The type that `curl -d` sends, or none, is accepted if no browser sent the request. For any page a browser sends
    what a form can send; before it sends JSON for a page of another origin it asks, and is refused.
    """
    given = headers.get(b"content-type")
    kind = None if given is None else given.partition(b";")[0].strip().lower()
    if kind != JSON and (kind not in _OF_PROGRAMS or not _SENT_BY_BROWSERS.isdisjoint(headers)):
        raise WrongMediaType(given=None if given is None else given.decode("latin-1"))


def decode(read: Callable[[bytes], Body], body: bytes) -> Body:
    """The body as a value; raises BadJson, or msgspec.ValidationError for JSON of another shape. What follows the first
    mistake may be no JSON."""
    try:
        return read(body)
    except msgspec.ValidationError:
        raise
    except RecursionError:
        raise BadJson(reason="it is nested too deeply") from None
    except ValueError as error:
        raise BadJson(reason=str(error)) from None
