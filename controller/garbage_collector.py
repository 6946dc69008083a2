"""Keeps Python's garbage collector from scanning very many long-lived objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_under_way: Final[list[object]] = []


@contextmanager
def lasting_objects() -> Iterator[None]:
    """Disables collection while very many long-lived objects are made. Then they are of the oldest generation at once,
    which is rarely scanned.

    A collection stops everything while it scans objects, a second for a few million.
    """
    mine = object()
    _under_way.append(mine)
    gc.disable()
    try:
        yield
    finally:
        _under_way.remove(mine)
        gc.freeze()
        gc.unfreeze()  # into the oldest generation: what stays frozen is never freed if it is in a cycle
        if not _under_way:
            gc.enable()
