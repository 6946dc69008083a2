"""The packages that Strandline needs: what for, and under which licences they are."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import distribution, requires
from pathlib import Path
from typing import Final, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.licences import licence_of, pinned, recorded
from tools.reference.text import code, page, table, wrapped

ROOT: Final = Path(__file__).resolve().parents[2]
BASE: Final = "base"
TOOLS: Final = "tools only"

# Markers are read as on the oldest Python that is supported, so that the page does not depend on who writes it.
_MACHINE: Final = {"python_version": "3.11", "python_full_version": "3.11.0", "sys_platform": "linux"}


class Needed(NamedTuple):
    """A direct dependency."""

    extra: str
    requirement: str
    why: str


def dependencies() -> str:
    """The direct dependencies with what they are for, and all that is pinned with its licence."""
    introduction = (
        "A writer's install is the base; everything else is an extra, such as `pip install '.[controller]'`. "
        "Tests run on the pinned versions; newer ones are taken by `make lock LOCK=--upgrade`."
    )
    remark = (
        "As the installed packages state them. None of them is a part of Strandline: pip installs them. What comes "
        "with no extra is for working on Strandline."
    )
    direct = [(code(each.extra), code(each.requirement), each.why) for each in needed()]
    licences = grouped(
        (", ".join(extras_with(name)) or TOOLS, licence_of(distribution(name)), f"{name} {version}")
        for name, version in sorted(pinned().items())
    )
    aside = (
        "These are installed only by `make lowest`, which tests the lowest versions that users may have, and by "
        "`make site`, each into an environment of its own. `make lock` has read their licences there."
    )
    others = grouped(
        (code(f"make {name}"), licence, package.replace("==", " "))
        for name, licences in recorded().items()
        for package, licence in licences.items()
    )
    return page(
        "Dependencies",
        introduction,
        [
            f"## What is needed, and what for\n\n{table(('extra', 'package', 'for'), direct)}",
            f"## Licences\n\n{wrapped(remark)}\n\n{table(('comes with', 'licence', 'packages'), licences)}",
            f"{wrapped(aside)}\n\n{table(('installed by', 'licence', 'packages'), others)}",
        ],
    )


def grouped(rows: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """One row for all packages that come with the same and are under the same licence."""
    found: dict[tuple[str, str], list[str]] = {}
    for brought, licence, package in rows:
        found.setdefault((brought, licence), []).append(package)
    return [(*key, ", ".join(packages)) for key, packages in sorted(found.items())]


def needed() -> list[Needed]:
    """The direct dependencies in the order of pyproject.toml, each with the remark behind it."""
    text = (ROOT / "pyproject.toml").read_text()
    text = text[text.index("\ndependencies = [") : text.index("\n[project.scripts]")]
    found: list[Needed] = []
    extra = ""
    for line in text.splitlines():
        if begun := re.match(r"(\w+) = \[", line):
            extra = BASE if begun[1] == "dependencies" else begun[1]
        elif entry := re.match(r'    "(.+?)",(?:\s*# (.+))?$', line):
            found.append(Needed(extra, entry[1], entry[2] or ""))
    return [each for each in found if not each.requirement.startswith("strandline[")]


def extras_with(name: str) -> list[str]:
    """The extras, or the base, with which a package comes."""
    base = brought_by(BASE)
    if name in base:
        return [BASE]
    return [extra for extra in _extras() if name in brought_by(extra) - base]


@cache
def _extras() -> tuple[str, ...]:
    return tuple(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


@cache
def brought_by(extra: str) -> frozenset[str]:
    """All packages that an installation with one extra, or the base alone, consists of."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    todo = [Requirement(each) for each in project["dependencies"]]
    todo += [Requirement(each) for each in project["optional-dependencies"].get(extra, ())]
    seen: set[tuple[str, str]] = set()
    found: set[str] = set()
    while todo:
        requirement = todo.pop()
        for one in requirement.extras or {""}:
            name = canonicalize_name(requirement.name)
            if (name, one) in seen:
                continue
            seen.add((name, one))
            if name == "strandline":
                todo += [Requirement(each) for each in project["optional-dependencies"][one]]
                continue
            found.add(name)
            todo += _asked_by(name, {one, ""})
    return frozenset(found)


def _asked_by(name: str, extras: set[str]) -> Iterator[Requirement]:
    for each in map(Requirement, requires(name) or ()):
        if each.marker is None or any(each.marker.evaluate({**_MACHINE, "extra": one}) for one in extras):
            yield each
