"""Looking at processes from outside, through /proc."""

import os
import select
from pathlib import Path

import pytest

from tests.summary import skip

PROC = Path("/proc")
PATIENCE_MS = 60_000


class Watch:
    """What runs on this machine. Processes are told by their environment, which children inherit."""

    def belonging_to(self, folder: Path) -> dict[int, str]:
        """The processes that run with a folder for temporary files, and their commands."""
        setting = f"TMPDIR={folder}\0".encode()
        found = {}
        for entry in PROC.iterdir():
            try:
                if entry.name.isdecimal() and setting in (entry / "environ").read_bytes() + b"\0":
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if command:  # one that has ended, and that nobody has asked about, has none
                        found[int(entry.name)] = command
            except OSError:
                continue  # it has ended meanwhile
        return found

    def await_end(self, pid: int) -> None:
        """Waits until a process that is not ours has ended."""
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            assert poll.poll(PATIENCE_MS), f"process {pid} goes on"
        finally:
            os.close(handle)


@pytest.fixture
def watch() -> Watch:
    if not (PROC / "self" / "environ").exists():
        skip("processes are looked at through /proc, which is not here", "use a Linux machine")
    return Watch()
