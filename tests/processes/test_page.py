"""The page about several controllers starts them, and what it says of PostgreSQL's connections is true."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg

from controller.limits import LOADS_AT_ONCE
from tests.readme.pages import ROOT, Stranger
from tests.served import OwnProcess

PAGE = "docs/how-to/several-controllers.md"
SESSIONS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def test_the_page_about_several_controllers_starts_them(postgres_url: str, tmp_path: Path) -> None:
    replaced = {"postgresql://strandline@db.example/strandline": postgres_url, "10.0.0.1": "127.0.0.1"}
    with Stranger(tmp_path, replaced=replaced) as stranger:
        stranger.walk(PAGE)
    assert (tmp_path / "postgresql.conf").is_file()


def test_a_controller_has_as_many_connections_as_the_page_says(postgres_url: str) -> None:
    text = (ROOT / PAGE).read_text()
    (at_rest, more) = map(int, re.findall(r"has (?:up to )?(\d+) (?:connections|more)", text))
    assert more == LOADS_AT_ONCE and f"{at_rest + more} for each controller" in text
    process = OwnProcess(postgres_url, "--name", "a", "--address", "http://127.0.0.1:8433")
    try:
        assert process.client.get("/v1/streams").is_success
        with psycopg.connect(postgres_url) as connection:
            assert connection.execute(SESSIONS).fetchone() == (at_rest,)
    finally:
        process.stop()
