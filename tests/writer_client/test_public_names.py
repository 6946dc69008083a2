"""What `writer_client` offers: a name that comes or goes does so on purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import writer_client
import writer_client.errors

ROOT = Path(__file__).resolve().parents[2]

NAMES = [
    "AsyncConnection",
    "AsyncWriter",
    "AutomaticTime",
    "Background",
    "BackgroundWriter",
    "CommittedWithoutNote",
    "Connection",
    "Event",
    "EventsLate",
    "Log",
    "ManualNote",
    "NeverNoted",
    "NewerBelow",
    "NoLog",
    "NotDrained",
    "NoteAnswer",
    "NoteLate",
    "NoteRefused",
    "NotesMoving",
    "NotesStuck",
    "Patience",
    "Registered",
    "RegisteredLate",
    "Status",
    "TransactionUnderWay",
    "Writer",
    "WriterClosed",
]


def test_the_public_names_are_these() -> None:
    assert writer_client.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_of_them_is_there_under_its_own_name(name: str) -> None:
    assert getattr(writer_client, name).__name__ == name


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
