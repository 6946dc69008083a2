"""Checks that SQLite's write-ahead file beside a log's file belongs to the same log.

SQLite replays a write-ahead file into any database file with the matching name. If a log is removed while a reader has
it open, its write-ahead file stays, and would bring old events back into a new log of the same name. So a new log is
made only after all leftovers are removed. And a log has an identity, which every commit writes again: a write-ahead
file with another identity belongs to another log.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from strandline.logs.errors import NotALog

IDENTITY_DEFINITION: Final = "CREATE TABLE log (identity TEXT NOT NULL, commits INTEGER NOT NULL) STRICT"
FIRST_COMMIT: Final = 1 << 52  # so large that a row never changes its length
CHECKS: Final = 3  # checks before a write-ahead file counts as another log's: a checkpoint may run during one
_IDENTITY: Final = "SELECT identity FROM log"


def give_identity(connection: sqlite3.Connection) -> None:
    """Gives a new log an identity."""
    connection.execute(IDENTITY_DEFINITION)
    connection.execute("INSERT INTO log VALUES (?, ?)", (uuid.uuid4().hex, FIRST_COMMIT))


def repeat_identity(connection: sqlite3.Connection) -> None:
    """Writes the identity into the write-ahead file, as a part of the transaction."""
    connection.execute("UPDATE log SET commits = commits + 1")


def check_identity(path: Path) -> None:
    """Raises NotALog if the write-ahead file beside a log is another log's. Call it before the log is opened."""
    beside = _beside(path)[0]
    for _ in range(CHECKS):
        with contextlib.suppress(OSError, sqlite3.Error):
            if not beside.exists() or not beside.stat().st_size:
                return
            own, shown = _read(path, "immutable=1"), _read(path, "mode=ro")
            if own == shown:
                return
            continue
        return  # the file cannot be read; opening it raises the error
    reason = f"the write-ahead file beside it, {beside.name}, is of another log: remove that file"
    raise NotALog(path=str(path), reason=reason)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Locks a folder: within the block no other process makes a log there, or removes leftovers."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def remove_leftovers(path: Path) -> None:
    """Removes SQLite's files beside a log that does not exist any more. Call it only within `alone_in` its folder."""
    if not path.exists():
        for each in _beside(path):
            each.unlink(missing_ok=True)


def _beside(path: Path) -> tuple[Path, Path]:
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def _read(path: Path, option: str) -> str:
    """The identity in the file, with its write-ahead file or (`immutable`) without."""
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{option}", uri=True)) as connection:
        return str(connection.execute(_IDENTITY).fetchone()[0])
