"""A later version of the program, made from the present one: its schema has two revisions more.

ADDS     adds two columns that may be null; it serves from here on
REMOVES  requires a value in one of them, which the present version does not write
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from controller.storage.schema import LEAST_REVISION, REVISION
from tests.served import ROOT

ADDS, REMOVES = (f"{int(REVISION) + more:04}" for more in (1, 2))

STEP = """
import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{before}"
only_adds = {only_adds}


def upgrade():
    {steps}
"""
CHANGES = {
    "controller/storage/schema.py": [
        (f'REVISION: Final = "{REVISION}"  # the newest', f'REVISION: Final = "{REMOVES}"  # the newest'),
        (f'LEAST_REVISION: Final = "{LEAST_REVISION}"', f'LEAST_REVISION: Final = "{ADDS}"'),
        (
            '    Index("ix_stream_shard_wake_at", SHARD, "wake_at"),\n',
            '    Column("label", Text),\n    Index("ix_stream_shard_wake_at", SHARD, "wake_at"),\n',
        ),
        (
            '    Column("began_at", BigInteger, nullable=False),\n',
            '    Column("began_at", BigInteger, nullable=False),\n    Column("host", Text),\n',
        ),
    ],
    "controller/storage/rows.py": [
        (
            '        "fence": fence,\n        **asdict(place),\n',
            '        "fence": fence,\n        "label": None,\n        **asdict(place),\n',
        ),
    ],
    "controller/storage/cluster.py": [
        (
            "            revision=schema.REVISION,\n",
            "            revision=schema.REVISION,\n            host='here',\n",
        ),
    ],
}


def make(folder: Path) -> Path:
    """The folder with the later version."""
    for name in ("controller", "strandline"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file, changes in CHANGES.items():
        path = folder / file
        source = path.read_text()
        for present, later in changes:
            assert source.count(present) == 1, f"{file} has changed: {present}"
            source = source.replace(present, later)
        path.write_text(source)
    _add_step(
        folder,
        ADDS,
        REVISION,
        True,
        *(
            f"op.add_column({each})"
            for each in (
                '"stream", sa.Column("label", sa.Text(), nullable=True)',
                '"controller", sa.Column("host", sa.Text(), nullable=True)',
            )
        ),
    )
    _add_step(
        folder,
        REMOVES,
        ADDS,
        False,
        *(
            """op.execute("UPDATE controller SET host = '' WHERE host IS NULL")""",
            'op.alter_column("controller", "host", nullable=False)',
        ),
    )
    return folder


def _add_step(folder: Path, revision: str, before: str, only_adds: bool, *steps: str) -> None:
    step = STEP.format(revision=revision, before=before, only_adds=only_adds, steps="\n    ".join(steps))
    (folder / "controller" / "storage" / "migrations" / "versions" / f"{revision}_later.py").write_text(step)


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the version in that folder."""
    environment = {**os.environ, "PYTHONPATH": str(program)}
    command = [sys.executable, "-m", "controller", *arguments]
    return subprocess.run(command, cwd=program, env=environment, capture_output=True, text=True, check=False)
