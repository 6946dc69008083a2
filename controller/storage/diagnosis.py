"""Diagnoses store failures: a cause to count and alert on, and a sentence for callers.

The sentence names no path, address or statement, since callers without a token read it too. The log has those.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from sqlalchemy.exc import DBAPIError

from controller.storage.refusals import WrongSchema
from strandline.errors import StoreCorrupt


class Cause(StrEnum):
    """Why a commit or a read failed."""

    FULL = "full"
    DISK = "disk"
    READ_ONLY = "read_only"
    LOCKED = "locked"
    MOVED = "moved"
    DAMAGED = "damaged"
    SILENT = "silent"
    AWAY = "away"
    REFUSED = "refused"
    TAKEN_OVER = "taken_over"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`reason` is a sentence without a full stop."""

    cause: Cause
    reason: str


class StoreTrouble(Exception):
    """A failure of the store whose message is its diagnosis."""

    cause: ClassVar[Cause] = Cause.OTHER


class StoreMoved(StoreTrouble):
    """An SQLite file was removed, renamed or replaced while it was served: writes go to a file without a name."""

    cause = Cause.MOVED

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return "the store's file was removed, renamed or replaced while it was served: put it back, or restart"


class StoreSilent(StoreTrouble):
    """The store did not answer in time."""

    cause = Cause.SILENT

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"the store has not answered for {self.seconds:g} s"


class LockHeld(StoreTrouble):
    """A session other than the controller's current one holds the lock of the store."""

    cause = Cause.LOCKED

    def __str__(self) -> str:
        return (
            "another session holds the lock of the store: an earlier one of this controller that the server has not "
            "ended yet, or a command that works on the store"
        )


_SQLITE: Final[Mapping[int, Diagnosis]] = {
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
_SQLITE_WRITES: Final = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE)
_CANNOT_WRITE: Final = Diagnosis(
    Cause.DISK, "the disk refuses to write the store's file: check its quota, and the limit on the size of a file"
)

# By SQLSTATE, or by its first characters, the class.
_POSTGRESQL: Final[Mapping[str, Diagnosis]] = {
    "53100": Diagnosis(Cause.FULL, "the disk of the database server is full"),
    "58030": Diagnosis(Cause.DISK, "the disk of the database server failed to read or write"),
    "25006": Diagnosis(Cause.READ_ONLY, "the database takes no writes: the server is a standby, or set to read-only"),
    "55P03": Diagnosis(Cause.LOCKED, "another session has locked the rows to be written"),
    "57014": Diagnosis(Cause.SILENT, "the database server cancelled a statement that took too long"),
    "57P03": Diagnosis(Cause.AWAY, "the database server is starting or shutting down"),
    "57P": Diagnosis(Cause.AWAY, "the database server ended the session"),
    "XX001": Diagnosis(Cause.DAMAGED, "the database is damaged: restore a backup"),
    "XX002": Diagnosis(Cause.DAMAGED, "an index of the database is damaged: reindex it, or restore a backup"),
    "53": Diagnosis(Cause.REFUSED, "the database server has no room for a session or a statement"),
    "28": Diagnosis(Cause.REFUSED, "the database server does not accept the user or the password"),
    "3D": Diagnosis(Cause.REFUSED, "the database server has no such database"),
    "42501": Diagnosis(Cause.REFUSED, "the user lacks a privilege in the database"),
    "08": Diagnosis(Cause.AWAY, "the connection to the database server was lost"),
}
_CONNECTION: Final = Diagnosis(Cause.AWAY, "the database server cannot be reached, or the connection to it was lost")

_SYSTEM: Final[Mapping[int, Diagnosis]] = {
    errno.ENOSPC: Diagnosis(Cause.FULL, "the disk is full"),
    errno.EDQUOT: Diagnosis(Cause.FULL, "the quota of the disk is used up"),
    errno.EFBIG: Diagnosis(Cause.DISK, "the file would exceed the limit on the size of a file"),
    errno.EROFS: Diagnosis(Cause.READ_ONLY, "the file system is read-only"),
    errno.EACCES: Diagnosis(Cause.READ_ONLY, "this user may not write there"),
    errno.EPERM: Diagnosis(Cause.READ_ONLY, "this user may not write there"),
    errno.EIO: Diagnosis(Cause.DISK, "the disk failed to read or write"),
}


def diagnose(error: BaseException) -> Diagnosis:
    """What an error of the store or of the system means. For any other error the reason is the name of its class."""
    match error:
        case StoreTrouble():
            origin = error.__cause__
            cause = diagnose(origin).cause if error.cause is Cause.OTHER and origin is not None else error.cause
            return Diagnosis(cause, str(error))
        case StoreCorrupt():
            return Diagnosis(Cause.DAMAGED, error.detail)
        case WrongSchema():
            return Diagnosis(Cause.OTHER, str(error))
        case DBAPIError() if error.orig is not None:
            return diagnose(error.orig)
        case sqlite3.Error():
            return _of_sqlite(error)
        case OSError(errno=int(number)) if number in _SYSTEM:
            return _SYSTEM[number]
        case _ if hasattr(error, "sqlstate"):  # an error of psycopg, which may not be installed
            return _of_postgresql(error, error.sqlstate)
        case _:
            return Diagnosis(Cause.OTHER, type(error).__name__)


def _of_sqlite(error: sqlite3.Error) -> Diagnosis:
    code = getattr(error, "sqlite_errorcode", None)  # errors from misuse of the module have none
    if code is None:
        return Diagnosis(Cause.OTHER, f"the store failed ({type(error).__name__})")
    if code in _SQLITE_WRITES:
        return _CANNOT_WRITE
    if code == sqlite3.SQLITE_READONLY_DBMOVED:
        return Diagnosis(Cause.MOVED, "the store's file was removed or renamed while it was served")
    found = _SQLITE.get(code & 0xFF)  # without the bits of the extended code
    if found is None:
        return Diagnosis(Cause.OTHER, f"the store refused a statement ({error.sqlite_errorname})")
    return found


def _of_postgresql(error: BaseException, state: str | None) -> Diagnosis:
    if state is None and any(kind.__name__ == "OperationalError" for kind in type(error).__mro__):
        return _CONNECTION  # the server sent no error
    if state is None:
        return Diagnosis(Cause.OTHER, f"the store failed ({type(error).__name__})")
    for prefix in (state, state[:3], state[:2]):
        if prefix in _POSTGRESQL:
            return _POSTGRESQL[prefix]
    return Diagnosis(Cause.OTHER, f"the store refused a statement ({type(error).__name__}, {state})")
