"""What the explanations compute is what they say: their code runs on the core, and prints what stands below it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.readme.pages import blocks_of

FOLDER = Path(__file__).parents[2] / "docs" / "explanation"
PAGES = sorted(file.name for file in FOLDER.glob("*.md"))
WITHOUT_CODE = {"rivals.md", "rules.md", "seeds.md", "words.md"}


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_an_explanation_prints_what_the_page_says(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for block in blocks_of(f"docs/explanation/{page}") if block.language in ("python", "text")]
    assert bool(blocks) != (page in WITHOUT_CODE)
    names: dict[str, Any] = {}
    printed = ""
    for block in blocks:
        if block.language == "python":
            assert not printed, f"{page} does not show what this printed:\n{printed}"
            exec(block.text, names)
            printed = capsys.readouterr().out
        else:
            assert printed == block.text
            printed = ""
    assert not printed


@pytest.mark.parametrize("page", PAGES)
def test_no_other_kind_of_block_promises_to_be_run(page: str) -> None:
    """A drawing has no language; whatever has one is run above."""
    assert set(re.findall(r"^```(\w+)", (FOLDER / page).read_text(), re.MULTILINE)) <= {"python", "text"}
