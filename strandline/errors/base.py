"""The root of all errors: fields that go over the wire, a sentence, and pickling."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar


def _rebuild(kind: type[StrandlineError], values: dict[str, Any]) -> StrandlineError:
    return kind(**values)


class StrandlineError(Exception):
    """The root. `code` is stable, `detail` is a sentence for people, `values` are the fields by name."""

    code: ClassVar[str] = "error"

    @property
    def detail(self) -> str:
        return type(self).__name__

    @property
    def values(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # every leaf is a dataclass

    def __str__(self) -> str:
        return self.detail

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.values)
