"""Transactions that report their outcome exactly: committed, not committed, or unknown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, RootTransaction
from sqlalchemy.exc import DBAPIError

from controller.storage.diagnosis import StoreTrouble
from controller.storage.dialect import dialect_of
from controller.storage.pipeline import Fate
from controller.storage.statements import StatementRunner
from strandline.redaction import redact


class CommitUnknown(StoreTrouble):
    """COMMIT was sent and got no definite answer: the store has committed, has not, or still will."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"it is not known whether the store committed: {self.reason}"


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """A transaction outside of the hot path. It is committed on exit, and rolled back by an exception.

    Raises CommitUnknown if COMMIT was sent and its outcome is unknown; with any other exception nothing was changed.
    """
    begun = connection.begin()
    try:
        yield
    except BaseException:
        abandon(connection, begun)
        raise
    with _listening(connection) as warnings:
        try:
            begun.commit()
        except DBAPIError as error:
            abandon(connection, begun)
            if dialect_of(connection.dialect).left_undone(error.orig):
                raise
            raise CommitUnknown(reason_of(error)) from error
    if warnings:
        raise CommitUnknown(warnings[0])


@contextmanager
def decided(connection: Connection, begun: RootTransaction, runner: StatementRunner) -> Iterator[None]:
    """Around the statements of a runner that end with COMMIT. Raises as `transaction` does."""
    try:
        yield
        begun.commit()
    except DBAPIError as error:
        abandon(connection, begun)
        match runner.fate:
            case Fate.DONE:
                return  # the connection was lost after the answer had arrived
            case Fate.UNKNOWN:
                raise CommitUnknown(reason_of(error)) from error
            case Fate.UNDONE:
                raise
    except BaseException:
        abandon(connection, begun)
        raise


def abandon(connection: Connection, begun: RootTransaction) -> None:
    """Rolls a failed transaction back. If that fails too, the connection is made again when it is next needed."""
    try:
        begun.rollback()
    except DBAPIError:
        with suppress(DBAPIError):
            connection.invalidate()


def reason_of(error: DBAPIError) -> str:
    """The driver's error, in one line."""
    said = str(error.orig).strip().splitlines()
    return redact(said[0]) if said else type(error.orig).__name__


@contextmanager
def _listening(connection: Connection) -> Iterator[list[str]]:
    """Collects PostgreSQL's warnings meanwhile. It warns of a COMMIT that a standby may lack."""
    heard: list[str] = []
    if connection.dialect.driver != "psycopg":
        yield heard
        return

    def hear(notice: Any) -> None:  # a notice of psycopg, which may not be installed
        if notice.severity_nonlocalized == "WARNING":
            heard.append(str(notice.message_primary))

    driver: Any = connection.connection.driver_connection
    driver.add_notice_handler(hear)
    try:
        yield heard
    finally:
        driver.remove_notice_handler(hear)
