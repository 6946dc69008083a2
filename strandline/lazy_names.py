"""The public names of a package, imported on their first use.

They are written once, in the stub beside the package (`__init__.pyi`), which editors and type checkers read as well:

    from writer_client.writer import Writer as Writer     a name, and the module that has it
    from reader_client import *                           all public names of another package

So an import stays small: a writer does not load what readers need, and a Spark worker that reads a log loads no HTTP
client. `dir`, completion and `help` see the names all the same.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from strandline.errors import ExtraMissing

# The extra that installs a package which a public name needs.
EXTRAS: Final = {
    "confluent_kafka": "kafka",
    "fastapi": "controller",
    "pyarrow": "sqlite",
    "pyspark": "spark",
    "sqlalchemy": "controller",
    "uvicorn": "controller",
}


def public_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__`."""
    homes: dict[str, str] = {}

    def find() -> dict[str, str]:
        if not homes:
            homes.update(_homes(package))
        return homes

    def get(name: str) -> object:
        if name == "__all__":
            return [each for each in sorted(find()) if not each.startswith("_")]
        home = None if name.startswith("__") and name != "__version__" else find().get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needing(name):
            value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *find()})

    return get, names


@contextmanager
def needing(name: str) -> Iterator[None]:
    """Raises ExtraMissing for what is imported within, on behalf of `name`, and is not installed."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name not in EXTRAS:
            raise
        raise ExtraMissing(wanted=name, package=missing.name, extra=EXTRAS[missing.name]) from missing


def _homes(package: str) -> dict[str, str]:
    """The module of each public name of a package, which need not be imported."""
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    stub = str(Path(spec.origin).with_name("__init__.pyi"))
    found: dict[str, str] = {}
    # The loader knows the file in an archive too, as Spark sends packages to its workers.
    for line in ast.parse(spec.loader.get_data(stub)).body:  # type: ignore[union-attr]  # the loaders of files have it
        if isinstance(line, ast.ImportFrom) and line.module is not None:
            for each in line.names:
                found |= _homes(line.module) if each.name == "*" else {each.name: line.module}
    return found
