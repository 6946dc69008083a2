"""The web pages have every page once, and beside it what it links to."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tools.website import PUBLIC, PYTHON_PAGES, Nav, configuration, pages, stage

pytestmark = pytest.mark.full


def entries(nav: Nav) -> list[str]:
    """The pages that a navigation names, in its order."""
    found: list[str] = []
    for each in nav:
        for what in each.values():
            found += [what] if isinstance(what, str) else entries(what)
    return found


@pytest.fixture(scope="module")
def source(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages are made of."""
    folder = tmp_path_factory.mktemp("site") / "source"
    stage(root, folder)
    return folder


def test_the_navigation_names_every_page_once(root: Path, source: Path) -> None:
    project = tomllib.loads(configuration(root))["project"]
    named = Counter(entries(project["nav"]))
    python = [f"{PYTHON_PAGES}/{module}.md" for module in PUBLIC]
    assert named == Counter([*pages(root), *python])
    assert [name for name in named if not (source / name).is_file()] == []


def test_every_page_has_beside_it_what_it_links_to(source: Path) -> None:
    """As the Markdown has its links; the pages that are made of it are checked when they are made."""
    assert (source / "controller" / "operations" / "alerts.yml").is_file()
    assert "compose.yaml" in (source / "deploy" / "index.md").read_text()
    assert "[deploy](deploy/index.md)" in (source / "README.md").read_text()
