"""SQLite as a store: one file, one controller."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Select,
    String,
    Table,
    bindparam,
    cast,
    create_engine,
    event,
    func,
    null,
    select,
)
from sqlalchemy.dialects.sqlite import Insert, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from controller.storage import upgrade
from controller.storage.diagnosis import Cause, Diagnosis, StoreMoved, diagnose
from controller.storage.files import check_nothing_left, folder_in_the_way, new_file, unusable
from controller.storage.refusals import (
    AlreadyServed,
    IsBackup,
    NoBackup,
    StoreAway,
    StoreRefused,
    UnusableFile,
    shown,
)
from controller.storage.rows import AnyRow, Columns, Query
from controller.storage.session import Engines, Sessions

BUSY_TIMEOUT_MS: Final = 5_000  # SQLite: how long a statement waits for the file
FAULTS_SHOWN: Final = 100  # of those that SQLite finds in its file

# Decodes a text even if it is not valid UTF-8: decoding the row then finds that and names the row, while the driver
# would fail without saying where.
LENIENT_TEXT: Final = partial(str, encoding="utf-8", errors="surrogateescape")
_SYNCS: Final = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)
_WRITE_CAUSES: Final = (Cause.FULL, Cause.DISK, Cause.READ_ONLY)
BACKUP: Final = int.from_bytes(b"back")  # the user_version of a file that `strandline backup` wrote

_DIAGNOSES: Final[Mapping[int, Diagnosis]] = {
    sqlite3.SQLITE_FULL: Diagnosis(Cause.FULL, "the disk is full: the store's file cannot grow"),
    sqlite3.SQLITE_IOERR: Diagnosis(Cause.DISK, "the disk failed to read or write the store's file"),
    sqlite3.SQLITE_READONLY: Diagnosis(Cause.READ_ONLY, "the store's file is not writable"),
    sqlite3.SQLITE_PERM: Diagnosis(Cause.READ_ONLY, "the store's file is not writable"),
    sqlite3.SQLITE_BUSY: Diagnosis(Cause.LOCKED, "another process has locked the store's file"),
    sqlite3.SQLITE_LOCKED: Diagnosis(Cause.LOCKED, "another process has locked the store's file"),
    sqlite3.SQLITE_CANTOPEN: Diagnosis(Cause.AWAY, "the store's file cannot be opened"),
    sqlite3.SQLITE_CORRUPT: Diagnosis(Cause.DAMAGED, "the store's file is damaged: restore a backup"),
    sqlite3.SQLITE_NOTADB: Diagnosis(Cause.DAMAGED, "the store's file is not an SQLite database"),
}
_WRITES: Final = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE)
_CANNOT_WRITE: Final = Diagnosis(
    Cause.DISK, "the disk refuses to write the store's file: check its quota, and the limit on the size of a file"
)


class SqliteLock:
    """The lock of the controller that serves an SQLite file. The system releases it when the process ends or dies."""

    def __init__(self, path: str) -> None:
        """Takes the lock. Raises UnusableFile, also where there is no folder, and AlreadyServed if it is taken."""
        if Path(path).is_dir():
            raise folder_in_the_way(path)
        folder = Path(path).parent
        if not folder.is_dir():
            raise UnusableFile(
                path=path, reason=f"there is no folder {str(folder)!r}", advice="make it first, or name another file"
            )
        try:
            self._file: int | None = os.open(lock_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unusable(path, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise AlreadyServed(store=path) from None
        except OSError as error:  # a file system without locks
            self.release()
            raise unusable(path, error) from error

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def sqlite_engine(url: URL, *, writing_at_once: bool = False) -> Engine:
    """An engine for SQLite: write-ahead log, full sync, explicit transactions.

    `writing_at_once` is for commands that write while a controller serves: a transaction takes the write lock before
    it reads.
    """
    engine = create_engine(url, poolclass=NullPool, connect_args={"check_same_thread": False})
    event.listen(engine, "do_connect", lambda *_: make_private(str(url.database)))
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin_writing if writing_at_once else _begin)
    return engine


def lock_path(path: str) -> str:
    return f"{path}.lock"


def inspecting_engine(path: str) -> Engine:
    """A read-only engine for an existing SQLite file, which a controller may be serving."""
    wal = Path(f"{path}-wal")
    # Mode "ro" keeps what a crash left in the write-ahead log: a connection in mode "rw" would move it into the file
    # when it closes. Without such a log, mode "ro" would leave an empty one behind.
    mode = "ro" if wal.exists() and wal.stat().st_size else "rw"

    def connect() -> sqlite3.Connection:
        connection = _open(path, mode)
        connection.text_factory = LENIENT_TEXT
        connection.execute("PRAGMA query_only = ON").close()
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    event.listen(engine, "begin", _begin)
    return engine


def make_private(path: str) -> None:
    """Makes an empty file that only its owner may read and write, if there is none; SQLite makes a database of it.

    SQLite gives the same mode to the files that it puts beside a database.
    """
    if not path.startswith("file:"):  # a URI, which only SQLite interprets
        with suppress(OSError):  # the file exists, or SQLite reports why it cannot be made
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _prepare(connection: Any, _record: Any) -> None:  # the driver's connection
    connection.isolation_level = None  # else the driver begins too late, and commits before DDL
    connection.text_factory = LENIENT_TEXT
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _begin_writing(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def check_no_backup(connection: Connection, path: str) -> None:
    """Raises IsBackup for a backup: if it were served without a restore, it would give out epochs twice."""
    if connection.exec_driver_sql("PRAGMA user_version").scalar_one() == BACKUP:
        raise IsBackup(path=path)


class ServedFiles:
    """The files that a controller has open: the store, its write-ahead log, and the lock that keeps others out.

    SQLite goes on writing to a removed file without an error, and a removed lock keeps nobody out. So the files are
    compared by inode, which no other file can have while they are open.
    """

    def __init__(self, path: str) -> None:
        """Call it while SQLite has the files open, after its first transaction."""
        absolute = os.path.abspath(path)
        files = absolute, f"{absolute}-wal", lock_path(absolute)
        self._files = {file: os.stat(file) for file in files if os.path.exists(file)}
        self._path = absolute

    def check(self) -> None:
        """Raises StoreMoved unless all paths still name the same files."""
        try:
            same = all(map(os.path.samestat, map(os.stat, self._files), self._files.values()))
        except OSError:
            same = False
        if not same:
            raise StoreMoved(path=self._path)


class SqliteStore:
    """SQLite as a kind of store, see `StoreKind`."""

    name = "sqlite"
    serves_many = False

    def exists(self, url: URL) -> bool:
        return Path(str(url.database)).exists()

    def serving(self, url: URL, opened: ExitStack, *, statement_timeout_ms: int | None = None) -> Engines:
        self._check_file(url)
        opened.callback(SqliteLock(str(url.database)).release)
        writing, reading = sqlite_engine(url, writing_at_once=True), sqlite_engine(url)
        opened.callback(writing.dispose)
        opened.callback(reading.dispose)
        return Engines(writing, reading, reading, Sessions())

    def beside(self, url: URL) -> Engine:
        self._check_file(url)
        return sqlite_engine(url, writing_at_once=True)

    def inspecting(self, url: URL) -> Engine:
        path = str(url.database)
        if not Path(path).is_file():
            raise StoreAway(store=path, reason="the file does not exist")
        return inspecting_engine(path)

    def check(self, connection: Connection, url: URL) -> None:
        check_no_backup(connection, str(url.database))

    def file_check(self, url: URL) -> Callable[[], None]:
        return ServedFiles(str(url.database)).check

    def refusal(self, url: URL, error: DBAPIError) -> StoreRefused:
        return unusable(str(url.database), error)

    def faults(self, connection: Connection) -> Iterator[tuple[str | None, str]]:
        for (reason,) in connection.exec_driver_sql(f"PRAGMA integrity_check({FAULTS_SHOWN})"):
            if reason != "ok":
                yield None, f"SQLite reports: {reason}"
        orphans = Counter((row[0], row[2]) for row in connection.exec_driver_sql("PRAGMA foreign_key_check"))
        for (table, parent), count in sorted(orphans.items()):
            yield table, f"{count} of its rows belong to no row of the table {parent}"

    def insert(self, table: Table, name: str) -> Insert:
        return insert(table)

    def insert_all(self, connection: Connection, inserts: Sequence[tuple[str, Any, list[dict[str, Any]]]]) -> None:
        for _, statement, rows in inserts:
            connection.execute(statement, rows)

    def select_all(self, connection: Connection, queries: Sequence[Query]) -> list[Sequence[AnyRow]]:
        return [connection.execute(query, given).all() for query, given in queries]

    def committing(self, _connection: Connection) -> AbstractContextManager[None]:
        return nullcontext()

    def left_undone(self, error: BaseException) -> bool:
        """Unless a sync failed: the commit was written then, and may be there after a crash."""
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR_FSYNC) not in _SYNCS

    def warnings(self, _connection: Connection) -> AbstractContextManager[list[str]]:
        return nullcontext([])

    now: ColumnElement[Any] = null()

    def among(self, column: ColumnElement[str], name: str) -> ColumnElement[bool]:
        return column.in_(select(func.json_each(bindparam(name)).table_valued("value").c.value))

    def given(self, name: str, columns: Columns) -> Select[Any]:
        each = func.json_each(bindparam(name, type_=String)).table_valued("value")
        return select(
            *(cast(func.json_extract(each.c.value, f"$.{it}"), kind).label(it) for it, kind in columns.items())
        )

    def reserve(self, _connection: Connection, _names: Sequence[str]) -> None:
        """Whoever writes has the lock of the whole store."""

    def end_stopped(self, _connection: Connection) -> None:
        """There is one controller."""

    def back_up(self, url: URL, part: Path, file: Path) -> bool:
        path = str(url.database)
        try:
            with closing(_open(path)) as store:
                _check_whole(store, path)
                _write_copy(store, part, file)
        except sqlite3.Error as error:
            raise unusable(path, error) from error
        return True

    @contextmanager
    def restored(self, url: URL, file: Path | None) -> Iterator[Connection]:
        path = Path(str(url.database))
        if file is None and not path.is_file():
            # No lock stays behind for a path that was mistyped.
            raise StoreAway(store=str(path), reason="the file does not exist")
        lock = SqliteLock(str(path))
        try:
            with nullcontext(path) if file is None else new_file(path) as part:
                if file is not None:
                    _copy_back(file, part, path)
                with self._begun(part) as connection:
                    yield connection
        finally:
            lock.release()

    @contextmanager
    def _begun(self, path: Path) -> Iterator[Connection]:
        """A transaction in a restored file, at whose end it is a backup no more."""
        engine = create_engine(URL.create("sqlite", database=str(path)))
        try:
            with engine.begin() as connection:
                yield connection
                connection.exec_driver_sql("PRAGMA user_version = 0")
        except DBAPIError as error:
            raise self.refusal(engine.url, error) from error
        finally:
            engine.dispose()

    def diagnosis(self, error: BaseException) -> Diagnosis | None:
        if not isinstance(error, sqlite3.Error):
            return None
        code = getattr(error, "sqlite_errorcode", None)  # errors from misuse of the module have none
        if code is None:
            return Diagnosis(Cause.OTHER, f"the store failed ({type(error).__name__})")
        if code in _WRITES:
            return _CANNOT_WRITE
        if code == sqlite3.SQLITE_READONLY_DBMOVED:
            return Diagnosis(Cause.MOVED, "the store's file was removed or renamed while it was served")
        found = _DIAGNOSES.get(code & 0xFF)  # without the bits of the extended code
        if found is None:
            return Diagnosis(Cause.OTHER, f"the store refused a statement ({error.sqlite_errorname})")
        return found

    def _check_file(self, url: URL) -> None:
        """Raises ForeignStore and IsBackup for a file that is none of ours to serve, DBAPIError for one that is no
        SQLite database, and LeftBehind if only the store's own file is gone, before anything is written."""
        path = str(url.database)
        if not os.path.exists(path):
            check_nothing_left(Path(path))
        if not os.path.isfile(path) or not os.path.getsize(path) or os.path.exists(lock_path(path)):
            return  # a new store, or one that was served before
        engine = inspecting_engine(path)
        try:
            with engine.connect() as connection:
                upgrade.check_ours(connection, shown(url))
                check_no_backup(connection, path)
        finally:
            engine.dispose()


