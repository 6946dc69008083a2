"""Runs a module as `python -m` does, on a leash: when the process that started it is gone, it ends.

The leash is the standard input, a pipe that nobody writes to. It ends when the other side dies, however it dies.
This file is run by its path, and imports nothing of the project, so that a process on it starts quickly.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time
from typing import Final

GRACE_S: Final = 5.0


def main() -> None:
    """Usage: leash.py MODULE ARGUMENT …"""
    _, module, *arguments = sys.argv
    leash = os.dup(0)  # under a number that no process started from here gets
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_hold, args=(leash,), name="leash", daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _hold(leash: int) -> None:
    """Waits for the end of the leash; then asks politely, and after a while does not ask."""
    while os.read(leash, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os.killpg(0, signal.SIGKILL)  # with all that this process started: it leads its own group


if __name__ == "__main__":
    main()
