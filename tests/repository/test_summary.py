"""A run of the tests closes with what ran, what was skipped, why, and how to get it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODULE = """
from tests.summary import skip, skip_but_under_ci

def test_that_runs():
    pass

def test_that_lacks_something():
    skip("there is no ocean", "move to the coast")

def test_that_ci_has_to_run():
    skip_but_under_ci("there is no server", "install one")
"""


def test_a_run_closes_with_what_was_skipped_and_how_to_get_it(root: Path, tmp_path: Path) -> None:
    """Under CI=true, where what it has to have is a failure."""
    (tmp_path / "test_coast.py").write_text(MODULE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.summary", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(root), "CI": "true", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if "what ran and what did not" in line)
    assert lines[first + 1 : first + 5] == [
        "ran: test_coast.py 2",
        "skipped: test_coast.py 1",
        "    why: there is no ocean",
        "    to run them: move to the coast",
    ]
    assert done.returncode == 1
    assert "there is no server; to run them: install one" in done.stdout
