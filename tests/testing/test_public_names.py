"""What `strandline.testing` loads when it is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_scripted_log_needs_no_server() -> None:
    unwanted = {"fastapi", "starlette", "uvicorn", "sqlalchemy", "httpx", "numpy", "pyarrow", "controller"}
    script = f"import sys; from strandline.testing import ScriptedLog; print({unwanted} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")
