"""Starts the processes of the demo, hears what they say, and leaves none behind.

A process says something by a line of JSON on its standard output, see `tell`; its standard error goes to a file. Its
standard input is a pipe to which nobody writes, and which ends when the demo dies, however it dies: then `main`, which
runs in the process, ends it.
"""

import json
import os
import queue
import runpy
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from controller.terminal import Failure

END_S: Final = 30.0
LAST_WORDS_CHARACTERS: Final = 2_000


class Processes:
    """All processes of a run, which work in `folder`. Leaving the `with` block ends them, and what they started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._heard: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()  # its put may be called in signal handlers
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str, module: str, *arguments: str) -> None:
        """Runs `python -m module arguments`, without the settings that the user has for Strandline."""
        command = [sys.executable, "-P", "-m", __name__, module, *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STRANDLINE_")}
        with (self._folder / f"{name}.log").open("ab") as log:
            # It leads its own session, so that a Ctrl-C in the terminal does not reach it.
            process = self._running[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self._folder,
                env=environment, start_new_session=True,
            )  # fmt: skip
        threading.Thread(target=self._listen, args=(name, process), daemon=True).start()

    def hear(self, timeout_s: float) -> dict[str, Any] | None:
        """What was said next, with the name of who said it as `part`; None where nothing was said in time.

        Raises KeyboardInterrupt after a signal, and Failure where a process failed, or the controller ended.
        """
        try:
            message = self._heard.get(timeout=timeout_s)
        except queue.Empty:
            return None
        name = message["part"]
        if message["kind"] == "signal":
            raise KeyboardInterrupt
        if message["kind"] == "ended" and (message["status"] or name == "controller"):
            raise self.failure(name, f"ended with status {message['status']}")
        if message["kind"] == "ended" and not _session(self._running[name]):
            del self._running[name]  # its number may be another's from now on
        return message

    def failure(self, name: str, what: str) -> Failure:
        """That a process did something wrong, with the end of what it printed."""
        words = (self._folder / f"{name}.log").read_text(errors="replace").strip()[-LAST_WORDS_CHARACTERS:]
        return Failure(f"the part {name!r} of the demo {what}; it said last:\n{words or 'nothing'}")

    def __enter__(self) -> Self:
        """From here on Ctrl-C and its like are heard, and do nothing else."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: self._heard.put({"part": "", "kind": "signal"}))
        return self

    def __exit__(self, *_: object) -> None:
        """Ends every process, and returns when none is left. None of them has anything to lose."""
        until = time.monotonic() + END_S
        for process in self._running.values():
            while (left := _session(process)) and time.monotonic() < until:
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.02)

    def _listen(self, name: str, process: subprocess.Popen[str]) -> None:
        """Passes on a process's lines to the end. What is no message is one of the kind `line`."""
        for line in process.stdout or ():
            message = json.loads(line) if line.startswith("{") else {"kind": "line", "text": line.strip()}
            self._heard.put(message | {"part": name})
        self._heard.put({"part": name, "kind": "ended", "status": process.wait()})


def _session(leader: subprocess.Popen[str]) -> list[int]:
    """The processes of a session that have not ended; where there is no /proc, the group of its leader."""
    if leader.poll() is None and not Path("/proc").is_dir():
        return [-leader.pid]
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            state, _, _, session, *_ = stat.read_text().rpartition(")")[2].split()
            if int(session) == leader.pid and state not in "ZX":
                found.append(int(stat.parent.name))
    return found


def tell(kind: str, **fields: object) -> None:
    """In a process: says something to the one that started it."""
    sys.stdout.write(json.dumps({"kind": kind, **fields}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """In a process: runs a module, as `python -m` does, for as long as the process that started it is there."""
    _, module, *arguments = sys.argv
    parent = os.dup(0)  # under a number that no process started from here gets
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def end_with_parent() -> None:
        os.read(parent, 1)  # it writes nothing
        os.killpg(0, signal.SIGKILL)  # with all that this process started: it leads its own group

    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
