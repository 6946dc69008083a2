"""What `reader_client` loads when it is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_importing_every_public_name_loads_no_server_and_no_numpy() -> None:
    unwanted = {"fastapi", "starlette", "uvicorn", "sqlalchemy", "numpy", "pyarrow", "controller"}
    unwanted |= {"writer_client"}
    script = f"import sys; from reader_client import *; print({unwanted} & set(sys.modules), 'httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("set() False", "")


def test_importing_the_package_alone_loads_no_http_client() -> None:
    script = "import sys, reader_client; print({'httpx'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")
