"""What docs/writers.md shows works as it stands there, against a real controller."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from strandline.protocol import calls
from tests.served import AT_ONCE, served

ROOT = Path(__file__).parents[2]


def code_of(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", ["README.md", "docs/writers.md"])
def test_the_code_for_writers_runs_as_it_is_shown(document: str, tmp_path: Path) -> None:
    blocks = code_of(document)[:1] if document == "README.md" else code_of(document)
    with served(tmp_path / "store.db") as connection:
        connection.run(calls.create_stream("orders", 2, AT_ONCE))
        script = tmp_path / "shown.py"
        script.write_text("\n".join(blocks).replace("http://127.0.0.1:8433", connection.controller))
        done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2_000:]
        marks = connection.run(calls.marks("orders")).marks
        described = connection.run(calls.describe("orders"))
    assert (marks[0].time, marks[0].newest) == (1_700_000_000_001, 1_700_000_000_000)
    assert set(described.writers) == {"closed"}
    if document == "docs/writers.md":
        assert described.writers["closed"] == 5
        assert [each.segment.id for each in described.segments] == ["0", "1", "2", "3"]
