"""What `strandline.testing` offers: a name that comes or goes does so on purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import strandline.testing

ROOT = Path(__file__).resolve().parents[2]

CLASSES = [
    "Acknowledge",
    "AsyncFaultyTransport",
    "Fault",
    "Faults",
    "FaultyTransport",
    "InProcessController",
    "ManualClock",
    "ScriptedLog",
    "ScriptedLogReader",
    "ScriptedLogWriter",
    "Slow",
]


def test_the_public_names_are_these_and_are_there() -> None:
    assert strandline.testing.__all__ == ["MARKS_AT_ONCE", "NOON", *CLASSES]
    assert [getattr(strandline.testing, name).__name__ for name in CLASSES] == CLASSES
    assert strandline.testing.MARKS_AT_ONCE.mark_interval_ms == 0


def test_a_scripted_log_needs_no_server() -> None:
    unwanted = {"fastapi", "starlette", "uvicorn", "sqlalchemy", "httpx", "numpy", "pyarrow", "controller"}
    script = f"import sys; from strandline.testing import ScriptedLog; print({unwanted} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")
