"""Diagnoses store failures: a cause to count and alert on, and a sentence for callers.

The sentence names no path, address or statement, since callers without a token read it too. The log has those.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from sqlalchemy.exc import DBAPIError

from controller.storage.refusals import WrongSchema
from strandline.errors import Declared, StoreCorrupt


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
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`reason` is a sentence without a full stop."""

    cause: Cause
    reason: str


class StoreTrouble(Declared):
    """A failure of the store whose sentence is its diagnosis."""

    cause: ClassVar[Cause] = Cause.OTHER


class StoreMoved(StoreTrouble):
    """An SQLite file, or one beside it, was removed, renamed or replaced while it was served: writes go to a file
    without a name, or another controller may serve it too."""

    cause = Cause.MOVED
    says = (
        "the store's file, or its -wal or .lock, was removed, renamed or replaced while it was served: put it back, or "
        "restart"
    )
    path: str


class StoreSilent(StoreTrouble):
    """The store did not answer in time."""

    cause = Cause.SILENT
    says = "the store has not answered for {seconds:g} s"
    seconds: float


_SYSTEM: Final[Mapping[int, Diagnosis]] = {
    errno.ENOSPC: Diagnosis(Cause.FULL, "the disk is full"),
    errno.EDQUOT: Diagnosis(Cause.FULL, "the quota of the disk is used up"),
    errno.EFBIG: Diagnosis(Cause.DISK, "the file would exceed the limit on the size of a file"),
    errno.EROFS: Diagnosis(Cause.READ_ONLY, "the file system is read-only"),
    errno.EACCES: Diagnosis(Cause.READ_ONLY, "this user may not write there"),
    errno.EPERM: Diagnosis(Cause.READ_ONLY, "this user may not write there"),
    errno.EIO: Diagnosis(Cause.DISK, "the disk failed to read or write"),
}


OF_DRIVERS: Final[list[Callable[[BaseException], Diagnosis | None]]] = []  # by kind of store, which `kinds.py` enters


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
        case OSError(errno=int(number)) if number in _SYSTEM:
            return _SYSTEM[number]
        case _:
            found = (of_driver(error) for of_driver in OF_DRIVERS)
            return next(filter(None, found), Diagnosis(Cause.OTHER, type(error).__name__))


def is_locked(error: BaseException) -> bool:
    """Whether the store failed because somebody else holds a lock."""
    return diagnose(error).cause is Cause.LOCKED
