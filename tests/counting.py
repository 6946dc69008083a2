"""What something costs, in calls: that is the same on every machine, whatever else it does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def counted(function: Callable[[], object]) -> int:
    """How many calls it makes in this thread, of Python's functions and of C's."""
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls
