"""The connections to a store: one that writes and one that reads, each used by one thread at a time."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from controller.storage import upgrade
from controller.storage.postgresql import reading_engine, writing_engine
from controller.storage.refusals import BadDatabaseUrl, NotKnown, StoreAway
from controller.storage.sqlite import SqliteLock, check_no_backup, sqlite_engine
from controller.storage.transaction import CommitUnknown, transaction
from strandline.redaction import redact


def parse_url(url: str) -> URL:
    """A database URL, or the path of an SQLite file; raises BadDatabaseUrl."""
    try:
        parsed = make_url(url if "://" in url else f"sqlite:///{url}")
    except (ArgumentError, ValueError):  # the latter for a port that is no number
        raise BadDatabaseUrl(url) from None
    supported = parsed.get_backend_name() in ("sqlite", "postgresql")
    if not supported or not parsed.database or parsed.database == ":memory:":
        raise BadDatabaseUrl(shown(parsed))
    return parsed


def shown(url: URL) -> str:
    """The URL without its password, wherever that stands."""
    return redact(url.render_as_string(hide_password=True))


@dataclass(slots=True)
class Database:
    """An open store. `writer` is for the one flusher, `reader` for everything that only looks.

    What takes long to look at gets a connection of its own from `reading`.
    """

    writer: Connection
    reader: Connection
    reading: Engine
    _open: ExitStack
    fresh: bool = False  # its schema was made just now

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_database(url: str) -> Database:
    """Opens a store to serve it, and makes its schema where it is empty.

    Raises StoreRefused: BadDatabaseUrl, AlreadyServed, WrongSchema for a store of another version, IsBackup,
    DriverMissing, StoreAway where it cannot be opened, and NotKnown where it may have got its schema.
    """
    parsed = parse_url(url)
    with ExitStack() as opened:
        try:
            writing, reading = _engines(parsed, opened)
            writer = opened.enter_context(writing.connect())
            with transaction(writer):
                if parsed.get_backend_name() == "sqlite":
                    check_no_backup(writer, str(parsed.database))
                fresh = upgrade.is_empty(writer)
                if fresh:
                    upgrade.upgrade(writer)
                upgrade.check(writer)
            reader = opened.enter_context(reading.connect())
            return Database(writer, reader, reading, opened.pop_all(), fresh)
        except DBAPIError as error:
            raise away(parsed, error) from error
        except CommitUnknown as error:
            raise NotKnown(shown(parsed), error.reason) from error


def check_store(url: str) -> bool:
    """Raises, as `open_database` would, what is wrong with a store, so that it can be told before serving begins.

    Returns whether the store was empty, and got its schema now.
    """
    with open_database(url) as database:
        return database.fresh


def migrate(url: str) -> tuple[str | None, str]:
    """Brings a store to this version's schema; returns its revision before and after. Raises StoreRefused."""
    parsed = parse_url(url)
    with ExitStack() as opened:
        try:
            engine, _ = _engines(parsed, opened, statement_timeout_ms=0)  # a step may take its time
            with engine.connect() as connection, transaction(connection):
                before = upgrade.revision(connection)
                upgrade.upgrade(connection)
        except DBAPIError as error:
            raise away(parsed, error) from error
        except CommitUnknown as error:
            raise NotKnown(shown(parsed), error.reason) from error
    return before, upgrade.newest_revision()


def _engines(url: URL, opened: ExitStack, **more: int) -> tuple[Engine, Engine]:
    """The engine that writes and the one that reads; the store is this controller's own."""
    if url.get_backend_name() == "sqlite":
        opened.callback(SqliteLock(str(url.database)).release)
        engine = sqlite_engine(url)
        opened.callback(engine.dispose)
        return engine, engine
    writing, reading = writing_engine(url, **more), reading_engine(url)
    opened.callback(writing.dispose)
    opened.callback(reading.dispose)
    return writing, reading


def away(url: URL, error: DBAPIError) -> StoreAway:
    """What to tell of a database that failed."""
    said = str(error.orig).strip().splitlines() or [type(error).__name__]
    return StoreAway(shown(url), redact(said[0]))
