"""The packages that Strandline asks for, and those that an installation of it consists of."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import requires
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

BASE: Final = "base"
# Markers are read as on the oldest Python that is supported.
_MACHINE: Final = {"python_version": "3.11", "python_full_version": "3.11.0", "sys_platform": "linux"}


@cache
def asked_for() -> dict[str, list[Requirement]]:
    """What the base and each extra ask for, as pyproject.toml has it."""
    project = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]
    asked = {BASE: project["dependencies"], **project["optional-dependencies"]}
    return {extra: list(map(Requirement, lines)) for extra, lines in asked.items()}


def direct() -> list[Requirement]:
    """Every direct dependency."""
    return [each for asked in asked_for().values() for each in asked if each.name != "strandline"]


@cache
def brought_by(extra: str) -> frozenset[str]:
    """All packages that an installation with one extra, or the base alone, consists of."""
    todo = [*asked_for()[BASE], *asked_for()[extra]]
    seen: set[tuple[str, str]] = set()
    while todo:
        requirement = todo.pop()
        for one in requirement.extras or {""}:
            name = canonicalize_name(requirement.name)
            if (name, one) not in seen:
                seen.add((name, one))
                todo += asked_for()[one] if name == "strandline" else _asked_by(name, {one, ""})
    return frozenset(name for name, _ in seen if name != "strandline")


def _asked_by(name: str, extras: set[str]) -> Iterator[Requirement]:
    for each in map(Requirement, requires(name) or ()):
        if each.marker is None or any(each.marker.evaluate({**_MACHINE, "extra": one}) for one in extras):
            yield each
