"""Errors of the contract for JSON of the wrong shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from controller.http.request_bodies import decode
from strandline.errors import BadJson, InvalidConfig, InvalidNote, StrandlineError
from strandline.wire.shapes import Misfit, misfit_of

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
    """The error of the contract: it names the field, its value, and what would be right. Raises BadJson for what is no
    JSON behind the first mistake."""
    misfit = misfit_of(error)
    path, value = _at(body, misfit)
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


def _at(body: bytes, misfit: Misfit) -> tuple[str, Any]:
    """The place of a misfit with the names of entries, and the value there: the first of the places that msgspec may
    mean at which something is wrong."""

    def is_wrong(value: Any) -> bool:
        if misfit.missing is not None:
            return isinstance(value, dict) and misfit.missing not in value
        if misfit.unknown is not None:
            return isinstance(value, dict) and misfit.unknown in value
        return type(value) is not int

    places = list(_places(decode(json.loads, body), list(_STEP.finditer(misfit.path)), ""))
    return next((place for place in places if is_wrong(place[1])), places[0])


def _places(value: Any, steps: Sequence[re.Match[str]], named: str) -> Iterator[tuple[str, Any]]:
    """The places that a path of msgspec's may mean, which says `[...]` for any entry of an object."""
    if not steps:
        yield named, value
        return
    step, *rest = steps
    if step["name"] is not None:
        inner = value.get(step["name"]) if isinstance(value, dict) else None
        yield from _places(inner, rest, named + step[0])
    elif step["place"] is not None:
        place = int(step["place"])
        inner = value[place] if isinstance(value, list) and place < len(value) else None
        yield from _places(inner, rest, named + step[0])
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _places(inner, rest, f"{named}.{name}")
