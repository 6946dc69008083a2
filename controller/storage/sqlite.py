"""SQLite as a store: one file, one controller."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from controller.limits import BUSY_TIMEOUT_MS
from controller.storage.diagnosis import Cause, StoreMoved, diagnose
from controller.storage.refusals import AlreadyServed, IsBackup, UnusableFile

# A text as it is stored, also where it is damaged and no UTF-8 any more: its checksum tells so and names the row, while
# the driver would fail and not say where.
LENIENT_TEXT: Final = partial(str, encoding="utf-8", errors="surrogateescape")
BACKUP: Final = int.from_bytes(b"back")  # the user_version of a file that `strandline backup` wrote


class SqliteLock:
    """Held while a controller serves an SQLite file. It is given back when the process ends, however that ends."""

    def __init__(self, path: str) -> None:
        """Makes the folder of a new store. Raises UnusableFile, and AlreadyServed where another one has the lock."""
        if Path(path).is_dir():
            raise _folder(path)
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._file: int | None = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unusable(path, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise AlreadyServed(path) from None
        except OSError as error:  # a file system without locks
            self.release()
            raise unusable(path, error) from error

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def sqlite_engine(url: URL, *, writing_at_once: bool = False) -> Engine:
    """An engine for SQLite: write-ahead log, full sync, transactions that begin where we say so.

    `writing_at_once` is for who writes beside a controller: a transaction waits for its turn before it reads.
    """
    engine = create_engine(url, poolclass=NullPool, connect_args={"check_same_thread": False})
    event.listen(engine, "do_connect", lambda *_: make_private(str(url.database)))
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin_writing if writing_at_once else _begin)
    return engine


def inspecting_engine(path: str) -> Engine:
    """An engine for an SQLite file that is there, to be looked at and not to be changed; a controller may serve it."""
    wal = Path(f"{path}-wal")
    # What a crash left in the write-ahead log stays there: whoever may write would move it into the file at the end.
    # Whoever may not would leave an empty log behind.
    mode = "ro" if wal.exists() and wal.stat().st_size else "rw"

    def connect() -> sqlite3.Connection:
        uri = f"file:{quote(os.path.abspath(path))}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000)
        connection.text_factory = LENIENT_TEXT
        connection.execute("PRAGMA query_only = ON").close()
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    event.listen(engine, "begin", _begin)
    return engine


def make_private(path: str) -> None:
    """Makes an empty file that only its owner may read and write, unless there is one; SQLite makes a database of it.

    Whatever SQLite puts beside a database gets the same mode.
    """
    if not path.startswith("file:"):  # a name that SQLite reads in its own way
        with suppress(OSError):  # it is there, or SQLite says why it cannot be
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _prepare(connection: Any, _record: Any) -> None:  # whatever the driver has
    connection.isolation_level = None  # the driver would begin too late, and commit before DDL
    connection.text_factory = LENIENT_TEXT
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    driver: Any = connection.connection.driver_connection
    try:
        driver.execute("BEGIN")  # by SQLAlchemy's own way it costs as much as the rows of a commit
    except sqlite3.Error:
        connection.exec_driver_sql("BEGIN")  # this way it tells in SQLAlchemy's words what is wrong


def _begin_writing(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def check_no_backup(connection: Connection, path: str) -> None:
    """Raises IsBackup for a backup: served as it stands, it would give out epochs once more."""
    if connection.exec_driver_sql("PRAGMA user_version").scalar_one() == BACKUP:
        raise IsBackup(path)


class ServedFiles:
    """The files that a controller has open: the store's own and its write-ahead log.

    SQLite goes on writing to a file that has no name any more, and says nothing. The files are compared by inode, which
    nobody else can have while they are open.
    """

    def __init__(self, path: str) -> None:
        """To be made while SQLite has them open, after its first transaction."""
        absolute = os.path.abspath(path)
        self._paths = (absolute, f"{absolute}-wal")
        self._inodes = self._look()

    def check(self) -> None:
        """Raises StoreMoved unless both are where they were."""
        if self._look() != self._inodes:
            raise StoreMoved(self._paths[0])

    def _look(self) -> list[tuple[int, int] | None]:
        return [_inode(path) for path in self._paths]


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_FILE: Final[Mapping[Cause, tuple[str, str]]] = {
    Cause.FULL: ("the disk is full", "make room, or name a file on another disk"),
    Cause.DISK: ("the disk refuses to write it", "look at the disk's quota and at the limit on the size of a file"),
    Cause.READ_ONLY: ("this user may not write it", "give them the file and its folder, or name another file"),
    Cause.LOCKED: ("another process has locked it", "wait until that one is done, or end it"),
    Cause.DAMAGED: ("it is no SQLite database, or a damaged one", "restore a backup, or name another file"),
    Cause.AWAY: ("it cannot be opened", "check that its folder is there, and that this user may use it"),
}


def unusable(path: str, error: BaseException) -> UnusableFile:
    """What to say of a file that SQLite, or the system, does not open or write."""
    if Path(path).is_dir():
        return _folder(path)
    origin = getattr(error, "orig", None) or error
    said = (getattr(origin, "strerror", None) or str(origin)).strip().splitlines() or [type(origin).__name__]
    reason, advice = _FILE.get(diagnose(error).cause, ("it cannot be opened or written", "check the path"))
    return UnusableFile(path, f"{reason} ({said[0]})", advice)


def _folder(path: str) -> UnusableFile:
    return UnusableFile(path, "it is a folder", "name a file in it")
