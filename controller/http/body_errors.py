"""Errors of the contract for JSON of the wrong shape."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from strandline.errors import BadJson, InvalidConfig, InvalidNote, StrandlineError
from strandline.wire.shapes import misfit_of

_STEP = re.compile(r"(?:^|\.)(?P<name>[^.\[]+)|\[(?P<place>\d+)\]|\[\.\.\.\]")


def body_error(
    kind: type[InvalidNote] | type[InvalidConfig] | type[BadJson], error: msgspec.ValidationError, body: bytes
) -> StrandlineError:
    """The error of the contract: it names the field, its value, and what would be right."""
    misfit = misfit_of(error)
    within = f"{misfit.path}." if misfit.path else ""
    if misfit.missing is not None:
        return _made(kind, within + misfit.missing, None, "it is required")
    value = _at(body, misfit.path)
    if misfit.unknown is not None:
        inside = value.get(misfit.unknown) if isinstance(value, dict) else None
        return _made(kind, within + misfit.unknown, inside, "there is no such field, leave it out")
    return _made(kind, misfit.path or "$", value, misfit.what)


def _made(kind: type[StrandlineError], name: str, value: Any, wanted: str) -> StrandlineError:
    if issubclass(kind, InvalidNote | InvalidConfig):
        return kind(name=name[:80], value=value, wanted=wanted)
    return BadJson(reason=f"{name[:80]}: {wanted}")


def _at(body: bytes, path: str) -> Any:
    """The value at a path of msgspec's. The path does not say which entry of an object it means: the first misfit."""
    value = json.loads(body)
    for step in _STEP.finditer(path):
        if step["name"] is not None:
            value = value.get(step["name"]) if isinstance(value, dict) else None
        elif step["place"] is not None:
            value = value[int(step["place"])] if isinstance(value, list) else None
        elif isinstance(value, dict):
            value = next((each for each in value.values() if type(each) is not int), value)
    return value
