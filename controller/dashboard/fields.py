"""Fields of forms: what a visitor writes, as the value that it means. What cannot be is refused with a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from controller.operators.wording import duration_text, read_duration, read_offsets
from strandline.core.config import SETTINGS, Setting
from strandline.names import check_name

FORM: Final = [setting for setting in SETTINGS.values() if not setting.says.stays]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form. `read` raises ValueError or StrandlineError, whose text is for the visitor. With `choices`
    there is nothing else to write. A `hidden` one is not shown: it sends its value along."""

    name: str
    hint: str
    read: Callable[[str], Any]
    value: str = ""
    choices: Sequence[str] | None = None
    hidden: bool = False


# -- settings --------------------------------------------------------------------------------------------------------


def setting_field(setting: Setting, value: Any) -> Field:
    """The field for a setting that has this value."""
    choices = None if setting.choices is None else [str(choice) for choice in setting.choices]
    return Field(setting.name, setting.says.meaning, partial(read_text, setting), as_text(setting, value), choices)


def as_text(setting: Setting, value: Any) -> str:
    """A value as it stands in the form."""
    return duration_text(value) if _is_duration(setting) else str(value)


def read_text(setting: Setting, text: str) -> Any:
    """The value that a text of the form means. Raises ValueError with a sentence for the visitor."""
    says = setting.says
    if setting.choices is not None:
        return text
    if not text:
        if setting.or_null:
            return None
        raise ValueError("this cannot be empty")
    value = read_duration(text) if _is_duration(setting) else read_number(text)
    shown = partial(as_text, setting)
    if value < says.least:
        raise ValueError(f"at least {shown(says.least)}")
    if says.most is not None and value > says.most:
        raise ValueError(f"at most {shown(says.most)}")
    return value


def with_opened(fields: Sequence[Field]) -> list[Field]:
    """Fields, which send the values along with which the form was opened, for `changes`."""
    return [*fields, *(replace(each, name=_opened(each.name), hidden=True) for each in fields)]


def changes(values: Mapping[str, Any], names: Iterable[str], present: object) -> dict[str, Any]:
    """The values of these names that the visitor changed. Raises ValueError if there is none, and for one that somebody
    else has changed since the form was opened: then the attribute of `present` is another one."""
    found = {name: values[name] for name in names if values[name] != values[_opened(name)]}
    if not found:
        raise ValueError("nothing is changed yet")
    for name in found:
        if getattr(present, name) != values[_opened(name)]:
            raise ValueError(f"somebody else has changed {name} meanwhile: cancel, and begin again")
    return found


def _opened(name: str) -> str:
    return f"{name} as opened"


def _is_duration(setting: Setting) -> bool:
    return setting.name.endswith("_ms")


# -- other values ------------------------------------------------------------------------------------------------------


def read_number(text: str) -> int:
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None:
        raise ValueError("not a whole number")
    return int(text)


def read_streams(text: str) -> tuple[str, ...]:
    """The names of at least one stream."""
    if not text:
        raise ValueError("at least one stream")
    return tuple(check_name("stream", each.strip()) for each in text.split(","))


def read_positions(text: str) -> dict[str, dict[str, int]]:
    """Positions by stream, as `orders: 0=300,1=400; payments: 0=5`; empty for an empty text."""
    found: dict[str, dict[str, int]] = {}
    for each in text.split(";") if text.strip() else ():
        stream, colon, position = each.partition(":")
        if not colon:
            raise ValueError("a position for each stream, as orders: 0=300,1=400; payments: 0=5")
        name = check_name("stream", stream.strip())
        if name in found:
            raise ValueError(f"it names {name} twice")
        found[name] = read_offsets(position.strip())
        if not found[name]:
            raise ValueError(f"an offset for at least one segment of {name}, as 0=300,1=400")
    return found
