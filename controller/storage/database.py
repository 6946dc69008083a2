"""The connections to a store: one that writes and one that reads, each used by one thread at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType

from sqlalchemy import URL, Connection, Engine

from controller.storage import upgrade
from controller.storage.kinds import kind_of, parse_url
from controller.storage.presence import check_nobody_serves
from controller.storage.refusals import shown
from controller.storage.schema import REVISION
from controller.storage.session import Sessions
from controller.storage.transaction import refusing, transaction


@dataclass(slots=True)
class Database:
    """An open store. `writer` is for commits, `reader` for everything that only reads.

    Each long read gets a connection of its own from `reading`.
    """

    writer: Connection
    reader: Connection
    reading: Engine
    _open: ExitStack
    fresh: bool  # opening it created its schema
    sessions: Sessions
    check_files: Callable[[], None]  # raises StoreMoved if the store is a file that was moved, removed or replaced

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_database(url: str) -> Database:
    """Opens a store to serve it, and creates its schema if it is empty.

    Raises StoreRefused: BadDatabaseUrl, AlreadyServed, WrongSchema for a store of another version, IsBackup,
    DriverMissing, StoreAway if it cannot be opened, and NotKnown if its schema may or may not have been created.
    """
    parsed = parse_url(url)
    kind = kind_of(parsed)
    with ExitStack() as opened, refusing(parsed):
        engines = kind.serving(parsed, opened)
        writer = opened.enter_context(engines.writing.connect())
        with transaction(writer) as begun:
            kind.check(writer, parsed)
            kind.reserve(writer, ["schema"])  # several controllers may begin at once
            fresh = _make_if_empty(writer, parsed)
            if not fresh:
                begun.undo()  # nothing was changed: no session that ends here leaves a doubt
        reader = opened.enter_context(engines.reading.connect())
        files = kind.file_check(parsed)
        return Database(writer, reader, engines.loading, opened.pop_all(), fresh, engines.sessions, files)


def _make_if_empty(writer: Connection, url: URL) -> bool:
    """Creates the schema in an empty database, and checks it in any other one; returns whether it was empty."""
    upgrade.check_ours(writer, shown(url))
    fresh = upgrade.is_empty(writer)
    if fresh:
        upgrade.make(writer)
    upgrade.check(writer)
    return fresh


def check_store(url: str) -> bool:
    """Opens and closes a store, to report its errors before serving begins. Raises what `open_database` raises.

    Returns whether the store was empty, and its schema was created.
    """
    with open_database(url) as database:
        return database.fresh


@contextmanager
def reading_only(url: URL) -> Iterator[Connection]:
    """A read-only connection to a database, whatever is in it. Raises StoreRefused."""
    engine = kind_of(url).inspecting(url)
    try:
        with refusing(url), engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def looking_into(url: str) -> Iterator[Connection]:
    """The same, to an existing store or an SQLite backup, with the schema of this version."""
    parsed = parse_url(url)
    with reading_only(parsed) as connection:
        with connection.begin():
            upgrade.check_ours(connection, shown(parsed))
            upgrade.check(connection)
        yield connection


@contextmanager
def migrating(url: str) -> Iterator[Connection]:
    """A store that nobody serves, in a transaction, to change its schema. Raises StoreRefused, also AlreadyServed."""
    parsed = parse_url(url)
    kind = kind_of(parsed)
    with ExitStack() as opened, refusing(parsed):
        engines = kind.serving(parsed, opened, statement_timeout_ms=0)  # a step may take its time
        with engines.writing.connect() as connection, transaction(connection):
            upgrade.check_ours(connection, shown(parsed))
            check_nobody_serves(connection, shown(parsed))
            yield connection


def migrate(url: str) -> tuple[str | None, str]:
    """Migrates a store to this version's schema; returns its revision before and after. Raises StoreRefused."""
    with migrating(url) as connection:
        before = upgrade.revision(connection)
        if upgrade.is_empty(connection):
            upgrade.make(connection)
        elif before != REVISION:
            upgrade.upgrade(connection)
        return before, REVISION
