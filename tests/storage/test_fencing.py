"""Of two owners only one can write: the one with the greater fence."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event, insert, make_url, select
from sqlalchemy.exc import IntegrityError

from controller.storage import schema
from controller.storage.database import Database, open_database
from controller.storage.rows import StreamOrigin
from controller.storage.save import Commit, write_commit
from controller.storage.terms import OwnershipLost, Term, TermCheck, TermOver, begin_term
from controller.streams.loaded_stream import LoadedStream
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from tests.storage.loads import load_stream
from tests.terms import FIRST, commit_of, tenure_of


def made(term: Term) -> LoadedStream:
    config = StreamConfig(mark_interval_ms=0, max_ahead_ms=None)
    return LoadedStream(
        Stream("s", config, SegmentGraph.equal_shares(1, 0), now=0),
        StreamOrigin("1", 0, None),
        tenure_of(term),
        stored_fence=None,
        watch=lambda _: None,
    )


def note(live: LoadedStream, time: int) -> None:
    live.stream.note(Note(writer="w", times={"": time}, position={"0": time}), time)


def ending(live: LoadedStream) -> LoadedStream:
    loop = asyncio.new_event_loop()
    live.ending = loop.create_future()
    loop.close()
    return live


def writing_of(live: LoadedStream, term: Term) -> Commit:
    pending = commit_of(term)
    live.write(pending)
    return pending


def loaded(database: Database, term: Term) -> LoadedStream:
    stored = load_stream(database.reader, "s")
    assert stored is not None
    return LoadedStream.loaded(stored, tenure_of(term), watch=lambda _: None)


def times(database: Database) -> list[int]:
    return [mark.time for chain in loaded(database, FIRST).chains.values() for mark in chain]


def test_an_earlier_terms_commit_fails_and_writes_nothing(store_url: str) -> None:
    with open_database(store_url) as database:
        early = begin_term(database.writer, "early", 0)
        ours = made(early)
        note(ours, 1)
        write_commit(database.writer, writing_of(ours, early))
        late = begin_term(database.writer, "late", 0)

        note(ours, 2)
        with pytest.raises(TermOver, match=f"its fence is {late.fence}, this controller's {early.fence}"):
            write_commit(database.writer, writing_of(ours, early))

        assert times(database) == [1]
        theirs = loaded(database, late)
        assert theirs.stream.writers["w"].key_states[""].time == 1
        note(theirs, 3)
        write_commit(database.writer, writing_of(theirs, late))
        assert times(database) == [1, 3]


def test_two_owners_never_both_append_a_mark(store_url: str) -> None:
    with open_database(store_url) as database:
        first = begin_term(database.writer, "first", 0)
        ours = made(first)
        note(ours, 1)
        write_commit(database.writer, writing_of(ours, first))
        term = begin_term(database.writer, "second", 0)
        one, other = (loaded(database, term) for _ in range(2))  # as two controllers that both believe it is theirs
        note(one, 2)
        note(other, 3)
        write_commit(database.writer, writing_of(one, term))

        with pytest.raises(OwnershipLost, match="'s'"):
            write_commit(database.writer, writing_of(other, term))  # what it wants to take is not there any more

        assert times(database) == [1, 2]


def test_a_mark_is_never_overwritten_even_by_its_owner(store_url: str) -> None:
    with open_database(store_url) as database:
        term = begin_term(database.writer, "one", 0)
        live = made(term)
        note(live, 1)
        write_commit(database.writer, writing_of(live, term))
        one, other = loaded(database, term), loaded(database, term)
        note(one, 2)
        note(other, 3)
        write_commit(database.writer, writing_of(one, term))

        with pytest.raises(IntegrityError):
            write_commit(database.writer, writing_of(other, term))

        assert times(database) == [1, 2]


def until_a_session_waits(postgres: Any, url: str, thread: threading.Thread) -> None:
    """Returns once a session of the database waits for a lock, or the thread that should has ended."""
    name = url.rpartition("/")[2]
    waits = f"SELECT 1 FROM pg_stat_activity WHERE datname = '{name}' AND wait_event_type = 'Lock'"
    deadline = time.monotonic() + 30
    while not postgres.execute(waits) and time.monotonic() < deadline and thread.is_alive():
        pass


def test_a_spell_begins_after_the_last_commit_of_the_one_before_it(postgres: Any, postgres_url: str) -> None:
    """Even if the lock of the one who serves failed us: here two write at once."""
    with open_database(postgres_url) as database:
        early = begin_term(database.writer, "early", 0)
        ours = made(early)
        note(ours, 1)
        engine = create_engine(make_url(postgres_url).set(drivername="postgresql+psycopg"))
        began: list[Term] = []

        def begin() -> None:
            with engine.connect() as connection:
                began.append(begin_term(connection, "late", 0))

        thread = threading.Thread(target=begin)

        def wait_until_the_late_one_waits() -> None:
            thread.start()
            until_a_session_waits(postgres, postgres_url, thread)
            assert began == []

        write_commit(database.writer, writing_of(ours, early), wait_until_the_late_one_waits)
        thread.join(30)

        (late,) = began
        assert late.fence == early.fence + 1 and times(database) == [1]
        note(ours, 2)
        with pytest.raises(TermOver):
            write_commit(database.writer, writing_of(ours, early))
        engine.dispose()


def test_a_commit_that_waits_for_a_new_term_to_begin_is_refused(postgres: Any, postgres_url: str) -> None:
    with open_database(postgres_url) as database:
        early = begin_term(database.writer, "early", 0)
        ours = made(early)
        note(ours, 1)
        write_commit(database.writer, writing_of(ours, early))
        note(ours, 2)
        engine = create_engine(make_url(postgres_url).set(drivername="postgresql+psycopg"))
        refused: list[BaseException] = []

        def commit() -> None:
            with pytest.raises(TermOver) as error:
                write_commit(database.writer, writing_of(ours, early))
            refused.append(error.value)

        thread = threading.Thread(target=commit)

        @event.listens_for(engine, "commit")
        def wait_until_the_early_one_waits(_: Any) -> None:
            thread.start()
            until_a_session_waits(postgres, postgres_url, thread)
            assert thread.is_alive() and not refused

        with engine.connect() as connection:
            begin_term(connection, "late", 0)
        thread.join(30)

        assert refused and times(database) == [1]
        engine.dispose()


def test_on_sqlite_nobody_commits_while_a_spell_begins(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(str(path)) as database, contextlib.closing(sqlite3.connect(path, timeout=0)) as other:
        begin_term(database.writer, "early", 0)
        refused: list[str] = []

        @event.listens_for(database.writer, "before_cursor_execute")
        def commit(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if "max(" in statement:  # the store was read before
                with pytest.raises(sqlite3.OperationalError, match="locked") as error:
                    other.execute("UPDATE served SET served_until = served_until + 1")
                refused.append(str(error.value))

        assert begin_term(database.writer, "late", 0).fence == 2
        assert refused


def test_an_earlier_terms_stream_is_deleted_only_by_its_owner(store_url: str) -> None:
    with open_database(store_url) as database:
        early = begin_term(database.writer, "early", 0)
        ours = made(early)
        write_commit(database.writer, writing_of(ours, early))
        late = begin_term(database.writer, "late", 0)
        one, other = loaded(database, late), loaded(database, late)
        note(one, 1)
        write_commit(database.writer, writing_of(one, late))
        with pytest.raises(OwnershipLost):
            write_commit(database.writer, writing_of(ending(other), late))
        later = begin_term(database.writer, "later", 0)
        write_commit(database.writer, writing_of(ending(loaded(database, later)), later))
        assert load_stream(database.reader, "s") is None


def test_a_term_begins_no_earlier_than_its_predecessors_times(store_url: str) -> None:
    with open_database(store_url) as database:
        assert begin_term(database.writer, "one", 1_000).started_at == 1_000
        assert begin_term(database.writer, "two", 5).started_at >= 1_000
        assert begin_term(database.writer, "three", 10_000).started_at == 10_000


def test_a_stream_is_restored_that_was_written_before_the_last_restore() -> None:
    restored = tenure_of(replace(FIRST, fence=5, restores=((2, 28), (4, 60))))
    assert [restored.restored_at(fence) for fence in (1, 2, 3, 4)] == [60, 60, 60, None]


def test_served_time_continues_from_the_previous_terms_last_commit(store_url: str) -> None:
    #   term          1 ─────────────── 300       1000 ────────────────── 1700       1000, its clock behind
    #   unserved      0   70 of them     70            770                 790            790
    with open_database(store_url) as database:
        first = begin_term(database.writer, "one", 1)
        write_commit(database.writer, Commit(TermCheck(first, served_until=300, clock_bound=900, unserved_ms=70)))
        second = begin_term(database.writer, "two", 1_000)
        write_commit(database.writer, commit_of(second, 1_700, 790))
        third = begin_term(database.writer, "three", 1_000)

    assert (first.unserved_ms, second.unserved_ms, third.unserved_ms) == (0, 770, 790)
    assert [second.started_at - second.unserved_ms, third.started_at - third.unserved_ms] == [300 - 70, 1_700 - 790]


def test_of_rows_with_the_same_key_the_last_counts(store_url: str) -> None:
    with open_database(store_url) as database:
        term = begin_term(database.writer, "one", 0)
        pending = commit_of(term)
        for owner in ("first", "last"):
            pending.put_row(schema.stream, row(owner))
        write_commit(database.writer, pending)

        with database.reader.begin():
            assert database.reader.execute(select(schema.stream.c.owner)).scalars().all() == ["last"]


def test_difficult_text_is_stored_as_it_is(store_url: str) -> None:
    hard = '%(x)s \':y \\u0041 \\ "é" 漢 {0} %%'
    with open_database(store_url) as database:
        term = begin_term(database.writer, "one", 0)
        pending = commit_of(term)
        pending.add_row(schema.stream, {**row("one"), "config": hard, "clock": 2**63 - 1, "epochs": -(2**63)})
        write_commit(database.writer, pending)

        with database.reader.begin():
            (stored,) = database.reader.execute(select(schema.stream)).all()
        assert (stored.config, stored.clock, stored.epochs) == (hard, 2**63 - 1, -(2**63))


def test_names_are_in_the_order_of_their_bytes(store_url: str) -> None:
    names = ["A", "Z", "_", "a", "a-b", "aB", "b", "é"]
    with open_database(store_url) as database:
        with database.writer.begin():
            for name in reversed(names):
                database.writer.execute(insert(schema.stream).values({**row("one"), "name": name}))
        with database.reader.begin():
            query = select(schema.stream.c.name).order_by(schema.stream.c.name)
            assert database.reader.execute(query).scalars().all() == names


def row(owner: str) -> dict[str, Any]:
    return {
        "name": "s",
        "open": True,
        "config": "{}",
        "original": "null",
        "sealed": False,
        "epochs": 0,
        "head": "{}",
        "remainders": "{}",
        "passed": "{}",
        "clock": 0,
        "created_at": 0,
        "identity": "1",
        "owner": owner,
        "fence": 1,
        "shard": None,
        "unserved_ms": None,
        "wake_at": None,
    }
