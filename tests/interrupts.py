"""Ctrl-C at a given moment of a call."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from itertools import count
from typing import Any


def interrupted(work: Callable[[], object], moment: int, *, within: str = "") -> bool:
    """Runs work, with Ctrl-C at one of the moments at which Python handles signals: when a function begins, or one that
    is written in C has returned. `within` counts only those in files with this in their path. Returns whether the work
    came so far."""
    moments = count()

    def watch(frame: Any, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event not in ("call", "c_return") or argument is sys.setprofile or within not in file:
            return
        if file.endswith("_weakrefset.py"):  # what is freed there raises into nothing
            return
        if next(moments) == moment:
            raise KeyboardInterrupt

    gc.disable()  # what a collection calls raises into nothing too
    sys.setprofile(watch)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
        gc.enable()
    return False
