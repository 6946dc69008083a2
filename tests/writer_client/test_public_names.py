"""What `writer_client` loads when it is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import writer_client
import writer_client.errors

ROOT = Path(__file__).resolve().parents[2]


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'writer_client' has no attribute 'Writter'"):
        writer_client.Writter  # type: ignore[attr-defined]  # noqa: B018  # that is the point


def test_the_package_of_the_logs_costs_no_http_client() -> None:
    script = "import sys, strandline.logs.sqlite; print({'httpx', 'asyncio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")


def test_a_blocking_writer_loads_neither_httpx_nor_anything_of_a_server() -> None:
    unwanted = {"fastapi", "starlette", "uvicorn", "sqlalchemy", "numpy", "pyarrow", "controller"}
    script = (
        f"import sys; from writer_client import Writer; print({unwanted} & set(sys.modules), 'httpx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("set() False", "")
