"""Every block of Python in the documents passes mypy's strict checks, so that a reader's copy of it does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.readme.pages import ROOT, blocks_of

FOREIGN = re.compile(r"^(?:from|import) (?:airflow|dagster)\b", re.MULTILINE)  # packages that are not installed here
# What pages about jobs begin with, in words.
SPARK = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
OF_A_SESSION = ("docs/spark.md", "docs/how-to/chained-jobs.md", "docs/how-to/backfill.md")


@pytest.mark.full
def test_every_block_of_python_passes_mypys_strict_checks(tmp_path: Path) -> None:
    places: dict[str, list[str]] = {}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        page = str(path.relative_to(ROOT))
        for block in blocks_of(page):
            if block.language == "python" and not FOREIGN.search(block.text):
                name = re.sub(r"\W", "_", f"{page} {block.file or ''}")
                begun = places.setdefault(name, [SPARK] if page in OF_A_SESSION and block.file is None else [])
                begun.append(f"# {block}\n{block.text}")
    assert len(places) > 30
    for name, texts in places.items():
        (tmp_path / f"{name}.py").write_text("\n".join(texts))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--ignore-missing-imports", "."],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