def _write_copy(store: sqlite3.Connection, part: Path, file: Path) -> None:
    try:
        store.execute("VACUUM INTO ?", (str(part),))
        with closing(_open(str(part))) as copy:
            copy.execute(f"PRAGMA user_version = {BACKUP}")
    except sqlite3.Error as error:
        if diagnose(error).cause in (*_WRITE_CAUSES, Cause.AWAY):  # the store itself could be read
            raise unusable(str(file), error) from error
        raise


def _copy_back(file: Path, part: Path, path: Path) -> None:
    """Copies a backup to the file that will be the store at `path`."""
    try:
        with closing(_open(str(file))) as backup, closing(sqlite3.connect(part)) as store:
            _check_whole(backup, str(file))
            backup.backup(store)
    except sqlite3.Error as error:
        if diagnose(error).cause in _WRITE_CAUSES:
            raise unusable(str(path), error) from error
        raise NoBackup(path=str(file), reason=str(error)) from error


def _open(path: str, mode: str = "rw") -> sqlite3.Connection:
    """Opens an existing SQLite file; never creates one."""
    uri = f"file:{quote(os.path.abspath(path))}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000)


def _check_whole(connection: sqlite3.Connection, path: str) -> None:
    """Raises NoBackup for a damaged store."""
    ((found, *_), *_) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if found != "ok":
        raise NoBackup(path=path, reason=f"it is damaged: {found}")
