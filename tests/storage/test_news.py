"""What a cache lacks is found, or that it must be loaded again; and what became of a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import delete, update
from sqlalchemy.exc import DBAPIError

from controller.commit.writer_log import WriterLog
from controller.storage import schema
from controller.storage.database import Database, open_database
from controller.storage.diagnosis import is_locked
from controller.storage.heads import new_stamp, start_over
from controller.storage.news import FOLLOWED_COMMITS, Found, Known, lock_and_look, look, was_committed
from controller.storage.save import Commit, write_rows
from controller.storage.subjects import Kind, Subject
from controller.storage.transaction import transaction
from controller.storage.writer_states import StoredLog
from controller.streams.loaded_stream import LoadedStream
from tests.storage.filled import group, note, stream
from tests.storage.loads import loaded
from tests.storage.writes import write

S, T, G = Subject(Kind.STREAM, "s"), Subject(Kind.STREAM, "t"), Subject(Kind.GROUP, "g")


def looked(database: Database, known: dict[Subject, Known]) -> Found:
    """What is found: the same before the lock, after it, and in one round trip with it."""
    found = look(database.reader, known)
    for at_once in (False, True):
        with transaction(database.writer) as begun:
            locked = lock_and_look(database.writer, list(known), known, (), at_once=at_once)()
            begun.undo()
        assert locked.service is not None and replace(locked, service=None) == found
    return found


class Two:
    """A stream in a store, of which one controller writes, and another has a cache from before."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.writer = stream("s")
        self.writer.log = WriterLog("s", StoredLog(), states_per_writer=FOLLOWED_COMMITS)
        self.note(1)
        self.cache = self.loaded()

    def loaded(self) -> LoadedStream:
        return loaded(self.database.reader)

    def note(self, time: int, *writers: str) -> None:
        note(self.writer, time, *(writers or ("a",)))
        write(self.database, self.writer)

    def look(self) -> Found:
        return looked(self.database, {S: self.cache.known})

    def catch_up(self) -> None:
        self.cache.take_in(self.look(), 0.0)

    def is_outdated(self) -> bool:
        found = self.look()
        assert not found.streams
        self.cache.take_in(found, 0.0)
        assert self.cache.discarded == bool(found.outdated)
        return self.cache.discarded

    def execute(self, statement: object) -> None:
        with self.database.writer.begin():
            self.database.writer.execute(statement)  # type: ignore[call-overload]  # any of SQLAlchemy's


@pytest.fixture
def two(both_stores: str) -> Iterator[Two]:
    with open_database(both_stores) as database:
        yield Two(database)


@pytest.mark.parametrize("commits", [1, 7, FOLLOWED_COMMITS])
def test_a_cache_that_is_behind_becomes_what_a_load_finds(two: Two, commits: int) -> None:
    for time in range(2, 2 + commits):
        two.note(time, "a", f"w{time % 3}")
    two.catch_up()
    loaded = two.loaded()
    assert two.cache.head == loaded.head and two.cache.stream.last_marks == loaded.stream.last_marks
    assert {name: each.position for name, each in two.cache.stream.writers.items()} == {
        name: each.position for name, each in loaded.stream.writers.items()
    }
    assert two.cache.chains[""].last_seq == loaded.chains[""].last_seq and not two.cache.discarded


def test_a_cache_that_is_equal_lacks_nothing(two: Two) -> None:
    found = two.look()
    assert not (found.streams or found.groups or found.outdated)
    assert not two.is_outdated()


def too_far_behind(two: Two) -> None:
    for time in range(2, 3 + FOLLOWED_COMMITS):
        two.note(time)


def a_change_of_structure(two: Two) -> None:
    two.writer.stream.configure({"min_writers": 2}, 1)
    write(two.database, two.writer)


def another_history(two: Two) -> None:
    """A fail-over lost the commit that it has, and another controller took its number."""
    two.execute(update(schema.writer_change).where(schema.writer_change.c.seq == 1).values(stamp=new_stamp()))
    two.note(2)


def ahead_of_the_store(two: Two) -> None:
    head = two.cache.head
    two.note(2)
    two.cache = two.loaded()
    two.execute(update(schema.head).values(**head._asdict()))


def a_log_that_does_not_reach_back_to_it(two: Two) -> None:
    two.note(2)
    two.note(3)
    two.execute(delete(schema.writer_change).where(schema.writer_change.c.seq == 1))


def a_restore(two: Two) -> None:
    with transaction(two.database.writer):
        start_over(two.database.writer, 5)


def a_deletion(two: Two) -> None:
    commit = Commit(new_stamp())
    commit.delete(Kind.STREAM, "s", 5)
    with transaction(two.database.writer):
        write_rows(two.database.writer, commit)


def a_stream_that_was_made_again(two: Two) -> None:
    a_deletion(two)
    two.writer = stream("s")
    two.writer.head = two.writer.head._replace(identity="another")
    two.note(1)
    two.note(2)


