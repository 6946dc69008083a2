"""Forks controllers: `python -m tests.chaos.launcher`.

It loads all modules of the controller once. For each line on its standard input, a JSON object with `arguments` of the
command line and a file `log`, it forks a process that runs `strandline`, and answers with the process's id. Loading
takes most of a controller's start; without that a kill costs a fifth. It ends, and its processes with it, when its
input ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from controller.cli import main as strandline
from tests.forks import end_with_parent, load


def main() -> None:
    load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    for line in sys.stdin:
        asked = json.loads(line)
        process = os.fork()
        if process == 0:
            serve(asked["arguments"], asked["log"])
        sys.stdout.write(f"{process}\n")
        sys.stdout.flush()


def serve(arguments: Sequence[str], log: str) -> NoReturn:
    """The forked process: `strandline`."""
    status = 1
    try:
        end_with_parent()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the harness's terminal; who stops a controller sends SIGTERM
        nothing, file = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for descriptor, target in ((nothing, 0), (file, 1), (file, 2)):
            os.dup2(descriptor, target)
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
