"""The tests that docs/testing.md shows pass, in a module of their own, away from this project's settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import strandline.testing

pytestmark = pytest.mark.full

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "testing.md"


def test_the_examples_are_a_test_module_that_passes(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "test_time.py").write_text("\n".join(blocks))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # which takes longer than the tests
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3_000:]
    assert f"{''.join(blocks).count('def test_')} passed" in done.stdout


def test_every_public_name_is_in_the_document() -> None:
    text = DOCUMENT.read_text()
    handed_out = {"ScriptedLogReader", "ScriptedLogWriter", "ManualClock"}  # what `reader`, `writer` and `clock` are
    public = [name for name in dir(strandline.testing) if name[:1].isupper()]
    assert len(public) > 10
    assert [name for name in public if name not in text and name not in handed_out] == []
