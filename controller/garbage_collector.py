"""Python's collector of garbage, kept from looking at very many objects that are there to stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_under_way: Final[list[object]] = []


@contextmanager
def lasting_objects() -> Iterator[None]:
    """While very many objects are made that will stay, nothing is collected; after it no collection looks at them.

    A collection stops everything for as long as it looks at objects, a second for a few million. Objects go, as always,
    when nobody holds them any more. Of what went in circles by then nothing is ever collected.
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
