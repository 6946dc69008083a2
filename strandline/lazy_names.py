"""Imports public names of a package on their first use.

A Spark worker that reads a log imports `logs`, and with it the package around it. It should not also load
an HTTP client that it never uses.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def names_from(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A package's `__getattr__`: `homes` has the module of each public name."""

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
