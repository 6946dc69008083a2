"""Forks controllers: `python -m tests.chaos.launcher`.

It loads all modules of the controller once. For each line on its standard input, a JSON object with `arguments` of the
command line, a file `log`, and maybe a planted bug or a file with a clock, it forks a process that runs `strandline`,
and answers with the process's id. Loading takes most of a controller's start; without that a kill costs a fifth.
It ends, and its processes with it, when its input ends.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from controller.app import SystemClock
from controller.cli import main as strandline
from tests.chaos.clocks import BYTES
from tests.forks import end_with_parent, load


def main() -> None:
    load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    for line in sys.stdin:
        asked = json.loads(line)
        process = os.fork()
        if process == 0:
            serve(asked["arguments"], asked["log"], asked.get("mutant"), asked.get("clock"))
        sys.stdout.write(f"{process}\n")
        sys.stdout.flush()


def follow(file: Path) -> None:
    """Makes the wall clock of this process that of a `SetClock`."""
    with file.open("rb") as opened:
        ahead = mmap.mmap(opened.fileno(), BYTES, access=mmap.ACCESS_READ)
    wall = SystemClock.wall

    def set_wall(self: SystemClock) -> int:
        return wall(self) + int.from_bytes(ahead[:BYTES], "little", signed=True)

    SystemClock.wall = set_wall  # type: ignore[method-assign]  # the seam at which a host's clock comes in


def serve(arguments: Sequence[str], log: str, mutant: str | None, clock: str | None) -> NoReturn:
    """The forked process: `strandline`, with a planted bug if one is named, on a host whose clock is set by a file."""
    status = 1
    try:
        end_with_parent()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the harness's terminal; who stops a controller sends SIGTERM
        nothing, file = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for descriptor, target in ((nothing, 0), (file, 1), (file, 2)):
            os.dup2(descriptor, target)
        if clock is not None:
            follow(Path(clock))
        if mutant is not None:
            from tests.chaos.joint_mutants import JOINT_MUTANTS
            from tests.chaos.mutants import MUTANTS

            {**MUTANTS, **JOINT_MUTANTS}[mutant].plant()
        status = strandline(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
