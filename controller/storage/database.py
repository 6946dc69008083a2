"""The connections to a store: one that writes and one that reads, each used by one thread at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType

from sqlalchemy import URL, Connection, Engine

from controller.storage import upgrade
from controller.storage.kinds import kind_of, parse_url
from controller.storage.postgresql import (
    Timeline,
    joint_engine,
    reading_engine,
)
from controller.storage.refusals import (
    NoStore,
    OneController,
    StoreAway,
    shown,
)
from controller.storage.rewind import Rewound, rewind
from controller.storage.schema import REVISION
from controller.storage.session import Sessions, StoreSession, sessions_of
from controller.storage.sqlite import ServedFiles
from controller.storage.transaction import refusing, transaction
from strandline.errors import StoreCorrupt


@dataclass(slots=True)
class Database:
    """An open store. `writer` is for the one flusher, `reader` for everything that only reads.

    Each long read gets a connection of its own from `reading`.
    """

    writer: Connection
    reader: Connection
    reading: Engine
    _open: ExitStack
    fresh: bool  # opening it created its schema
    sessions: Sessions
    files: ServedFiles | None = None  # SQLite only

    def check_files(self) -> None:
        """Raises StoreMoved if the store is a file that was moved, removed or replaced."""
        if self.files is not None:
            self.files.check()

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
        with transaction(writer):
            kind.check(writer, parsed)
            fresh = _make_if_empty(writer, parsed)
        reader = opened.enter_context(engines.reading.connect())
        files = kind.files(parsed)
        return Database(writer, reader, engines.loading, opened.pop_all(), fresh, engines.sessions, files)


def _make_if_empty(writer: Connection, url: URL) -> bool:
    """Creates the schema in an empty database, and checks it in any other one; returns whether it was empty."""
    upgrade.check_ours(writer, shown(url))
    fresh = upgrade.is_empty(writer)
    if fresh:
        upgrade.make(writer)
    upgrade.check(writer)
    return fresh


@dataclass(slots=True)
class JointSessions:
    """The connections of a controller that serves a store together with others: for its beats, and for its other
    requests about shards. Each is used by one thread."""

    beat_connection: Connection
    request_connection: Connection
    beats: StoreSession
    requests: StoreSession
    timeline: Timeline
    _others: Sequence[StoreSession]  # all but that of the beats
    _open: ExitStack

    def renew(self) -> None:
        """Ends all sessions: the store is on another timeline, or an old one lives on beside it. Call it in the thread
        of the beats."""
        self.timeline.leave()
        for session in self._others:
            session.cut()
        self.beat_connection.invalidate()

    def close(self) -> None:
        self._open.close()


def open_joint(url: str) -> tuple[Database, JointSessions]:
    """Opens a PostgreSQL store to serve it together with other controllers; creates its schema if it is empty.

    Raises what `open_database` raises, and OneController for a store that takes no second one.
    """
    parsed = parse_url(url)
    if not kind_of(parsed).serves_many:
        raise OneController(store=shown(parsed))
    with ExitStack() as opened, ExitStack() as joint, refusing(parsed):
        timeline = Timeline()
        engines = joint_engine(parsed, timeline, leading=True), joint_engine(parsed, timeline)
        beats, requests = sessions_of(engines, joint)
        first, second = (joint.enter_context(engine.connect()) for engine in engines)
        writing = joint_engine(parsed, timeline)
        reading, loading = (reading_engine(parsed, timeline=timeline) for _ in range(2))
        sessions = Sessions(*sessions_of((writing, reading, loading), opened))
        writer = opened.enter_context(writing.connect())
        with transaction(writer):
            upgrade.one_at_a_time(writer)
            fresh = _make_if_empty(writer, parsed)
        reader = opened.enter_context(reading.connect())
        database = Database(writer, reader, loading, opened.pop_all(), fresh, sessions)
        others = (requests, *sessions)
        return database, JointSessions(first, second, beats, requests, timeline, others, joint.pop_all())


def check_store(url: str, *, joint: bool = False) -> bool:
    """Opens and closes a store, to report its errors before serving begins. Raises what `open_database` raises, or what
    `open_joint` raises if it is to be served together with other controllers.

    Returns whether the store was empty, and its schema was created.
    """
    if joint:
        database, sessions = open_joint(url)
        sessions.close()
    else:
        database = open_database(url)
    with database:
        return database.fresh


@contextmanager
def migrating(url: str) -> Iterator[Connection]:
    """A store that nobody serves, in a transaction, to change its schema. Raises StoreRefused, also AlreadyServed."""
    parsed = parse_url(url)
    kind = kind_of(parsed)
    with ExitStack() as opened, refusing(parsed):
        engines = kind.serving(parsed, opened, statement_timeout_ms=0)  # a step may take its time
        with engines.writing.connect() as connection, transaction(connection):
            if kind.serves_many:
                upgrade.one_at_a_time(connection)
            upgrade.check_ours(connection, shown(parsed))
            yield connection


def migrate(url: str) -> tuple[str | None, str]:
    """Migrates a store to this version's schema; returns its revision before and after. Raises StoreRefused."""
    with migrating(url) as connection:
        before = upgrade.revision(connection)
        if upgrade.is_empty(connection):
            upgrade.make(connection)
        elif before != REVISION:
            if kind_of(connection).serves_many:
                upgrade.end_all(connection)
            upgrade.upgrade(connection)
        return before, REVISION


def set_clock_back(url: str, now: int) -> Rewound:
    """Sets a store's clock back to `now`, the host's time, if it ran ahead; to the database server's time where several
    controllers have served the store. Raises StoreRefused, also CannotRewind."""
    parsed = parse_url(url)
    kind = kind_of(parsed)
    if not kind.exists(parsed):
        raise NoStore(store=shown(parsed))
    with ExitStack() as opened, refusing(parsed):
        engines = kind.serving(parsed, opened, statement_timeout_ms=0)
        try:
            with engines.writing.connect() as connection, transaction(connection):
                upgrade.check_ours(connection, shown(parsed))
                upgrade.check(connection)
                return rewind(connection, shown(parsed), now)
        except StoreCorrupt as error:
            raise StoreAway(store=shown(parsed), reason=f"{error}: run `strandline check`") from error
