"""Transactions that report their outcome exactly: committed, not committed, or unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import URL, Connection
from sqlalchemy.exc import DBAPIError

from controller.storage.diagnosis import StoreTrouble
from controller.storage.kinds import KINDS, kind_of
from controller.storage.refusals import NotKnown, StoreAway, shown
from strandline.redaction import redact


class CommitUnknown(StoreTrouble):
    """COMMIT was sent and got no definite answer: the store has committed, has not, or still will."""

    says = "{reason}"  # what happened; callers learn by the kind of their error whether the outcome matters to them
    reason: str


class Transaction:
    """A transaction that was begun, and is ended by `commit` or `undo`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._begun = connection.begin()
        self.undone = False

    def undo(self) -> None:
        """Rolls it back. If that fails, the connection is made again when it is next needed."""
        self.undone = True
        try:
            self._begun.rollback()
        except DBAPIError:
            with suppress(DBAPIError):
                self._connection.invalidate()

    def commit(self, write: Callable[[], None] | None = None) -> None:
        """Raises CommitUnknown if COMMIT was sent and its outcome is unknown; with any other exception nothing was
        changed. What `write` writes is sent with it: then it is unknown as soon as that fails without an answer."""
        kind = KINDS[self._connection.dialect.name]
        is_written = write is None
        with kind.warnings(self._connection) as warnings:
            try:
                if write is not None:
                    with kind.committing(self._connection):
                        write()
                        is_written = True
                self._begun.commit()
            except BaseException as error:
                self.undo()
                if not isinstance(error, DBAPIError) or not is_written:
                    raise
                if error.orig is not None and kind.left_undone(error.orig):
                    raise
                raise CommitUnknown(reason=_reason_of(error)) from error
        if warnings:
            raise CommitUnknown(reason=warnings[0])


@contextmanager
def transaction(connection: Connection) -> Iterator[Transaction]:
    """A transaction, which is committed on exit unless it was undone, and rolled back by an exception. Raises as
    `Transaction.commit`."""
    begun = Transaction(connection)
    try:
        yield begun
    except BaseException:
        begun.undo()
        raise
    if not begun.undone:
        begun.commit()


@contextmanager
def refusing(url: URL) -> Iterator[None]:
    """Raises StoreRefused, whose sentence is for the operator, where the database of a store fails: NotKnown if COMMIT
    was sent, and its outcome is unknown."""
    try:
        yield
    except DBAPIError as error:
        raise kind_of(url).refusal(url, error) from error
    except CommitUnknown as error:
        raise NotKnown(store=shown(url), reason=error.reason) from error
    except UnicodeDecodeError as error:  # raised by the driver for damage in the database's own catalog
        raise StoreAway(store=shown(url), reason="it is damaged: restore a backup") from error


def _reason_of(error: DBAPIError) -> str:
    """The driver's error, in one line."""
    lines = str(error.orig).strip().splitlines()
    return redact(lines[0]) if lines else type(error.orig).__name__
