"""Keeps Python's garbage collector from scanning very many long-lived objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_under_way: Final[list[object]] = []


@contextmanager
def lasting_objects() -> Iterator[None]:
    """Disables collection while very many long-lived objects are made, and exempts them from later collections.

    A collection stops everything while it scans objects, a second for a few million. Objects are still freed when their
    last reference goes. Cycles that exist at the end are never collected.
    """
    mine = object()
    _under_way.append(mine)
    gc.disable()
    try:
        yield
    finally:
        _under_way.remove(mine)
        gc.freeze()
        if not _under_way:
            gc.enable()
