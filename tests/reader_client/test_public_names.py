"""What `reader_client` offers: a name that comes or goes does so on purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import reader_client

ROOT = Path(__file__).resolve().parents[2]

NAMES = [
    "AsyncConnection",
    "AsyncEventReader",
    "AsyncGroupReader",
    "AsyncReaderGroup",
    "AsyncTimeWindows",
    "Coalescer",
    "Connection",
    "EventItem",
    "EventReader",
    "EventWindows",
    "Following",
    "FromHead",
    "FromPositions",
    "FromTime",
    "GroupBacklog",
    "GroupReader",
    "GroupWindow",
    "Idle",
    "IdleItem",
    "Join",
    "MarksAt",
    "MarksPage",
    "Patience",
    "PositionAt",
    "ReaderClosed",
    "ReaderGroup",
    "ReaderState",
    "Session",
    "Sliding",
    "StreamWindow",
    "TimeIndexPage",
    "TimeWindow",
    "TimeWindows",
    "Tumbling",
    "Watermark",
    "WatermarkItem",
    "WireMark",
    "map_async",
    "remaining_offsets",
]


def test_the_public_names_are_these() -> None:
    assert reader_client.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_of_them_is_there_under_its_own_name(name: str) -> None:
    assert getattr(reader_client, name).__name__ == name


def test_importing_every_public_name_loads_no_server_and_no_numpy() -> None:
    unwanted = {"fastapi", "starlette", "uvicorn", "sqlalchemy", "numpy", "pyarrow", "controller"}
    unwanted |= {"writer_client"}
    script = f"import sys; from reader_client import *; print({unwanted} & set(sys.modules), 'httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("set() False", "")


def test_importing_the_package_alone_loads_no_http_client() -> None:
    script = "import sys, reader_client; print({'httpx', 'asyncio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")
