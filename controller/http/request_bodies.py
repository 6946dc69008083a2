"""Reading bodies: with a limit, and strictly.

A name that stands twice in one object is refused, which JSON readers otherwise pass over in silence.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

import msgspec
from starlette.types import Receive, Scope

from strandline.errors import BadJson, TooLarge, WrongMediaType
from strandline.limits import BODY_BYTES, JSON_DEPTH

Body = TypeVar("Body")
_JSON: Final = b"application/json"
_SENT_BY_BROWSERS: Final = frozenset({b"origin", b"sec-fetch-site"})  # at least one, with everything that has a body
_OF_PROGRAMS: Final = frozenset({None, b"application/x-www-form-urlencoded"})


async def read_json_body(scope: Scope, receive: Receive) -> bytes:
    """The whole body of a call; raises what `read_body` does, and WrongMediaType for one that is not called JSON."""
    body = await read_body(scope, receive)
    if body:
        _check_media_type(scope)
    return body


async def read_body(scope: Scope, receive: Receive, limit: int = BODY_BYTES) -> bytes:
    """The whole body; raises TooLarge, or BadJson where it is cut short.

    It has no deadline: the connection has one, and turns away whoever does not send the rest in time.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit:
            raise TooLarge(limit=limit)
    body, more = await _receive(receive)
    if more:
        parts, size = [body], len(body)
        while more and size <= limit:
            body, more = await _receive(receive)
            parts.append(body)
            size += len(body)
        body = b"".join(parts)
    if len(body) > limit:
        raise TooLarge(limit=limit)
    return body


def _check_media_type(scope: Scope) -> None:
    """Raises WrongMediaType for a body that is not called JSON.

    What `curl -d` calls it, or no name at all, will do where no browser sent it. A browser sends what a form can send
    for any page; before it sends JSON for a page of another origin it asks, and is refused.
    """
    given: bytes | None = None
    may_be_browser = False
    for name, value in scope["headers"]:
        if name == b"content-type":
            given = value
        elif name in _SENT_BY_BROWSERS:
            may_be_browser = True
    if given == _JSON:
        return
    kind = None if given is None else given.partition(b";")[0].strip().lower()
    if kind != _JSON and (may_be_browser or kind not in _OF_PROGRAMS):
        raise WrongMediaType(given=None if given is None else given.decode("latin-1"))


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
