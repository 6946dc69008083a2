"""Disks of the tests: small ones that can be full or read-only, and users who may not write.

Who runs as root gets a file system of its own in memory. Others get a limit on the size of files, which is a disk that
refuses to write, and folders that they may not write.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

MEGABYTE = 1 << 20
AS_NOBODY_SPECIAL = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", "--inh-caps=-all")


def may_mount() -> bool:
    """Whether this process may make file systems."""
    return os.geteuid() == 0 and shutil.which("mount") is not None and _run("unshare", "--mount", "true")


def _run(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@dataclass
class Disk:
    """A folder that is a disk. Processes that use it are started with `preexec`."""

    folder: Path
    real: bool
    preexec: Callable[[], None] | None = field(default=None)

    def fill(self) -> None:
        """Leaves room for nothing."""
        if not self.real:
            self.preexec = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            return
        with open(self.folder / "filler", "ab", buffering=0) as filler:
            for size in (1 << 16, 1 << 10, 1):
                try:
                    while filler.write(b"x" * size):
                        pass
                except OSError as error:
                    assert error.errno == errno.ENOSPC

    def make_room(self) -> None:
        self.preexec = None
        (self.folder / "filler").unlink(missing_ok=True)

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Nobody writes there."""
        if self.real:
            subprocess.run(["mount", "-o", "remount,ro", str(self.folder)], check=True)
        else:
            self.folder.chmod(0o555)
        try:
            yield
        finally:
            if self.real:
                subprocess.run(["mount", "-o", "remount,rw", str(self.folder)], check=True)
            else:
                self.folder.chmod(0o755)


@contextmanager
def small_disk(folder: Path, size: int = MEGABYTE) -> Iterator[Disk]:
    """A disk of that size, mounted at a new folder."""
    folder.mkdir()
    if not may_mount():
        yield Disk(folder, real=False)
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "strandline-test", str(folder)], check=True)
    try:
        yield Disk(folder, real=True)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def without_privileges() -> Sequence[str]:
    """What a command begins with so that permissions count for it, also where root runs the tests."""
    return AS_NOBODY_SPECIAL if os.geteuid() == 0 else ()
