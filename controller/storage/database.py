"""The connections to a store: one that writes and one that reads, each used by one thread at a time."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from controller.limits import BUSY_TIMEOUT_MS
from controller.storage import upgrade
from controller.storage.upgrade import StoreRefused


class AlreadyServed(StoreRefused):
    """Another controller has this SQLite file; only one may."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"another controller is serving {self.path}: stop it first, or take another --database"


class BadDatabaseUrl(StoreRefused):
    """A database was named that is not supported."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url

    def __str__(self) -> str:
        return f"{self.url!r} is not a database that is supported: sqlite:///path/to/file.db, or a path"


def parse_url(url: str) -> URL:
    """A database URL, or the path of an SQLite file; raises BadDatabaseUrl."""
    try:
        parsed = make_url(url if "://" in url else f"sqlite:///{url}")
    except ArgumentError:
        raise BadDatabaseUrl(url) from None
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        raise BadDatabaseUrl(url)
    return parsed


@dataclass(slots=True)
class Database:
    """An open store. `writer` is for the one flusher, `reader` for everything that only looks."""

    engine: Engine
    writer: Connection
    reader: Connection
    lock: SqliteLock

    def close(self) -> None:
        self.writer.close()
        self.reader.close()
        self.engine.dispose()
        self.lock.release()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SqliteLock:
    """Held while a controller serves an SQLite file. It is given back when the process ends, however that ends."""

    def __init__(self, path: str) -> None:
        self.path = path
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


def open_database(url: str) -> Database:
    """Opens a store to serve it, and makes its schema where it is empty.

    Raises BadDatabaseUrl, AlreadyServed, WrongSchema for a store of another version, and SQLAlchemy's errors where
    the file cannot be opened.
    """
    parsed = parse_url(url)
    path = str(parsed.database)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    lock = SqliteLock(path)
    try:
        engine = connectable(parsed)
        with engine.begin() as connection:
            if upgrade.is_empty(connection):
                upgrade.upgrade(connection)
            upgrade.check(connection)
        return Database(engine, engine.connect(), engine.connect(), lock)
    except BaseException:
        lock.release()
        raise


def check_store(url: str) -> None:
    """Raises, as `open_database` would, what is wrong with a store, so that it can be told before serving begins."""
    open_database(url).close()


def migrate(url: str) -> tuple[str | None, str]:
    """Brings a store to this version's schema; returns its revision before and after."""
    parsed = parse_url(url)
    lock = SqliteLock(str(parsed.database))
    try:
        engine = connectable(parsed)
        with engine.begin() as connection:
            before = upgrade.revision(connection)
            upgrade.upgrade(connection)
        engine.dispose()
        return before, upgrade.newest_revision()
    finally:
        lock.release()


def connectable(url: URL) -> Engine:
    """An engine for SQLite: write-ahead log, full sync, transactions that begin where we say so."""
    engine = create_engine(url, poolclass=NullPool, connect_args={"check_same_thread": False})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


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
    connection.exec_driver_sql("BEGIN")
