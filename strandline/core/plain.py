"""Turns values into plain data for json, and back. Bytes and tuples stay distinct from strings and lists.

b"ab" ──► {"bytes": "YWI="}      (1, "a") ──► {"tuple": [1, "a"]}      {"a": 1} ──► {"object": {"a": 1}}
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from strandline.errors import InvalidConfig


def to_plain(value: Any) -> Any:
    """Plain data for a value. Raises InvalidConfig unless the value consists of strings, bytes, numbers, lists, tuples
    and dicts with strings as keys."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return {"bytes": b64encode(value).decode()}
        case list():
            return [to_plain(each) for each in value]
        case tuple():
            return {"tuple": [to_plain(each) for each in value]}
        case dict() if all(isinstance(name, str) for name in value):
            return {"object": {name: to_plain(each) for name, each in value.items()}}
    wanted = "only strings, bytes, numbers, lists, tuples and dicts with strings as keys can be saved"
    raise InvalidConfig(name="a saved value", value=value, wanted=wanted)


def from_plain(plain: Any) -> Any:
    """The value from which `to_plain` made this data. Raises ValueError for other data."""
    match plain:
        case None | bool() | int() | float() | str():
            return plain
        case list():
            return [from_plain(each) for each in plain]
        case {"bytes": str(text), **others} if not others:
            return b64decode(text, validate=True)
        case {"tuple": list(values), **others} if not others:
            return tuple([from_plain(each) for each in values])
        case {"object": dict(values), **others} if not others:
            return {name: from_plain(each) for name, each in values.items()}
    raise ValueError(f"{plain!r} is not plain data")
