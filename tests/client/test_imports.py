"""What importing a package of the clients loads, and what it does not."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import strandline
import writer_client
from strandline.errors import StrandlineError
from tests.served import ROOT
from tools.reference.problems import ERROR_MODULES

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


def test_every_error_but_sparks_can_be_imported_from_strandline() -> None:
    modules = map(importlib.import_module, sorted(set(ERROR_MODULES) - {"spark_integration.errors"}))
    kinds = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    errors = {kind for kind in kinds if issubclass(kind, StrandlineError)}
    assert len(errors) > 80
    assert {kind for kind in errors if getattr(strandline, kind.__name__) is not kind} == set()


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'writer_client' has no attribute 'Writter'"):
        writer_client.Writter  # type: ignore[attr-defined]  # noqa: B018  # that is the point
