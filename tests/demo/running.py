"""The demo as a process, by its output."""

import subprocess
from collections.abc import Callable
from typing import TypeAlias

Start: TypeAlias = Callable[..., subprocess.Popen[str]]


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Reads lines up to the one that has these words; returns all of them."""
    output = ""
    for line in process.stdout or ():
        output += line
        if words in line:
            return output
    raise AssertionError(f"it ended without {words!r}:\n{output}")
