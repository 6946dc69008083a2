"""`strandline serve` and the like in processes of their own, forked from one that has loaded all that they need.

Loading takes most of a controller's start, and tests start hundreds. `python -m tests.forks N` is what forks, and N is
its end of a socket: for each request, with what is to be run and what it is given to write to, it forks a process, and
answers with that one's number. It ends, and its processes with it, when nobody holds the socket's other end.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
LOADED = (
    "controller.cli.serve",
    "controller.dashboard.routes",
    "controller.server",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
)
PR_SET_PDEATHSIG = 1  # Linux: the signal that a process gets when its parent ends
REQUEST_BYTES = 200_000
STATUS_BYTES = 4
STDERR = 2
END_DEADLINE_S = 30


def load() -> None:
    """Loads everything that a controller does before it serves its first call, the dashboard's templates with it."""
    for name in LOADED:
        import_module(name)
    import_module("controller.dashboard.routes").templates()
    if threading.active_count() > 1:
        raise RuntimeError(f"a thread would be missing in what is forked: {threading.enumerate()}")


def end_with_parent() -> None:
    """From now on the system kills this process when the one that forked it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# -- in tests ------------------------------------------------------------------------------------------------------


class Fork:
    """A forked process, as far as `subprocess.Popen` goes; `stdin` and `stdout` are pipes."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        errors: int = STDERR,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Runs a module as `python -m` does, in this process's folder and environment, or the given ones. `errors` is
        a descriptor."""
        to_read, written = os.pipe()
        printed, to_print = os.pipe()
        self._status, to_status = os.pipe()
        request = json.dumps([module, *arguments, dict(environment or os.environ), str(folder or Path.cwd())]).encode()
        forker = _forker()
        socket.send_fds(forker, [request], [to_read, to_print, errors, to_status])
        for each in (to_read, to_print, to_status):
            os.close(each)
        self.stdin = open(written, "w")  # noqa: SIM115  # whoever asked for the process closes both, as with Popen
        self.stdout = open(printed)  # noqa: SIM115  # see above
        answer, (self._process,), _, _ = socket.recv_fds(forker, REQUEST_BYTES, 1)
        self.pid = int(answer)
        self.returncode: int | None = None

    def send_signal(self, which: signal.Signals) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._process, which)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self._has_ended()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and not select.select([self._status], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        ended = self.poll()
        assert ended is not None
        return ended

    def _has_ended(self) -> None:
        status = os.read(self._status, STATUS_BYTES)
        self.returncode = int.from_bytes(status, signed=True)
        os.close(self._status)
        os.close(self._process)


@cache
def _forker() -> socket.socket:
    """The socket to this process's forker, which is started for the first fork."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.forks", str(theirs.fileno())],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
        )  # fmt: skip
    atexit.register(process.wait, END_DEADLINE_S)
    atexit.register(ours.close)  # which comes first
    return ours


# -- in the forker -------------------------------------------------------------------------------------------------


def main(asking: socket.socket) -> None:
    """Forks for whoever asks, until nobody holds the other end."""
    import gc

    load()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal; what is forked gets it as well
    running: dict[int, tuple[int, int]] = {}  # by a handle on each process: its number, and where its end is told
    watched = select.poll()
    watched.register(asking, select.POLLIN)
    while True:
        for ready, _ in watched.poll():
            if ready in running:
                watched.unregister(ready)
                process, status = running.pop(ready)
                _, how = os.waitpid(process, 0)
                os.write(status, os.waitstatus_to_exitcode(how).to_bytes(STATUS_BYTES, signed=True))
                os.close(status)
                os.close(ready)
                continue
            request, given, _, _ = socket.recv_fds(asking, REQUEST_BYTES, 4)
            if not request:
                return
            *standard, status = given
            process = os.fork()
            if process == 0:
                for each in (asking.fileno(), status, *running, *(status for _, status in running.values())):
                    os.close(each)
                _become(request, standard)
            handle = os.pidfd_open(process)
            running[handle] = process, status
            watched.register(handle, select.POLLIN)
            socket.send_fds(asking, [b"%d" % process], [handle])
            for each in standard:
                os.close(each)


def _become(request: bytes, standard: Sequence[int]) -> NoReturn:
    """What a Python does that is started with `-m`."""
    import runpy

    end_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor, given in enumerate(standard):
        os.dup2(given, descriptor)
        os.close(given)
    module, *arguments, environment, folder = json.loads(request)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
