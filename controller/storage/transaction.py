"""Transactions that say truly how they ended: done, not done, or not known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, RootTransaction
from sqlalchemy.exc import DBAPIError

from controller.storage.diagnosis import StoreTrouble
from controller.storage.dialect import dialect_of
from strandline.redaction import redact


class CommitUnknown(StoreTrouble):
    """The store was told to commit and gave no definite answer: it did, or it did not, or will yet."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"whether the store committed is not known: {self.reason}"


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """A transaction for what is not on the hot path. It is committed at the end, and rolled back by an exception.

    Raises CommitUnknown where the store was told to commit and did not say what came of it; with any other exception
    nothing was changed.
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


def abandon(connection: Connection, begun: RootTransaction) -> None:
    """Ends a transaction that failed. A connection that cannot even do that is made again for whoever needs it next."""
    try:
        begun.rollback()
    except DBAPIError:
        with suppress(DBAPIError):
            connection.invalidate()


def reason_of(error: DBAPIError) -> str:
    """What the driver says is wrong, in a line."""
    said = str(error.orig).strip().splitlines()
    return redact(said[0]) if said else type(error.orig).__name__


@contextmanager
def _listening(connection: Connection) -> Iterator[list[str]]:
    """Takes in what PostgreSQL warns of meanwhile. Of a COMMIT it does where a standby may lack it."""
    heard: list[str] = []
    if connection.dialect.driver != "psycopg":
        yield heard
        return

    def hear(notice: Any) -> None:  # psycopg's, which may not be installed
        if notice.severity_nonlocalized == "WARNING":
            heard.append(str(notice.message_primary))

    driver: Any = connection.connection.driver_connection
    driver.add_notice_handler(hear)
    try:
        yield heard
    finally:
        driver.remove_notice_handler(hear)