OUTDATING: tuple[Callable[[Two], None], ...] = (
    too_far_behind, a_change_of_structure, another_history, ahead_of_the_store, a_log_that_does_not_reach_back_to_it,
    a_restore, a_deletion, a_stream_that_was_made_again,
)  # fmt: skip


@pytest.mark.parametrize("what", OUTDATING)
def test_a_cache_is_outdated_by_what_it_cannot_follow(two: Two, what: Callable[[Two], None]) -> None:
    what(two)
    assert two.is_outdated()


def test_a_cache_of_a_group_takes_in_its_rows(both_stores: str) -> None:
    with open_database(both_stores) as database:
        live, namesake = group("g"), stream("g")
        write(database, namesake)
        note(namesake, 1, "a")
        write(database, live, namesake)
        known = {Subject(Kind.STREAM, "g"): namesake.known, G: live.known}
        assert not looked(database, known).groups
        note(namesake, 2, "a")
        write(database, live, namesake)
        found = looked(database, known)
        assert found.groups["g"].head == live.head and found.streams["g"].head == namesake.head and not found.outdated


def test_a_cache_whose_rows_cannot_be_read_is_outdated_and_others_follow(both_stores: str) -> None:
    with open_database(both_stores) as database:
        streams, live = [stream("s"), stream("t")], group("g")
        write(database, *streams, live)
        known = {S: streams[0].known, T: streams[1].known, G: live.known}
        for each in streams:
            note(each, 1, "a")
        write(database, *streams, live)
        change = schema.writer_change.c
        with database.writer.begin():
            database.writer.execute(update(schema.writer_change).where(change.stream == "s").values(writers="{"))
            database.writer.execute(update(schema.reader_group).values(settings="{"))
        found = looked(database, known)
        assert (found.outdated, set(found.streams)) == ({S, G}, {"t"})


def test_who_creates_waits_for_whoever_creates_the_same(postgres_url: str) -> None:
    with open_database(postgres_url) as one, open_database(postgres_url) as other, transaction(one.writer):
        lock_and_look(one.writer, [S], {}, [S])
        with pytest.raises(DBAPIError) as waited, transaction(other.writer):
            lock_and_look(other.writer, [S], {}, [S])
        assert is_locked(waited.value)


# -- what became of a commit -------------------------------------------------------------------------------------------


def outcome(database: Database, versions: dict[Subject, int], stamp: int) -> bool | None:
    with transaction(database.writer):
        return was_committed(database.writer, versions, stamp)


def test_a_commit_is_found_by_its_stamp_under_later_ones_and_one_that_was_undone_is_not(two: Two) -> None:
    first, lost = two.writer.head, new_stamp()
    for later in range(3):
        assert outcome(two.database, {S: first.version}, first.stamp) is True
        assert outcome(two.database, {S: first.version + 1}, lost) is False  # later another one took its version
        two.note(2 + later)
    assert outcome(two.database, {T: 1}, new_stamp()) is None  # of what does not exist any more it cannot be told


def test_a_commit_of_a_group_is_found_until_a_later_one(both_stores: str) -> None:
    with open_database(both_stores) as database:
        live = group("g")
        write(database, live)
        first = live.head
        assert outcome(database, {G: first.version}, first.stamp) is True
        assert outcome(database, {G: first.version + 1}, new_stamp()) is False
        write(database, live)
        assert outcome(database, {G: first.version}, first.stamp) is None


def test_of_a_group_and_a_stream_the_stream_shows_what_became_of_a_commit(both_stores: str) -> None:
    with open_database(both_stores) as database:
        of_group, of_stream = group("g"), stream("s")
        write(database, of_group, of_stream)
        versions, stamp = {G: of_group.head.version, S: of_stream.head.version}, of_stream.head.stamp
        write(database, of_group)
        note(of_stream, 1, "a")
        write(database, of_stream)
        assert outcome(database, versions, stamp) is True


def test_whom_marks_leave_out_can_be_read_after_two_controllers_made_them_and_the_oldest_are_gone(two: Two) -> None:
    ours, others = two.writer, two.cache
    two.note(2, "a", "b")
    ours.stream.exclude("a", 3)
    two.note(3, "b")  # this mark leaves out a, and the store has so for those that follow
    two.catch_up()
    others.stream.include("a", 4)
    note(others, 5, "a", "b")  # complete
    write(two.database, others)
    others.stream.exclude("a", 6)
    note(others, 6, "b")
    write(two.database, others)
    ours.take_in(looked(two.database, {S: ours.known}), 0.0)
    two.note(7, "b")
    newest = ours.chains[""].last_seq
    ours.prune("", newest - 1)
    write(two.database, ours)
    found = looked(two.database, {S: others.known})
    assert found.streams["s"].since.first_seqs == {"": newest - 1}
    assert two.loaded().chains[""][newest].excluded == ("a",)
