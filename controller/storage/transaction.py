"""Transactions that report their outcome exactly: committed, not committed, or unknown."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from sqlalchemy import Connection, RootTransaction
from sqlalchemy.exc import DBAPIError

from controller.storage.diagnosis import StoreTrouble
from strandline.redaction import redact

_SYNCS: Final = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)


class CommitUnknown(StoreTrouble):
    """COMMIT was sent and got no definite answer: the store has committed, has not, or still will."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"it is not known whether the store committed: {self.reason}"


@contextmanager
def transaction(connection: Connection, may_commit: Callable[[], None] = lambda: None) -> Iterator[None]:
    """A transaction, which is committed on exit, and rolled back by an exception.

    `may_commit` is called before COMMIT is sent, and prevents that by raising. Raises CommitUnknown if COMMIT was sent
    and its outcome is unknown; with any other exception nothing was changed.
    """
    begun = connection.begin()
    try:
        yield
        may_commit()
    except BaseException:
        _abandon(connection, begun)
        raise
    with _warnings(connection) as warnings:
        try:
            begun.commit()
        except DBAPIError as error:
            _abandon(connection, begun)
            if left_undone(error.orig):
                raise
            raise CommitUnknown(_reason_of(error)) from error
    if warnings:
        raise CommitUnknown(warnings[0])


def left_undone(error: BaseException | None) -> bool:
    """Whether a COMMIT that failed with this error of the driver certainly changed nothing.

    SQLite       unless a sync failed: the commit was written then, and may be there after a crash
    PostgreSQL   if the error leaves the session open: with any other, the server may have committed before
    """
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR_FSYNC) not in _SYNCS
    said = getattr(error, "diag", None)  # of psycopg, which may not be installed
    return said is not None and bool(said.severity_nonlocalized == "ERROR")


def _abandon(connection: Connection, begun: RootTransaction) -> None:
    """Rolls a failed transaction back. If that fails too, the connection is made again when it is next needed."""
    try:
        begun.rollback()
    except DBAPIError:
        with suppress(DBAPIError):
            connection.invalidate()


def _reason_of(error: DBAPIError) -> str:
    """The driver's error, in one line."""
    said = str(error.orig).strip().splitlines()
    return redact(said[0]) if said else type(error.orig).__name__


@contextmanager
def _warnings(connection: Connection) -> Iterator[list[str]]:
    """Collects PostgreSQL's warnings meanwhile. It warns of a COMMIT that a standby may lack."""
    warnings: list[str] = []
    if connection.dialect.driver != "psycopg":
        yield warnings
        return

    def collect(notice: Any) -> None:  # a notice of psycopg, which may not be installed
        if notice.severity_nonlocalized == "WARNING":
            warnings.append(str(notice.message_primary))

    driver: Any = connection.connection.driver_connection
    driver.add_notice_handler(collect)
    try:
        yield warnings
    finally:
        driver.remove_notice_handler(collect)
