"""Writes backups of a store, and restores stores from them.

SQLite       a file with a snapshot of the store (`VACUUM INTO`); a controller may serve meanwhile
PostgreSQL   a file in pg_dump's custom format, also a snapshot

A restored store is older than what its writers and readers know. `terms.start_over` makes sure that no epoch or fence
is given out twice, and that every earlier registration is fenced.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, create_engine, func, select
from sqlalchemy.exc import DBAPIError

from controller.storage import schema, upgrade
from controller.storage.cluster import restore_shards
from controller.storage.diagnosis import Cause, diagnose
from controller.storage.kinds import kind_of, parse_url
from controller.storage.postgresql import writing_engine
from controller.storage.refusals import (
    ForeignStore,
    InTheWay,
    LeftBehind,
    NoBackup,
    ProgramFailed,
    ProgramMissing,
    StoreAway,
    UnderWay,
    WrongSchema,
)
from controller.storage.sqlite import BACKUP, BUSY_TIMEOUT_MS, SqliteLock, unusable
from controller.storage.terms import start_over


@dataclass(frozen=True, slots=True)
class Restored:
    """The contents of a restored store. `served_until` is when it was last served, None if never."""

    streams: int
    groups: int
    served_until: int | None


def back_up(url: str, file: Path) -> str:
    """Writes a snapshot of the store to a new file; a controller may go on serving.

    Returns what shows whether the backup is whole: the file, or the store if such a file cannot be looked into. Raises
    StoreRefused, also if the file exists. An attempt that fails or is interrupted leaves no file of that name.
    """
    parsed = parse_url(url)
    with _new_file(file) as part:
        if parsed.get_backend_name() == "sqlite":
            _copy_sqlite(str(parsed.database), part, file)
            return str(file)
        _run("pg_dump", parsed, "--format=custom", "--no-owner", "--no-privileges", f"--file={part}")
        return url


def restore(url: str, file: Path | None, now: int) -> Restored:
    """Makes a store from a backup. The store must not exist yet or, in PostgreSQL, must be empty.

    Without a file the store was restored in another way, and only gets its restore entry. `now` is the clock's time
    in milliseconds. Raises StoreRefused.
    """
    parsed = parse_url(url)
    if file is not None and not file.is_file():
        raise NoBackup(str(file), "the file does not exist")
    if parsed.get_backend_name() == "sqlite":
        return _restore_sqlite(Path(str(parsed.database)), file, now)
    return _restore_postgresql(parsed, file, now)


def _finish_restore(connection: Connection, now: int) -> Restored:
    served_until = start_over(connection, now)
    if kind_of(connection).serves_many:
        together = restore_shards(connection, now)
        served_until = max((each for each in (served_until, together) if each is not None), default=None)
    return Restored(
        streams=connection.execute(select(func.count()).select_from(schema.stream)).scalar_one(),
        groups=connection.execute(select(func.count()).select_from(schema.reader_group)).scalar_one(),
        served_until=served_until,
    )


# -- SQLite ------------------------------------------------------------------------------------------------------

_WRITE_CAUSES: Final = (Cause.FULL, Cause.DISK, Cause.READ_ONLY)


def _copy_sqlite(path: str, part: Path, file: Path) -> None:
    try:
        with closing(_open_sqlite(path)) as store:
            _check_sqlite(store, path)
            _write_copy(store, part, file)
    except sqlite3.Error as error:
        raise unusable(path, error) from error


def _write_copy(store: sqlite3.Connection, part: Path, file: Path) -> None:
    try:
        store.execute("VACUUM INTO ?", (str(part),))
        with closing(_open_sqlite(str(part))) as copy:
            copy.execute(f"PRAGMA user_version = {BACKUP}")
    except sqlite3.Error as error:
        if diagnose(error).cause in (*_WRITE_CAUSES, Cause.AWAY):  # the store itself could be read
            raise unusable(str(file), error) from error
        raise


def _restore_sqlite(path: Path, file: Path | None, now: int) -> Restored:
    if file is None and not path.is_file():
        raise StoreAway(str(path), "the file does not exist")  # no lock stays behind for a path that was mistyped
    lock = SqliteLock(str(path))
    try:
        if file is None:
            return _finish_sqlite_restore(path, now)
        with _new_file(path) as part:
            try:
                with closing(_open_sqlite(str(file))) as backup, closing(sqlite3.connect(part)) as store:
                    _check_sqlite(backup, str(file))
                    backup.backup(store)
            except sqlite3.Error as error:
                if diagnose(error).cause in _WRITE_CAUSES:
                    raise unusable(str(path), error) from error
                raise NoBackup(str(file), str(error)) from error
            return _finish_sqlite_restore(part, now)
    finally:
        lock.release()


def _finish_sqlite_restore(path: Path, now: int) -> Restored:
    engine = create_engine(URL.create("sqlite", database=str(path)))
    try:
        with engine.begin() as connection:
            restored = _finish_restore(connection, now)
            connection.exec_driver_sql("PRAGMA user_version = 0")
            return restored
    except DBAPIError as error:
        raise kind_of(engine.url).refusal(engine.url, error) from error
    finally:
        engine.dispose()


def _open_sqlite(path: str) -> sqlite3.Connection:
    """Opens an existing SQLite file; never creates one."""
    uri = f"file:{quote(os.path.abspath(path))}?mode=rw"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000)


def _check_sqlite(connection: sqlite3.Connection, path: str) -> None:
    """Raises WrongSchema or ForeignStore for a file that is not a store, and NoBackup for a damaged one."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not tables:
        raise WrongSchema(None, schema.LEAST_REVISION, schema.REVISION)
    if not upgrade.OURS.issubset(tables):
        raise ForeignStore(path, sorted(tables))
    ((found, *_), *_) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if found != "ok":
        raise NoBackup(path, f"it is damaged: {found}")


