"""The demo as a process, and looking at processes from outside, through /proc."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.demo.running import Start
from tests.summary import skip


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the demo as a process that leads its own group, with its scratch folders under the test's."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}  # it sets its own
    with ExitStack() as started:

        def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-m", "controller", "demo", *arguments], cwd=tmp_path,
                env=environment | {"TMPDIR": str(tmp_path)} | variables,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )  # fmt: skip
            started.enter_context(process)
            started.callback(process.kill)
            return process

        yield start


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
