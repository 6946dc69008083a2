"""SQLite as a store: one file, one controller."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from controller.limits import BUSY_TIMEOUT_MS
from controller.storage.refusals import AlreadyServed, IsBackup

BACKUP: Final = int.from_bytes(b"back")  # the user_version of a file that `strandline backup` wrote


class SqliteLock:
    """Held while a controller serves an SQLite file. It is given back when the process ends, however that ends."""

    def __init__(self, path: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._file: int | None = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise AlreadyServed(path) from None

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


def make_private(path: str) -> None:
    """Makes an empty file that only its owner may read and write, unless there is one; SQLite makes a database of it.

    Whatever SQLite puts beside a database gets the same mode.
    """
    if not path.startswith("file:"):  # a name that SQLite reads in its own way
        with suppress(OSError):  # it is there, or SQLite says why it cannot be
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _prepare(connection: Any, _record: Any) -> None:  # whatever the driver has
    connection.isolation_level = None  # the driver would begin too late, and commit before DDL
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
