"""The names that packages export: what of theirs is public, and which extra installs what a name needs."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
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


def export(package: dict[str, Any], *more: str) -> None:
    """Sets a package's `__all__`: the names that it has imported, without modules, and `more`. Type checkers and
    editors go by `import X as X` instead."""
    others = {"TYPE_CHECKING"} | {name for name, value in package.items() if isinstance(value, ModuleType)}
    package["__all__"] = sorted(name for name in {*package, *more} - others if not name.startswith("_"))


def load(module: str, name: str) -> Any:
    """Imports a name from its module. Raises ExtraMissing if that needs an extra which is not installed."""
    with needing(name):
        return getattr(importlib.import_module(module), name)


@contextmanager
def needing(name: str) -> Iterator[None]:
    """Raises ExtraMissing for what is imported within, on behalf of `name`, and is not installed."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name not in EXTRAS:
            raise
        raise ExtraMissing(wanted=name, package=missing.name, extra=EXTRAS[missing.name]) from missing
