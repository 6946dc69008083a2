"""Errors of the contract for JSON of the wrong shape."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from strandline.errors import BadJson, InvalidConfig, InvalidNote, StrandlineError
from strandline.wire.shapes import misfit_of

_STEP: Final = re.compile(r"(?:^|\.)(?P<name>[^.\[]+)|\[(?P<place>\d+)\]|\[\.\.\.\]")
_EXPECTED: Final = re.compile(r"expected (?P<wanted>.*?)(?:, got \w+)?")  # the value is told beside it
_TYPE: Final = re.compile(r"\b(?:int|float|str|bool|object|array)\b| \| ")
_WORDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    " | ": " or ",
}


def body_error(
    kind: type[InvalidNote] | type[InvalidConfig] | type[BadJson], error: msgspec.ValidationError, body: bytes
) -> StrandlineError:
    """The error of the contract: it names the field, its value, and what would be right."""
    misfit = misfit_of(error)
    path, value = _at(body, misfit.path)
    within = f"{path}." if path else ""
    if misfit.missing is not None:
        return _made(kind, within + misfit.missing, None, "it is required")
    if misfit.unknown is not None:
        inside = value.get(misfit.unknown) if isinstance(value, dict) else None
        return _made(kind, within + misfit.unknown, inside, "there is no such field, leave it out")
    return _made(kind, path or "the body", value, _wanted(misfit.what))


def what_is_wrong(error: msgspec.ValidationError) -> str:
    """The place within a value of the wrong shape, and what would be right there."""
    misfit = misfit_of(error)
    where = misfit.path or "it"
    if misfit.missing is not None:
        return f"{where} has no {misfit.missing}"
    if misfit.unknown is not None:
        return f"{where} has a field {misfit.unknown}, which does not exist"
    return f"{where} has to be {_wanted(misfit.what)}"


def _wanted(what: str) -> str:
    """What msgspec expected, in words that are not Python's."""
    matched = _EXPECTED.fullmatch(what)
    return what if matched is None else _TYPE.sub(lambda found: _WORDS[found[0]], matched["wanted"])


def _made(kind: type[StrandlineError], name: str, value: Any, wanted: str) -> StrandlineError:
    if issubclass(kind, InvalidNote | InvalidConfig):
        return kind(name=name[:80], value=value, wanted=wanted)
    return BadJson(reason=f"{name[:80]}: {wanted}")


def _at(body: bytes, path: str) -> tuple[str, Any]:
    """The value at a path of msgspec's, and the path with names. That of msgspec does not say which entry of an object
    it means: the first misfit."""
    value, named = json.loads(body), ""
    for step in _STEP.finditer(path):
        if step["name"] is not None:
            value = value.get(step["name"]) if isinstance(value, dict) else None
            named += step[0]
        elif step["place"] is not None:
            value = value[int(step["place"])] if isinstance(value, list) else None
            named += step[0]
        elif isinstance(value, dict):
            name = next((name for name, each in value.items() if type(each) is not int), None)
            value = value if name is None else value[name]
            named += "[...]" if name is None else f".{name}"
    return named, value
