"""On PostgreSQL others wait for two round trips: a lock with what caches lack, and rows with their COMMIT. What is told
of such a commit is true, wherever it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

import psycopg
import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import DBAPIError, OperationalError

from controller.commit.store import Store
from controller.storage import schema
from controller.storage.database import Database, open_database
from controller.storage.diagnosis import StoreTrouble
from controller.storage.heads import lock, new_stamp
from controller.storage.kinds import kind_of
from controller.storage.news import Found, lock_and_look, look, was_committed
from controller.storage.save import Commit, write_rows
from controller.storage.subjects import Kind, Subject
from controller.storage.transaction import CommitUnknown, Transaction, transaction
from controller.streams.loaded_stream import LoadedStream
from tests.postgres import Fault, Postgres, Wire
from tests.storage.filled import note, stream
from tests.storage.writes import write

S, T = Subject(Kind.STREAM, "s"), Subject(Kind.STREAM, "t")
ROWS = "SELECT count(*) FROM writer_change"
END = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() "


class Committing:
    """A stream, and a commit of it over a way that can fail."""

    def __init__(self, postgres: Postgres, url: str, wire: Wire, database: Database) -> None:
        self.postgres, self.url, self.wire, self.database = postgres, url, wire, database
        self.live: LoadedStream = stream("s")
        write(database, self.live)
        self.before = self.live.known
        note(self.live, 1, "a")
        write(database, self.live)

    def begin(self) -> tuple[Transaction, Commit]:
        begun, commit = Transaction(self.database.writer), Commit(new_stamp())
        found = lock_and_look(self.database.writer, [S], {S: self.before}, (), at_once=True)()
        assert [each.seq for each in found.streams["s"].changes] == [2]
        note(self.live, 2, "a")
        self.live.write(commit)
        commit.logged = [{"stream": "s", "seq": 2}]
        return begun, commit

    def rows(self, *commit: Commit) -> None:
        write_rows(self.database.writer, *commit)

    def outcome(self, commit: Commit) -> bool | None:
        """What the stamp shows, over a session that is made anew if need be."""
        with transaction(self.database.writer):
            return was_committed(self.database.writer, commit.versions, commit.stamp)

    def end_sessions(self) -> None:
        self.postgres.execute(f"{END} AND application_name = 'strandline'", self.url)


@pytest.fixture
def committing(postgres: Postgres, postgres_url: str) -> Iterator[Committing]:
    wire = Wire(postgres.port)
    with open_database(wire.url(postgres_url)) as database:
        yield Committing(postgres, postgres_url, wire, database)
    wire.close()


def test_others_wait_for_two_round_trips(committing: Committing) -> None:
    before = committing.wire.round_trips
    begun, commit = committing.begin()
    begun.commit(partial(committing.rows, commit))
    assert committing.wire.round_trips - before == 3  # the first one is BEGIN, which locks nothing
    assert committing.outcome(commit) is True


def test_what_reads_before_it_writes_is_not_sent_with_its_commit(postgres_url: str) -> None:
    """SQLAlchemy finds no rows within a pipeline."""
    deletion, drop = Commit(new_stamp()), Commit(new_stamp())
    deletion.delete(Kind.STREAM, "s", 5)
    drop.dropped.append(("t", "0"))

    def committed(commit: Commit, _: Found) -> Commit:
        return commit

    async def write_both(store: Store) -> None:
        for commit in (deletion, drop):
            await store.transact([S, T], {}, [], partial(committed, commit))
        await store.close(1)

    with open_database(postgres_url) as database:
        streams = [stream("s"), stream("t")]
        for each in streams:
            note(each, 1, "a")
        write(database, *streams)
        with database.writer.begin():
            database.writer.execute(update(schema.stream).values(epochs=9))
        asyncio.run(write_both(Store(database)))
    with open_database(postgres_url) as database, database.reader.begin():
        assert database.reader.scalar(select(schema.deleted.c.epochs)) == 9
        assert set(database.reader.scalars(select(schema.mark.c.cut))) == {"{}"}


@pytest.mark.parametrize(("fault", "done"), [(Fault.LOSE, False), (Fault.ANSWER_LOST, True)])
def test_a_connection_that_is_lost_with_the_commit_leaves_open_what_its_stamp_shows(
    committing: Committing, fault: Fault, done: bool
) -> None:
    begun, commit = committing.begin()
    committing.wire.fault = fault
    with pytest.raises(CommitUnknown):
        begun.commit(partial(committing.rows, commit))
    assert committing.outcome(commit) is done


def test_a_session_that_ended_before_the_rows_were_sent_leaves_open_what_its_stamp_shows(
    committing: Committing,
) -> None:
    begun, commit = committing.begin()
    committing.end_sessions()
    with pytest.raises((CommitUnknown, DBAPIError)):  # the driver may see it as soon as it sends anything
        begun.commit(partial(committing.rows, commit))
    assert committing.outcome(commit) is False


def test_a_session_that_ends_between_rows_and_commit_has_changed_nothing(committing: Committing) -> None:
    begun, commit = committing.begin()

    def write_and_end() -> None:
        committing.rows(commit)
        committing.end_sessions()

    with pytest.raises((CommitUnknown, DBAPIError)):
        begun.commit(write_and_end)
    assert committing.outcome(commit) is False


def test_what_fails_before_its_commit_is_sent_has_changed_nothing_for_certain(committing: Committing) -> None:
    begun, commit = committing.begin()

    def write_and_fail() -> NoReturn:
        committing.rows(commit)
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        begun.commit(write_and_fail)
    assert committing.outcome(commit) is False

    begun, commit = committing.begin()

    def write_and_be_refused() -> None:
        committing.rows(commit)
        committing.database.writer.execute(text("SELECT CAST(:text AS text)"), {"text": "\0"})

    with pytest.raises(DBAPIError, match="NUL"):  # by the driver
        begun.commit(write_and_be_refused)
    assert committing.outcome(commit) is False


def test_a_pipeline_over_a_session_that_ended_says_why_and_the_next_one_has_a_new_session(
    committing: Committing,
) -> None:
    reader = committing.database.reader
    committing.end_sessions()
    with pytest.raises(DBAPIError, match=r"server closed|terminating") as failed, reader.begin():
        kind_of(reader).select_all(reader, [(select(schema.service), {})])
    assert failed.value.connection_invalidated
    assert look(committing.database.reader, {S: committing.before}).streams


def free(database: Database) -> bool:
    """Whether nobody has locked the heads."""
    with transaction(database.writer):
        return bool(database.writer.execute(text("SELECT name FROM head FOR UPDATE SKIP LOCKED")).all())


def test_a_session_that_stops_within_a_pipeline_is_ended_by_who_waits_for_its_locks(postgres_url: str) -> None:
    #   one     locks, and its process stops before it has asked for the answers
    #   other      waits a second ──► ends the session of one ──► locks
    with open_database(postgres_url) as one, open_database(postgres_url) as other:
        write(one, stream("s"))
        driver: Any = one.writer.connection.driver_connection
        with pytest.raises(psycopg.OperationalError), driver.pipeline():
            driver.execute("SELECT FROM head FOR UPDATE")
            while free(other):
                pass  # the statement is on its way
            with pytest.raises(OperationalError, match="lock timeout"), transaction(other.writer):
                lock(other.writer, [S])
            with transaction(other.writer):
                kind_of(other.writer).end_stopped(other.writer)
            with transaction(other.writer):
                assert lock(other.writer, [S])[0]


def spoil_a_row(committing: Committing, commit: Commit) -> Callable[[], None]:
    commit.added[schema.writer_change] *= 2  # the same key twice
    return partial(committing.rows, commit)


def spoil_a_trim(committing: Committing, commit: Commit) -> Callable[[], None]:
    commit.logged[0]["seq"] = 2**80
    return partial(committing.rows, commit)


def spoil_the_commit(committing: Committing, commit: Commit) -> Callable[[], None]:
    """What is checked at its end refuses it."""

    def write() -> None:
        committing.rows(commit)
        committing.database.writer.execute(text("INSERT INTO late VALUES (1), (1)"))

    unique = "CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)"
    committing.postgres.execute(unique, committing.url)
    return write


@pytest.mark.parametrize("spoil", [spoil_a_row, spoil_a_trim, spoil_the_commit])
def test_a_statement_that_the_server_refuses_undoes_all_for_certain_and_the_next_commit_goes(
    committing: Committing, spoil: Callable[[Committing, Commit], Callable[[], None]]
) -> None:
    count = select(func.count()).select_from(schema.writer_change)
    begun, commit = committing.begin()
    with pytest.raises(DBAPIError) as refused:
        begun.commit(spoil(committing, commit))
    assert not isinstance(refused.value, StoreTrouble)
    assert committing.outcome(commit) is False
    with transaction(committing.database.writer) as begun:
        assert committing.database.writer.scalar(count) == 2  # the trim was undone too
