"""What importing a package of the clients loads, and what it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

import writer_client
from tests.served import ROOT

SERVER = {"fastapi", "starlette", "uvicorn", "sqlalchemy", "numpy", "pyarrow", "controller", "httpx"}


@pytest.mark.parametrize(
    ("imports", "unwanted"),
    [
        ("import strandline.logs.sqlite", {"httpx", "asyncio"}),
        ("from writer_client import Writer", SERVER),  # a blocking writer
        ("from reader_client import *", SERVER | {"writer_client"}),
        ("import reader_client", {"httpx"}),
    ],
)
def test_an_import_loads_nothing_that_it_does_not_need(imports: str, unwanted: set[str]) -> None:
    script = f"import sys; {imports}; print({unwanted} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'writer_client' has no attribute 'Writter'"):
        writer_client.Writter  # type: ignore[attr-defined]  # noqa: B018  # that is the point
