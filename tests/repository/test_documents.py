"""What the documents tell a reader to type works, and the versions that they name agree."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

DOCUMENTS = ["README.md", "CONTRIBUTING.md"]
PAGES = ["docs/backup.md", "docs/readers.md"]  # have no make targets
SHELL_BLOCK = re.compile(r"^```(?:sh|bash|shell|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Commands that are no make targets: how each begins, and the test that runs it as the document has it.
RUN_BY = {
    "curl ": "tests/readme/test_readme.py::test_the_four_calls_answer_as_the_readme_says",
    ".venv/bin/python -m benchmarks.disorder": "tests/disorder/test_disorder.py::test_the_table_shows_both",
    ".venv/bin/python -m benchmarks.order": "tests/disorder/test_order.py::test_the_table_shows_all_of_them",
    ".venv/bin/strandline serve": "tests/readme/test_readme.py::test_the_four_calls_answer_as_the_readme_says",
    "strandline backup ": "tests/controller/test_backup.py::test_the_pages_commands_do_what_it_says",
    "strandline restore ": "tests/controller/test_backup.py::test_the_pages_commands_do_what_it_says",
}
GETTING_THE_CODE = ("git clone ", "cd ")


def commands(text: str) -> list[str]:
    """The commands in a document's shell blocks; lines that end with a backslash are joined."""
    blocks = "".join(SHELL_BLOCK.findall(text)).replace("\\\n", " ")
    lines = (re.split(r"\s#\s", line, maxsplit=1)[0].strip() for line in blocks.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def is_tested(command: str, root: Path) -> bool:
    """Whether a test runs the command; make targets are looked at one by one elsewhere."""
    for beginning, test in RUN_BY.items():
        if command.startswith(beginning):
            file, _, name = test.partition("::")
            return f"def {name}(" in (root / file).read_text()
    return False


@pytest.mark.parametrize("document", [*DOCUMENTS, *PAGES])
def test_every_command_is_a_make_target_or_run_by_a_test(document: str, root: Path) -> None:
    found = commands((root / document).read_text())
    others = [each for each in found if not each.startswith(("make ", *GETTING_THE_CODE))]
    assert found
    assert [each for each in others if not is_tested(each, root)] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_command_is_one_that_make_knows(document: str, root: Path) -> None:
    for command in commands((root / document).read_text()):
        if command.startswith("make "):
            words = [*command.split(), "--dry-run"]
            done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{document}: {command}: {done.stderr}"


def test_continuous_integration_runs_what_the_readme_names_and_nothing_else(root: Path) -> None:
    named = commands((root / "README.md").read_text())
    lines = (root / ".ci" / "run").read_text().splitlines()
    run = [line for line in lines if line and not line.startswith(("#", "set ", "cd ", "export "))]
    assert "make test" in run
    assert [line for line in run if line not in named] == []


def test_help_shows_every_target(root: Path) -> None:
    targets = re.findall(r"^\.PHONY: (.*)$", (root / "Makefile").read_text(), re.MULTILINE)[0].split()
    shown = subprocess.run(["make", "help"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert sorted(re.findall(r"^  make (\w+)", shown, re.MULTILINE)) == sorted(targets)


def test_the_changelog_begins_with_the_version_of_the_project(root: Path, pyproject: dict[str, Any]) -> None:
    versions = re.findall(r"^## \[([^\]]+)\]", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == pyproject["project"]["version"]


def test_commands_are_taken_from_shell_blocks_only() -> None:
    text = "```python\nmake x\n```\n```sh\n# first\nmake y  # why\ncurl a \\\n  -d b\n```\nmake z\n"
    assert [re.sub(r"\s+", " ", each) for each in commands(text)] == ["make y", "curl a -d b"]
