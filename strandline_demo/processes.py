"""Starts the processes of the demo, receives their messages, and leaves none behind.

A process sends a message as a line of JSON on its standard output (`send`); its standard error goes to a file. Its
standard input is a pipe that stays empty and ends when the demo ends, even by a kill. Then `main`, which runs in the
process, ends the process.
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
LAST_LINES: Final = 80  # the error of a query comes before its plan
LINE_CHARACTERS: Final = 300


class Processes:
    """The processes of a run, which work in `folder`. Leaving the `with` block ends them and all that they started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Its put may be called in signal handlers.
        self._messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str, module: str, *arguments: str) -> None:
        """Runs `python -m module arguments`, without the settings that the user has for Strandline."""
        command = [sys.executable, "-P", "-m", __name__, module, *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STRANDLINE_")}
        environment["TMPDIR"] = str(self._folder)  # what a process that is killed leaves there goes with the folder
        with (self._folder / f"{name}.log").open("ab") as log:
            # It leads its own session, so that a Ctrl-C in the terminal does not reach it.
            process = self._running[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self._folder,
                env=environment, start_new_session=True,
            )  # fmt: skip
        threading.Thread(target=self._listen, args=(name, process), daemon=True).start()

    def receive(self, timeout_s: float) -> dict[str, Any] | None:
        """The next message, with the name of its process as `part`; None if none came in time.

        Raises KeyboardInterrupt after a signal, and Failure if a process failed or the controller ended.
        """
        try:
            message = self._messages.get(timeout=timeout_s)
        except queue.Empty:
            return None
        name = message["part"]
        if message["kind"] == "signal":
            raise KeyboardInterrupt
        if message["kind"] == "ended" and (message["status"] or name == "controller"):
            raise self.failure(name, f"ended with status {message['status']}")
        if message["kind"] == "ended" and not _session(self._running[name]):
            del self._running[name]  # another process may get its id from now on
        return message

    def failure(self, name: str, what: str) -> Failure:
        """The error for a process that failed, with the end of its output."""
        lines = (self._folder / f"{name}.log").read_text(errors="replace").strip().splitlines()[-LAST_LINES:]
        words = "\n".join([line[:LINE_CHARACTERS] for line in lines])
        return Failure(f"the part {name!r} of the demo {what}; its last lines:\n{words or 'nothing'}")

    def __enter__(self) -> Self:
        """From here on Ctrl-C and other signals to end become messages, and have no other effect."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: self._messages.put({"part": "", "kind": "signal"}))
        return self

    def __exit__(self, *_: object) -> None:
        """Kills every process, and returns when none is left. None of them has data to save."""
        until = time.monotonic() + END_S
        for process in self._running.values():
            while (left := _session(process)) and time.monotonic() < until:
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.02)

    def _listen(self, name: str, process: subprocess.Popen[str]) -> None:
        """Queues the lines of a process until it ends. A line that is no message gets the kind `line`."""
        for line in process.stdout or ():
            message = json.loads(line) if line.startswith("{") else {"kind": "line", "text": line.strip()}
            self._messages.put(message | {"part": name})
        self._messages.put({"part": name, "kind": "ended", "status": process.wait()})


def _session(leader: subprocess.Popen[str]) -> list[int]:
    """The processes of a session that have not ended; without /proc, the group of its leader."""
    if leader.poll() is None and not Path("/proc").is_dir():
        return [-leader.pid]
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process ended meanwhile
            state, _, _, session, *_ = stat.read_text().rpartition(")")[2].split()
            if int(session) == leader.pid and state not in "ZX":
                found.append(int(stat.parent.name))
    return found


def send(kind: str, **fields: object) -> None:
    """In a process: sends a message to the process that started it."""
    sys.stdout.write(json.dumps({"kind": kind, **fields}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """In a process: runs a module, as `python -m` does, and ends with the process that started it."""
    _, module, *arguments = sys.argv
    parent = os.dup(0)  # a descriptor that no child inherits
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def end_with_parent() -> None:
        os.read(parent, 1)  # returns when the parent ends: it writes nothing
        os.killpg(0, signal.SIGKILL)  # the whole group, which this process leads

    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
