"""Pages whose programs start a Spark of their own, which is killed or belongs to a server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka import Kafka
from tests.readme.pages import Stranger
from tests.served import served

DEADLINE_S = 280

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(1_200)]


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[str]:
    with served(tmp_path / "store.db") as connection:
        yield connection.controller


@pytest.mark.parametrize("page", ["append-only-table", "declarative-pipelines"])
def test_the_programs_of_a_page_do_what_it_says(
    page: str, controller: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    there = {"/srv/windows": str(tmp_path)}
    with Stranger(tmp_path, controller=controller, replaced=there, deadline_s=DEADLINE_S) as stranger:
        stranger.walk(f"docs/how-to/{page}.md")


def test_the_page_from_a_topic_to_a_table_makes_right_sums(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    kafka.create_topic("payments", 4)
    kafka.recreate_topic("strandline-notes", 1)  # which other tests may have used
    with Stranger(tmp_path, replaced={"127.0.0.1:9092": kafka.servers}, deadline_s=DEADLINE_S) as stranger:
        stranger.walk("docs/how-to/topic-to-table.md")
