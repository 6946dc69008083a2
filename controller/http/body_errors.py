"""Errors of the contract for JSON of the wrong shape."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from controller.http.request_bodies import decode
from strandline.errors import BadJson, InvalidConfig, InvalidNote, StrandlineError
from strandline.wire.shapes import misfit_of

_STEP: Final = re.compile(r"([^.\[]+)|\[(\d+)\]")
NAME_CHARACTERS: Final = 80  # of a field's name that are shown


def body_error(
    kind: type[InvalidNote] | type[InvalidConfig] | type[BadJson], error: msgspec.ValidationError, body: bytes
) -> StrandlineError:
    """The error of the contract: it names the field, its value, and what was expected. Raises BadJson for what is no
    JSON behind the first mistake."""
    misfit = misfit_of(error)
    name, within_entries, _ = misfit.path.partition("[...]")  # msgspec does not name the entry of an object
    value: Any = decode(json.loads, body)
    for field, place in _STEP.findall(name):
        try:
            value = value[int(place) if place else field]
        except (LookupError, TypeError):  # a name was there twice
            value = None
    wanted = misfit.what
    if within_entries:
        wanted += " in an entry"
    elif misfit.missing is not None or misfit.unknown is not None:
        field = misfit.missing or misfit.unknown or ""
        name = f"{name}.{field}" if name else field
        value = value.get(field) if isinstance(value, dict) else None
        wanted = "there is no such field, leave it out" if misfit.missing is None else "it is required"
    name = name[:NAME_CHARACTERS] or "the body"
    if issubclass(kind, InvalidNote | InvalidConfig):
        return kind(name=name, value=value, wanted=wanted)
    return BadJson(reason=f"{name}: {wanted}")
