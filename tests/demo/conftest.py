"""Looking at processes from outside, through /proc."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.summary import skip


@pytest.fixture
def running_in() -> Callable[[Path], set[int]]:
    """Tells the processes whose folder for temporary files is this one or lies in it. Children inherit it."""
    if not Path("/proc/self/environ").exists():
        skip("processes are looked at through /proc, which is not here", "use a Linux machine")

    def running_in(folder: Path) -> set[int]:
        found = set()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environment = (process / "environ").read_bytes().split(b"\0")
                temporary = [Path(entry[7:].decode()) for entry in environment if entry.startswith(b"TMPDIR=")]
                # One that has ended, and that nobody has asked about, has no command.
                if any(each.is_relative_to(folder) for each in temporary) and (process / "cmdline").read_bytes():
                    found.add(int(process.name))
            except OSError:
                continue  # it has ended meanwhile
        return found

    return running_in
