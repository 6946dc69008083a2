"""ARCHITECTURE.md names every room, and sends nobody to a file that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PATH = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+)?|\w+\.md)`")


@pytest.fixture(scope="module")
def text(root: Path) -> str:
    return (root / "ARCHITECTURE.md").read_text()


def section(text: str, title: str) -> str:
    """What stands under a heading, up to the next one of any level."""
    return re.split(r"^#+ ", text.split(f"# {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_path_that_a_change_leads_to_is_there(text: str, root: Path) -> None:
    paths = PATH.findall(section(text, "To change X, go to Y"))
    assert len(paths) > 40
    assert [path for path in paths if not (root / path).exists()] == []


@pytest.mark.parametrize("package", ["strandline", "controller"])
def test_every_room_of_a_package_is_described(text: str, root: Path, package: str) -> None:
    folders = {path.parent.name for path in (root / package).glob("*/__init__.py")}
    described = "".join(
        part for part in re.split(r"(?=^### )", text, flags=re.MULTILINE) if f"`{package}/`" in part[:40]
    )
    assert {name for name in folders if f"`{name}/`" not in described} == set()
