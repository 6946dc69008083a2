"""Reading JSON objects field by field: each in its type, or a ValueError that says which field is wrong, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

Value = TypeVar("Value")


class Fields:
    """A JSON object that was received, and where it stood in the answer. Fields it does not ask for may be there:
    a newer controller may say more."""

    __slots__ = ("_object", "_where")

    def __init__(self, value: object, where: str = "the answer") -> None:
        """Raises ValueError for anything but an object."""
        if not isinstance(value, Mapping):
            raise ValueError(f"{where} is {_short(value)}, and not an object")
        self._object: Mapping[str, Any] = value
        self._where = where

    def has(self, name: str) -> bool:
        """Whether the field is there, and not null."""
        return self._object.get(name) is not None

    def only(self, names: Iterable[str]) -> dict[str, Any]:
        """Those of these fields that are there, as they stand: for who checks them himself."""
        return {name: self._object[name] for name in names if name in self._object}

    def number(self, name: str) -> int:
        return self._of(name, int, "a whole number")

    def number_or_none(self, name: str) -> int | None:
        return self.number(name) if self.has(name) else None

    def text(self, name: str) -> str:
        return self._of(name, str, "a text")

    def text_or_none(self, name: str) -> str | None:
        return self.text(name) if self.has(name) else None

    def flag(self, name: str) -> bool:
        return self._of(name, bool, "true or false")

    def share_or_none(self, name: str) -> float | None:
        """A number from 0 to 1, whole or not."""
        value = self._object.get(name)
        if value is None:
            return None
        if type(value) not in (int, float):
            raise self._wrong(name, "a number")
        return float(value)

    def texts(self, name: str) -> tuple[str, ...]:
        return self.list(name, _text)

    def numbers(self, name: str) -> dict[str, int]:
        """An object whose values are whole numbers: a position or a cut, as a plain dict."""
        return self.by_name(name, _number)

    def numbers_or_none(self, name: str) -> dict[str, int | None]:
        return self.by_name(name, _number_or_none)

    def texts_or_none(self, name: str) -> dict[str, str | None]:
        """An object whose values are texts or null."""
        return self.by_name(name, _text_or_none)

    def list(self, name: str, read: Callable[[Any, str], Value]) -> tuple[Value, ...]:
        values = self._of(name, list, "a list")
        return tuple(read(value, f"{self._where}.{name}[{place}]") for place, value in enumerate(values))

    def by_name(self, name: str, read: Callable[[Any, str], Value]) -> dict[str, Value]:
        values = self._of(name, dict, "an object")
        return {each: read(value, f"{self._where}.{name}.{each}") for each, value in values.items()}

    def read(self, name: str, read: Callable[[Any, str], Value]) -> Value:
        if name not in self._object:
            raise ValueError(f"{self._where} has no {name}")
        return read(self._object[name], f"{self._where}.{name}")

    def read_or_none(self, name: str, read: Callable[[Any, str], Value]) -> Value | None:
        return self.read(name, read) if self.has(name) else None

    def _of(self, name: str, kind: type[Value], wanted: str) -> Value:
        value = self._object.get(name)
        if type(value) is not kind:
            raise self._wrong(name, wanted)
        return value

    def _wrong(self, name: str, wanted: str) -> ValueError:
        if name not in self._object:
            return ValueError(f"{self._where} has no {name}")
        return ValueError(f"{self._where}.{name} is {_short(self._object[name])}, and not {wanted}")


def _text(value: object, where: str) -> str:
    if type(value) is not str:
        raise ValueError(f"{where} is {_short(value)}, and not a text")
    return value


def _text_or_none(value: object, where: str) -> str | None:
    return _text(value, where) if value is not None else None


def _number(value: object, where: str) -> int:
    if type(value) is not int:
        raise ValueError(f"{where} is {_short(value)}, and not a whole number")
    return value


def _number_or_none(value: object, where: str) -> int | None:
    return _number(value, where) if value is not None else None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
