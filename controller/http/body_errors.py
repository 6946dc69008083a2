"""Errors of the contract for JSON of the wrong shape."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from controller.http.request_bodies import decode
from strandline.errors import BadJson, InvalidConfig, InvalidNote, StrandlineError

NAME_CHARACTERS: Final = 80  # of a field's name that are shown

# What msgspec says, and the place; `[...]` is any entry of an object.
_MESSAGE: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_FIELD: Final = re.compile(r"Object (?P<how>missing required|contains unknown) field `(?P<name>.*)`", re.DOTALL)
_STEP: Final = re.compile(r"([^.\[]+)|\[(\d+)\]")
_TYPES: Final = re.compile(r"Expected `(?P<types>.*?)`(?:, got `\w+`)?")
_WORDS: Final = {  # for who does not know Python
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}
_WANTED: Final = {
    "missing required": "it is required",
    "contains unknown": "there is no such field, leave it out",
}


def body_error(
    kind: type[InvalidNote] | type[InvalidConfig] | type[BadJson], error: msgspec.ValidationError, body: bytes
) -> StrandlineError:
    """The error of the contract: it names the field, its value, and what was expected. Raises BadJson for what is no
    JSON behind the first mistake."""
    message = _MESSAGE.fullmatch(str(error))
    assert message is not None  # it fits any text
    name, in_an_entry, within = (message["path"] or "").partition("[...]")
    value: Any = decode(json.loads, body)
    for field, place in _STEP.findall(name):
        try:
            value = value[int(place) if place else field]
        except (LookupError, TypeError):  # a name was there twice
            value = None
    wanted = message["what"].replace("`", "")
    if types := _TYPES.fullmatch(message["what"]):
        wanted = " or ".join(_WORDS.get(each, each) for each in types["types"].split(" | "))
    if in_an_entry:
        inner, value = _no_number(value, 1 + within.count("[...]")) or (in_an_entry + within, value)
        name += inner
    elif about := _FIELD.fullmatch(message["what"]):
        wanted = _WANTED[about["how"]]
        name = f"{name}.{about['name']}" if name else about["name"]
        value = value.get(about["name"]) if isinstance(value, dict) else None
    name = name[:NAME_CHARACTERS] or "the body"
    if issubclass(kind, InvalidNote | InvalidConfig):
        return kind(name=name, value=value, wanted=wanted)
    return BadJson(reason=f"{name}: {wanted}")


def _no_number(value: Any, depth: int) -> tuple[str, Any] | None:
    """The first entry, so deep within objects, that is no whole number, and its name."""
    if not depth:
        return None if type(value) is int else ("", value)
    for name, each in value.items() if isinstance(value, dict) else ():
        if found := _no_number(each, depth - 1):
            return f".{name}{found[0]}", found[1]
    return None
