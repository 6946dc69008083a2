"""The reference says what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.api.access import RULES
from controller.commands import COMMANDS
from strandline.protocol.problems import BY_CODE
from tools import reference


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


@pytest.mark.parametrize("name", ["http.md", "options.md", "errors.md", "limits.md"])
def test_no_page_is_stale(name: str, pages: dict[str, str], root: Path) -> None:
    """Else: make reference."""
    assert (root / "docs" / "reference" / name).read_text() == pages[name]


def test_there_is_no_other_page(pages: dict[str, str], root: Path) -> None:
    assert {file.name for file in (root / "docs" / "reference").iterdir()} == set(pages)


def test_every_route_command_and_code_is_there(pages: dict[str, str]) -> None:
    assert [route for route in RULES if f"### `{route}`" not in pages["http.md"] and route != "GET /metrics"] == []
    assert [name for name in COMMANDS if f"## `strandline {name}`" not in pages["options.md"]] == []
    assert [code for code in BY_CODE if f"| `{code}` |" not in pages["errors.md"]] == []


def test_every_limit_says_what_it_is(pages: dict[str, str]) -> None:
    """A comment on its line in limits.py."""
    assert [line for line in pages["limits.md"].splitlines() if line.startswith("| `") and line.endswith("|  |")] == []


def test_every_error_says_something_of_its_own(pages: dict[str, str]) -> None:
    assert [line for line in pages["errors.md"].splitlines() if line.startswith("| `") and "|  | `" in line[-30:]] == []
