"""What is installed is what was pinned, and the pins are what the project asks for."""

import re
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tools.lowest import TESTS as LOWEST_TESTS
from tools.lowest import lowest_in

PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+) \\$", re.MULTILINE)
ADDRESS = re.compile(r"://|--(?:extra-)?index-url|--find-links|--trusted-host|^-[if] | @ ", re.MULTILINE)


@pytest.fixture(scope="module")
def compiled(root: Path) -> dict[str, str]:
    """The compiled requirement files by name."""
    return {file.name: file.read_text() for file in sorted((root / "tools" / "requirements").glob("*.txt"))}


def test_each_in_file_is_compiled_and_nothing_else(compiled: dict[str, str], root: Path) -> None:
    assert set(compiled) == {f"{file.stem}.txt" for file in (root / "tools" / "requirements").glob("*.in")}


def test_no_requirement_file_names_an_address(compiled: dict[str, str], root: Path) -> None:
    sources = {file.name: file.read_text() for file in (root / "tools" / "requirements").glob("*.in")}
    assert {name: ADDRESS.findall(text) for name, text in (compiled | sources).items() if ADDRESS.search(text)} == {}


def test_the_lowest_versions_are_the_bounds_of_the_project(compiled: dict[str, str], root: Path) -> None:
    wanted = lowest_in(root)
    assert (root / "tools" / "requirements" / "lowest.in").read_text() == wanted, "a bound has changed: make lock"
    pins = dict(PIN.findall(compiled["lowest.txt"]))
    asked = [Requirement(line) for line in wanted.splitlines() if "==" in line]
    assert [str(each) for each in asked if Version(pins[each.name]) not in each.specifier] == []
    assert [name for name in LOWEST_TESTS if not (root / name.partition("::")[0]).exists()] == []


def test_a_writers_install_needs_httpx_and_msgspec_only(pyproject: dict[str, Any]) -> None:
    assert [Requirement(each).name for each in pyproject["project"]["dependencies"]] == ["httpx", "msgspec"]