# -- PostgreSQL --------------------------------------------------------------------------------------------------


def _restore_postgresql(url: URL, file: Path | None, now: int) -> Restored:
    engine = writing_engine(url, statement_timeout_ms=0)  # holds the lock: no controller serves it meanwhile
    try:
        with engine.connect() as connection:
            with connection.begin():
                empty = upgrade.is_empty(connection)
            if file is not None:
                if not empty:
                    raise InTheWay(url.render_as_string(hide_password=True))
                once = ("--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges")
                _run("pg_restore", url, *once, str(file))
            elif empty:
                raise WrongSchema(None, schema.LEAST_REVISION, schema.REVISION)
            with connection.begin():
                return _finish_restore(connection, now)
    except DBAPIError as error:
        raise kind_of(url).refusal(url, error) from error
    finally:
        engine.dispose()


def _run(program: str, url: URL, *options: str) -> None:
    """Runs one of PostgreSQL's programs. The password goes by environment: other users can see command lines."""
    environment = dict(os.environ)
    if url.password is not None:
        environment["PGPASSWORD"] = str(url.password)
    dbname = url._replace(drivername="postgresql", password=None).render_as_string()
    try:
        done = subprocess.run(
            [program, f"--dbname={dbname}", *options],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise ProgramMissing(program, "apt-get install -y postgresql-client") from None
    if done.returncode != 0:
        raise ProgramFailed(program, done.stderr.strip().splitlines())


# -- files -------------------------------------------------------------------------------------------------------


_BESIDE: Final = ("-wal", "-journal")  # what SQLite applies to a database that it opens


@contextmanager
def _new_file(file: Path) -> Iterator[Path]:
    """A file under a temporary name. It is renamed when it is complete and synced. Only its owner may read it.

    A lock on it keeps other attempts for the same name out; the system releases it when this process dies.
    """
    part = file.with_name(f"{file.name}.part")
    try:
        held = _held_part(file, part)
        try:
            for each in _BESIDE:
                left = file.with_name(file.name + each)
                if left.exists() and left.stat().st_size:
                    raise LeftBehind(str(file), str(left))
                part.with_name(part.name + each).unlink(missing_ok=True)  # of an attempt that was killed
            yield part
            _sync(part)
            os.link(part, file)  # unlike a rename it does not replace a file that was created meanwhile
            part.unlink()
            _sync(file.parent)
        except FileExistsError:
            raise InTheWay(str(file)) from None
        finally:
            part.unlink(missing_ok=True)
            os.close(held)
    except OSError as error:
        raise unusable(str(file), error) from error


def _held_part(file: Path, part: Path) -> int:
    """Makes an empty file, and takes its lock; returns what holds it. Raises UnderWay, or InTheWay if `file` exists."""
    while True:
        if file.exists():
            raise InTheWay(str(file))
        held = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if part.exists() and os.path.samestat(os.fstat(held), part.stat()):
                os.truncate(held, 0)  # what an attempt that was killed has left
                return held
        except BlockingIOError:
            os.close(held)
            raise UnderWay(str(file)) from None
        except BaseException:
            os.close(held)
            raise
        os.close(held)  # another attempt has just ended, and removed or renamed it


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
