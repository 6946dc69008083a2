"""What a release lacks is found before anything is built, and what people fill in names what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from controller.cli import COMMANDS
from tools.release import LEFT, git, missing

pytestmark = pytest.mark.full

CHANGELOG = "# Changelog\n\n## [1.2.0] - 2026-01-31\n\n### Added\n\n## [1.1.0] - unreleased\n"
PROJECT = '[project]\nversion = "1.2.0"\n'
URLS = '[project.urls]\nSource = "https://example.org/strandline"\n'
CONTRACT: dict[str, Any] = {
    "info": {"version": "1.0.0"},
    "paths": {"/v1/things": {"get": {"responses": {"200": {"description": "all things"}}}}},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose version 1.2.0 may be released, after a release 1.1.0."""
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PROJECT + URLS)
    (tmp_path / "README.md").write_text("# The project\n")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "docs" / "reference" / "openapi.json").write_text(json.dumps(CONTRACT))
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    git(tmp_path, "config", "user.name", "somebody")
    git(tmp_path, "config", "user.email", "somebody@example.org")
    commit(tmp_path)
    git(tmp_path, "tag", "v1.1.0")
    return tmp_path


def commit(project: Path) -> None:
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "a change")


def test_nothing_is_missing_for_a_version_with_its_date_on_a_clean_main(project: Path) -> None:
    assert list(missing(project)) == []


def test_everything_that_is_missing_is_told_at_once(project: Path) -> None:
    (project / "CHANGELOG.md").write_text(CHANGELOG.replace("2026-01-31", "unreleased"))
    (project / "README.md").write_text("**Version 1.2.0 is not released**")
    (project / "pyproject.toml").write_text(PROJECT)
    git(project, "tag", "v1.2.0")
    git(project, "switch", "--quiet", "--create", "mine")
    assert list(missing(project)) == [
        "pyproject.toml has no Source in [project.urls], the repository's address, for the links of README.md",
        "README.md says that 1.2.0 is not released",
        "CHANGELOG.md has 'unreleased' where 1.2.0 has its date, such as 2026-01-31",
        "not committed: CHANGELOG.md",
        "not committed: README.md",
        "not committed: pyproject.toml",
        "this is the branch 'mine': releases are made of main",
        "v1.2.0 was released already",
    ]


@pytest.mark.parametrize(
    ("paths", "version", "said"),
    [
        (CONTRACT["paths"] | {"/v1/more": {}}, "1.0.0", ["the contract differs from that of v1.1.0: raise CONTRACT"]),
        (CONTRACT["paths"] | {"/v1/more": {}}, "1.1.0", []),
        ({}, "1.1.0", ["since v1.1.0: GET /v1/things is gone"]),
    ],
    ids=["grew, and has the same version", "grew", "lost a route"],
)
def test_the_contract_is_compared_with_that_of_the_last_release(
    project: Path, paths: Any, version: str, said: list[str]
) -> None:
    changed = {"info": {"version": version}, "paths": paths}
    (project / "docs" / "reference" / "openapi.json").write_text(json.dumps(changed))
    commit(project)
    found = list(missing(project))
    assert len(found) == len(said) and all(map(str.startswith, found, said)), found


def test_what_people_fill_in_or_do_by_hand_names_only_what_is_there(root: Path) -> None:
    files = [root / "SECURITY.md", *sorted((root / ".github").rglob("*.md"))]
    assert len(files) == 4
    text = "\n".join([LEFT, *(file.read_text() for file in files)])
    targets = (root / "Makefile").read_text()
    for target in re.findall(r"make ([a-z]+)(?: KILLS=\d+)?[`\n]", text):
        assert f"\n{target}:" in targets, target
    for path in re.findall(r"(?<![\w/.])((?:docs|deploy|SECURITY|CHANGELOG|pyproject)[\w/-]*(?:\.\w+)?)", text):
        assert (root / path).exists(), path
    for command in re.findall(r"strandline ([a-z]+) ", text):
        assert command in COMMANDS, command
