"""Files of stores and of backups: why one cannot be used, and how a new one appears whole."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from controller.storage.diagnosis import Cause, diagnose
from controller.storage.refusals import InTheWay, LeftBehind, UnderWay, UnusableFile
from strandline.logs.durable import sync

_BESIDE: Final = ("-wal", "-journal")  # what SQLite applies to a database that it opens
_FILE: Final[Mapping[Cause, tuple[str, str]]] = {
    Cause.FULL: ("the disk is full", "make room, or name a file on another disk"),
    Cause.DISK: ("the disk refuses to write it", "check the disk's quota and the limit on the size of a file"),
    Cause.READ_ONLY: (
        "this user may not write it",
        "let this user write the file and its folder, or name another file",
    ),
    Cause.LOCKED: ("another process has locked it", "wait until that process is done, or end it"),
    Cause.DAMAGED: ("it is not an SQLite database, or it is damaged", "restore a backup, or name another file"),
    Cause.AWAY: ("it cannot be opened", "check that its folder exists, and that this user may use it"),
}


def unusable(path: str, error: BaseException) -> UnusableFile:
    """The refusal for a file that SQLite, or the system, does not open or write."""
    if Path(path).is_dir():
        return folder_in_the_way(path)
    origin = getattr(error, "orig", None) or error
    lines = (getattr(origin, "strerror", None) or str(origin)).strip().splitlines() or [type(origin).__name__]
    reason, advice = _FILE.get(diagnose(error).cause, ("it cannot be opened or written", "check the path"))
    return UnusableFile(path=path, reason=f"{reason} ({lines[0]})", advice=advice)


def folder_in_the_way(path: str) -> UnusableFile:
    return UnusableFile(path=path, reason="it is a folder", advice="name a file in it")


def check_nothing_left(file: Path) -> None:
    """Raises LeftBehind for a file that is to be made anew, if something of an earlier one stands beside it."""
    for each in _BESIDE:
        left = file.with_name(file.name + each)
        if left.exists() and left.stat().st_size:
            raise LeftBehind(path=str(file), left=str(left))


@contextmanager
def new_file(file: Path) -> Iterator[Path]:
    """A file under a temporary name. It is renamed when it is complete and synced. Only its owner may read it.

    A lock on it keeps other attempts for the same name out; the system releases it when this process dies.
    """
    if file.is_dir():
        raise folder_in_the_way(str(file))
    part = file.with_name(f"{file.name}.part")
    try:
        held = _held_part(file, part)
        try:
            check_nothing_left(file)
            for each in _BESIDE:
                part.with_name(part.name + each).unlink(missing_ok=True)  # of an attempt that was killed
            yield part
            sync(part)
            os.link(part, file)  # unlike a rename it does not replace a file that was created meanwhile
            part.unlink()
            sync(file.parent)
        except FileExistsError:
            raise InTheWay(what=str(file)) from None
        finally:
            part.unlink(missing_ok=True)
            os.close(held)
    except OSError as error:
        raise unusable(str(file), error) from error


def _held_part(file: Path, part: Path) -> int:
    """Makes an empty file, and takes its lock; returns what holds it. Raises UnderWay, or InTheWay if `file` exists."""
    while True:
        if file.exists():
            raise InTheWay(what=str(file))
        held = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if part.exists() and os.path.samestat(os.fstat(held), part.stat()):
                os.truncate(held, 0)  # what an attempt that was killed has left
                return held
        except BlockingIOError:
            os.close(held)
            raise UnderWay(path=str(file)) from None
        except BaseException:
            os.close(held)
            raise
        os.close(held)  # another attempt has just ended, and removed or renamed it
