"""The kinds of store. Each is a module that does what differs: `sqlite.py`, `postgresql.py`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Final, Protocol

from sqlalchemy import URL, ColumnElement, Connection, Engine, Select, Table, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from controller.storage.diagnosis import OF_DRIVERS, Diagnosis
from controller.storage.postgresql import PostgresqlStore
from controller.storage.refusals import BadDatabaseUrl, StoreRefused, shown
from controller.storage.rows import AnyRow, Columns, Query
from controller.storage.session import Engines
from controller.storage.sqlite import SqliteStore


class StoreKind(Protocol):
    """What one kind of store does in its own way."""

    @property
    def name(self) -> str:
        """That of SQLAlchemy's dialect, with which its URLs begin."""

    @property
    def serves_many(self) -> bool:
        """Whether several controllers may serve one store: then a cache may be behind it."""

    def exists(self, url: URL) -> bool:
        """Whether the store may exist."""

    def serving(self, url: URL, opened: ExitStack, *, statement_timeout_ms: int | None = None) -> Engines:
        """The engines of a controller; of a store that takes one only, with its lock. `opened` ends both."""

    def beside(self, url: URL) -> Engine:
        """An engine for commands that write while a controller serves."""

    def inspecting(self, url: URL) -> Engine:
        """An engine that only reads, whether a controller serves or not. Raises StoreAway if there is no store."""

    def check(self, connection: Connection, url: URL) -> None:
        """Raises StoreRefused for what must not be served."""

    def file_check(self, url: URL) -> Callable[[], None]:
        """What raises StoreMoved if the files of a served store, which nobody may move, are not in place."""

    def refusal(self, url: URL, error: DBAPIError) -> StoreRefused:
        """The refusal for a database that failed."""

    def faults(self, connection: Connection) -> Iterator[tuple[str | None, str]]:
        """What the database finds wrong with itself: the table, if it is known, and the reason."""

    def insert(self, table: Table, name: str) -> Any:  # SQLAlchemy's classes for the kinds have no common one
        """An insert of the rows that `insert_all` gives it under a name, with support for upserts."""

    def insert_all(self, connection: Connection, inserts: Sequence[tuple[str, Any, list[dict[str, Any]]]]) -> None:
        """Runs inserts: each by the name under which it takes rows, and with these."""

    def select_all(self, connection: Connection, queries: Sequence[Query]) -> list[Sequence[AnyRow]]:
        """Runs selects in their order, each of which sees what was committed before it, or before the transaction
        where that is on one snapshot. Their rows have the types of the driver."""

    def committing(self, connection: Connection) -> AbstractContextManager[None]:
        """What is written meanwhile may be sent with the COMMIT, which follows on exit, or when the transaction is
        committed after that."""

    @property
    def now(self) -> ColumnElement[Any]:
        """The time of the database's clock in milliseconds, NULL if it has none of its own."""

    def among(self, column: ColumnElement[str], name: str) -> ColumnElement[bool]:
        """Whether a column is one of the texts of the parameter `name`, which is a list of them as JSON."""

    def given(self, name: str, columns: Columns) -> Select[Any]:
        """The rows of the parameter `name`, which is a list of them as JSON, with these columns."""

    def reserve(self, connection: Connection, names: Sequence[str]) -> None:
        """Waits until nobody else creates anything under these names, and lets nobody before the transaction ends."""

    def end_stopped(self, connection: Connection) -> None:
        """Ends the sessions of controllers that have stopped within a transaction, and with them their locks."""

    def back_up(self, url: URL, part: Path, file: Path) -> bool:
        """Writes a snapshot of the store to `part`, which becomes `file`; a controller may go on serving. Returns
        whether such a file can be inspected like a store."""

    def restored(self, url: URL, file: Path | None) -> AbstractContextManager[Connection]:
        """A transaction in a store that a backup was copied to, or that was restored in another way. The store must not
        exist yet, or be empty; it can be served when the transaction ends, and not before."""

    def diagnosis(self, error: BaseException) -> Diagnosis | None:
        """What an error of the driver means; None if it is none."""

    def left_undone(self, error: BaseException) -> bool:
        """Whether a COMMIT that failed with this error of the driver certainly changed nothing."""

    def warnings(self, connection: Connection) -> AbstractContextManager[list[str]]:
        """Collects the database's warnings meanwhile: after one, it is not known whether a COMMIT is durable."""


KINDS: Final[dict[str, StoreKind]] = {kind.name: kind for kind in (SqliteStore(), PostgresqlStore())}
OF_DRIVERS.extend(kind.diagnosis for kind in KINDS.values())


def kind_of(store: URL | Connection) -> StoreKind:
    return KINDS[store.get_backend_name() if isinstance(store, URL) else store.dialect.name]


def parse_url(url: str) -> URL:
    """A database URL, or the path of an SQLite file, or of a symbolic link to one; raises BadDatabaseUrl."""
    try:
        parsed = make_url(url) if "://" in url else URL.create(SqliteStore.name, database=url)
        parsed.render_as_string()
    except (ArgumentError, ValueError):  # ValueError: the port is not a number, or a path is not UTF-8
        raise BadDatabaseUrl(url=url) from None
    if parsed.get_backend_name() not in KINDS or not parsed.database or parsed.database == ":memory:":
        raise BadDatabaseUrl(url=shown(parsed))
    if parsed.get_backend_name() == SqliteStore.name and os.path.islink(parsed.database):
        return parsed.set(database=os.path.realpath(parsed.database))  # SQLite has its other files beside that one
    return parsed
