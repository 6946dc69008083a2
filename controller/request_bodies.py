"""Reading bodies: with a limit and a deadline, and strictly.

A name that stands twice in one object is refused, which JSON readers otherwise pass over in silence.
"""

from __future__ import annotations

import asyncio
import json
import types
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, TypeVar

import msgspec
from starlette.types import Receive, Scope

from controller.limits import BODY_DEADLINE_S
from strandline.errors import BadJson, TooLarge
from strandline.limits import BODY_BYTES, JSON_DEPTH

Body = TypeVar("Body")
Value = TypeVar("Value")


async def read_body(
    scope: Scope, receive: Receive, limit: int = BODY_BYTES, deadline_s: float = BODY_DEADLINE_S
) -> bytes:
    """The whole body; raises TooLarge, or BadJson where it does not come, in time or at all.

    A deadline costs more than all else here, and nearly every body is there already. So the first part is asked for by
    hand, and only who has to wait gets a deadline.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit:
            raise TooLarge(limit=limit)
    begun = _begin(_receive(receive))
    if isinstance(begun, tuple) and not begun[1]:
        body = begun[0]
        if len(body) > limit:
            raise TooLarge(limit=limit)
        return body
    try:
        async with asyncio.timeout(deadline_s):
            body, more = begun if isinstance(begun, tuple) else await begun
            parts, size = [body], len(body)
            while more and size <= limit:
                body, more = await _receive(receive)
                parts.append(body)
                size += len(body)
    except TimeoutError:
        raise BadJson(reason=f"it did not arrive within {deadline_s:.0f} seconds") from None
    if size > limit:
        raise TooLarge(limit=limit)
    return b"".join(parts)


def _begin(coroutine: Coroutine[Any, Any, Value]) -> Value | Awaitable[Value]:
    """Runs a coroutine until it has to wait: what it returned, or what is left to await."""
    try:
        awaited = coroutine.send(None)
    except StopIteration as done:
        value: Value = done.value
        return value
    return _rest(awaited, coroutine)


@types.coroutine
def _rest(awaited: Any, begun: Coroutine[Any, Any, Value]) -> Generator[Any, Any, Value]:
    """What is left of a coroutine that was begun, and waits for what it gave last."""
    try:
        yield awaited
    except BaseException as error:
        begun.throw(error)
        raise
    return (yield from begun.__await__())


async def _receive(receive: Receive) -> tuple[bytes, bool]:
    """A part of the body, and whether there are more."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise BadJson(reason="it was cut short")
    return message.get("body", b""), message.get("more_body", False)


def decode(decoder: msgspec.json.Decoder[Body], body: bytes) -> Body:
    """The body as a value; raises BadJson, or msgspec.ValidationError for JSON of another shape."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        check_json(body)
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadJson(reason=str(error) or "it is nested too deeply") from None


def check_json(body: bytes) -> None:
    """Raises BadJson for what is no JSON, is nested too deeply, or has a name twice in one object."""
    depth = 0

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise BadJson(reason=f"the name {twice[:80]!r} stands twice in one object")
        return found

    def no_constant(name: str) -> None:
        raise BadJson(reason=f"{name} is no JSON")

    if body.count(b"[") + body.count(b"{") > JSON_DEPTH:  # else there is no need to look at each character
        for character in body:
            depth += (character in b"[{") - (character in b"]}")
            if depth > JSON_DEPTH:
                raise BadJson(reason=f"it is nested more than {JSON_DEPTH} deep")
    try:
        json.loads(body, object_pairs_hook=once, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise BadJson(reason=str(error)) from None


def check_no_name_twice(body: bytes, names: int) -> None:
    """Raises BadJson for a name that stands twice, given how many names the decoded value has.

    Each name is followed by a colon. Where there are as many colons as names, nothing was passed over, and that is
    all that most bodies need; otherwise a colon stands within some string, or a name was there twice: then look.
    """
    if body.count(b":") != names:
        check_json(body)
