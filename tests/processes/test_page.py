"""The page about several controllers starts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.readme.pages import Stranger

pytestmark = pytest.mark.full


def test_the_page_about_several_controllers_starts_them(postgres_url: str, tmp_path: Path) -> None:
    replaced = {"postgresql://strandline@db.example/strandline": postgres_url, "10.0.0.1": "127.0.0.1"}
    with Stranger(tmp_path, replaced=replaced) as stranger:
        stranger.walk("docs/how-to/several-controllers.md")
    assert (tmp_path / "postgresql.conf").is_file()
