"""The reference says what the code says."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest

from controller.http.bodies import GroupBody
from controller.http.routes import ROUTES
from controller.operators.metric_families import FAMILIES
from spark_integration.options import OPTIONS
from strandline.core.config import StreamConfig
from strandline.wire.problems import BY_CODE
from tools import reference
from tools.reference.measured import ALERTS


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


@pytest.mark.parametrize("name", sorted(file.name for file in reference.FOLDER.iterdir()))
def test_no_page_is_stale(name: str, pages: dict[str, str], root: Path) -> None:
    """Else: make reference."""
    assert (root / "docs" / "reference" / name).read_text() == pages[name]


def test_there_is_no_other_page(pages: dict[str, str], root: Path) -> None:
    assert {file.name for file in (root / "docs" / "reference").iterdir()} == set(pages)


def test_every_route_and_code_is_there(pages: dict[str, str]) -> None:
    assert [each.call for each in ROUTES if f"### `{each.call}`" not in pages["http.md"]] == []
    assert [code for code in BY_CODE if f"- `{code}` (" not in pages["errors.md"]] == []


def test_every_setting_is_there_and_says_what_it_is(pages: dict[str, str]) -> None:
    """A comment above it in config.py or bodies.py, an entry in OPTIONS."""
    rows = re.findall(r"^\| `(.*?)` \| .*? \|$", pages["options.md"], re.MULTILINE)
    settings = [field.name for field in fields(StreamConfig)] + [
        each.name for each in msgspec.structs.fields(GroupBody)
    ]
    assert [name for name in [*settings, *OPTIONS] if name not in rows] == []
    assert [line for line in pages["options.md"].splitlines() if line.startswith("| `") and line.endswith("|  |")] == []


def test_every_metric_is_there_with_the_alerts_that_look_at_it(pages: dict[str, str]) -> None:
    for family in FAMILIES:
        assert pages["metrics.md"].count(f"- `{family.name}` ({family.kind}") == 1
    named = set(re.findall(r"`(Strandline\w+)`", pages["metrics.md"]))
    assert named == set(re.findall(r"- alert: (\w+)", ALERTS.read_text()))
