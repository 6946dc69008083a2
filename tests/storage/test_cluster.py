"""The SQL of many controllers on one store: each rule that lies in it, between real sessions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from typing import Any, Generic, TypeVar

import pytest
from sqlalchemy import Connection, column, insert, select, table, update
from sqlalchemy.exc import DBAPIError

from controller.cluster.records import (
    LEASE_MS,
    SHARDS,
    Adopt,
    Beat,
    BeatAnswer,
    Begin,
    Check,
    End,
    Identity,
    Leave,
    NameTaken,
    Release,
    ShardRow,
    Take,
    Taken,
)
from controller.storage import cluster, schema
from controller.storage.cluster import BeginAnswer, ControllerEnded, ShardCheck, ShardsLost
from controller.storage.database import open_database
from controller.storage.kinds import parse_url
from controller.storage.postgresql import IDLE_COMMIT_MS, Timeline, joint_engine, writing_engine
from controller.storage.refusals import AlreadyServed, ServedTogether
from controller.storage.save import Commit, write_commit
from controller.storage.shards import shard_of
from controller.storage.tenure import Tenure
from controller.storage.terms import TermCheck, TermOver, begin_term
from controller.storage.transaction import transaction
from strandline.core.served_time import Unserved
from tests.postgres import Postgres

pytestmark = pytest.mark.full

Result = TypeVar("Result")
PATIENCE_S = 30


class Calling(Generic[Result]):
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call
        self._result: list[Result] = []
        self._error: list[Exception] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except Exception as error:
            self._error.append(error)

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> Result:
        self._thread.join(PATIENCE_S)
        if self._error:
            raise self._error[0]
        return self._result[0]


def is_live(told: BeatAnswer, controller: int) -> bool:
    row = told.row_of(controller)
    return row is not None and row.ended_at is None


class Node:
    """A controller: its row, a session for commits, and one for everything else."""

    def __init__(self, cluster_: Cluster, name: str, address: str = "", idle_ms: int = 60_000) -> None:
        """`idle_ms`: longer than a busy machine may take, unless a test is about it."""
        self._cluster = cluster_
        self.commits = cluster_.connect(idle_ms)
        self.beats = cluster_.connect()
        self.identity = Identity(name, address or f"{name}:1", None, "1")
        self.id = 0

    def begin(self, previous: int | None = None, clock_shown: int = 0) -> BeginAnswer | NameTaken:
        self.id = next(self._cluster.ids)
        return cluster.begin(self.beats, Begin(self.id, self.identity, previous, previous is None, clock_shown))

    def begun(self, previous: int | None = None, clock_shown: int = 0) -> BeginAnswer:
        found = self.begin(previous, clock_shown)
        assert isinstance(found, BeginAnswer)
        return found

    def beat(self, served_until: int = 0, known: int | None = None, draining: bool = False) -> BeatAnswer:
        return cluster.beat(self.beats, Beat(self.id, served_until, draining, known))

    def take(self, *shards: int, now: int = 0) -> Taken:
        return cluster.take(self.beats, Take(self.id, shards, now))

    def end(self, other: Node, beat: int | None = None) -> bool:
        if beat is None:
            row = self.beat().row_of(other.id)
            assert row is not None
            beat = row.beat
        return cluster.end(self.beats, End(other.id, beat))

    def adopt(self) -> Taken:
        return cluster.adopt(self.commits, Adopt(self.id))

    @contextmanager
    def commit(self, *shards: ShardRow, release: Release | None = None) -> Iterator[None]:
        """A commit that writes these shards. The body runs between its check and its rows."""
        with transaction(self.commits):
            cluster.check_commit(self.commits, Check(self.id, tuple((each.id, each.fence) for each in shards)))
            yield
            for each in shards:
                self.commits.execute(WROTE, {"shard": each.id, "fence": each.fence})
            if release is not None:
                cluster.put_release(self.commits, self.id, release)


WROTE = insert(table("wrote", column("shard"), column("fence")))


class Cluster:
    """A store, and controllers that share it."""

    def __init__(self, url: str, opened: ExitStack, postgres: Postgres) -> None:
        self.url = url
        self.ids = count(1)
        self._opened = opened
        self._postgres = postgres
        open_database(url).close()
        self.execute("CREATE TABLE wrote (shard int, fence int)")

    def connect(self, idle_ms: int = 60_000) -> Connection:
        engine = joint_engine(parse_url(self.url), Timeline(), leading=True, idle_ms=idle_ms)
        self._opened.callback(engine.dispose)
        return self._opened.enter_context(engine.connect())

    def node(self, name: str, address: str = "", idle_ms: int = 60_000) -> Node:
        made = Node(self, name, address, idle_ms)
        made.begun()
        return made

    def execute(self, sql: str) -> list[Any]:
        return self._postgres.execute(sql, self.url)

    def wrote(self) -> list[tuple[int, int]]:
        return self.execute("SELECT shard, fence FROM wrote ORDER BY 1, 2")

    def shard(self, number: int) -> Any:
        with self.connect() as connection:
            return connection.execute(select(schema.shard).where(schema.shard.c.id == number)).one()

    def until_waiting(self, calling: Calling[Any]) -> None:
        """Returns when a session waits for a lock."""
        waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        deadline = time.monotonic() + PATIENCE_S
        while not self.execute(waits):
            assert not calling.ended, f"it did not wait: {calling.result()}"
            assert time.monotonic() < deadline


@pytest.fixture
def store(postgres: Postgres, postgres_url: str) -> Iterator[Cluster]:
    with ExitStack() as opened:
        yield Cluster(postgres_url, opened, postgres)


# -- commits and ends ------------------------------------------------------------------------------------------------


def test_a_commit_writes_what_its_controller_owns(store: Cluster) -> None:
    one = store.node("one")
    (shard,) = one.take(7).shards
    with one.commit(shard):
        pass
    assert store.wrote() == [(7, 1)]


def test_a_commit_of_a_controller_that_was_ended_is_refused(store: Cluster) -> None:  # commit_checks
    one, two = store.node("one"), store.node("two")
    (shard,) = one.take(7).shards
    assert two.end(one)
    with pytest.raises(ControllerEnded), one.commit(shard):
        pass
    assert store.wrote() == []


@pytest.mark.parametrize("fence", [0, 2])
def test_a_commit_with_another_fence_is_refused(store: Cluster, fence: int) -> None:  # commit_checks
    one = store.node("one")
    shards = one.take(7, 8).shards
    other = ShardRow(7, one.id, fence, 0, 0, 0)
    with pytest.raises(ShardsLost, match="no longer owns the shards 7"), one.commit(other, shards[1]):
        pass
    assert store.wrote() == []


def test_a_commit_to_the_shard_of_another_controller_is_refused(store: Cluster) -> None:  # commit_checks
    one, two = store.node("one"), store.node("two")
    (shard,) = one.take(7).shards
    with pytest.raises(ShardsLost), two.commit(shard):
        pass


def test_an_end_waits_for_the_commit_under_way(store: Cluster) -> None:  # row_lock
    one, two, three = (store.node(name) for name in ("one", "two", "three"))
    (shard,) = one.take(7).shards
    with one.commit(shard):
        ending = Calling(lambda: two.end(one))
        store.until_waiting(ending)
        assert three.take(7).shards == ()
    assert ending.result()
    assert store.wrote() == [(7, 1)]
    assert [each.fence for each in three.take(7).shards] == [2]


def test_an_update_alone_would_not_wait_for_a_commit(store: Cluster) -> None:  # row_lock
    """Why an end locks the row FOR UPDATE first."""
    one, two = store.node("one"), store.node("two")
    (shard,) = one.take(7).shards
    with one.commit(shard):
        with two.beats.begin():
            ended = update(schema.controller).where(schema.controller.c.id == one.id).values(ended_at=1)
            assert two.beats.execute(ended).rowcount == 1
        assert [each.fence for each in two.take(7).shards] == [2]
    assert store.wrote() == [(7, 1)]  # after the next owner could have written


def test_a_commit_waits_for_an_end_and_is_then_refused(store: Cluster) -> None:  # row_lock
    one, two = store.node("one"), store.node("two")
    (shard,) = one.take(7).shards

    def commit() -> None:
        with one.commit(shard):
            pass

    ending = two.beats.begin()
    two.beats.execute(cluster._LOCK, {"me": one.id})
    committing = Calling(commit)
    store.until_waiting(committing)
    two.beats.execute(cluster._END, {"me": one.id, "at_beat": 1})
    ending.commit()
    with pytest.raises(ControllerEnded):
        committing.result()
    assert store.wrote() == []


def test_a_session_that_stops_within_a_commit_is_ended(store: Cluster) -> None:  # idle_ends
    one, two = store.node("one", idle_ms=IDLE_COMMIT_MS), store.node("two")
    (shard,) = one.take(7).shards
    stopped = one.commit(shard)
    stopped.__enter__()

    assert two.end(one)  # waits until the server ends the session

    with pytest.raises(DBAPIError, match=r"idle-in-transaction timeout|connection"):
        stopped.__exit__(None, None, None)
    assert store.wrote() == []
    assert [each.fence for each in two.take(7).shards] == [2]


def test_a_session_between_commits_may_be_idle_for_long(store: Cluster) -> None:
    one = store.node("one", idle_ms=IDLE_COMMIT_MS)
    (shard,) = one.take(7).shards
    store.execute(f"SELECT pg_sleep({1.5 * IDLE_COMMIT_MS / 1000})")
    with one.commit(shard):
        pass
    assert store.wrote() == [(7, 1)]


def test_beats_pass_beside_a_commit(store: Cluster) -> None:
    one = store.node("one")
    (shard,) = one.take(7).shards
    with one.commit(shard):
        rows = [one.beat().row_of(one.id) for _ in range(2)]
        assert [row.beat for row in rows if row is not None] == [2, 3]
    assert store.wrote() == [(7, 1)]


def test_a_long_commit_goes_on_beside_beats_and_holds_an_end_up(store: Cluster) -> None:
    one, two = store.node("one"), store.node("two")
    (shard,) = one.take(7).shards
    with one.commit(shard):
        ending = Calling(lambda: two.end(one))
        store.until_waiting(ending)
        sleeping = Calling(lambda: one.commits.exec_driver_sql("SELECT pg_sleep(1.5)"))
        while not sleeping.ended:
            assert is_live(one.beat(), one.id)
            assert not ending.ended
    assert not ending.result()  # its beat has moved
    assert store.wrote() == [(7, 1)]


def test_an_end_that_names_an_earlier_beat_does_nothing(store: Cluster) -> None:  # same_beat
    one, two = store.node("one"), store.node("two")
    one.beat()
    assert not two.end(one, beat=1)
    assert is_live(one.beat(), one.id)
    assert two.end(one)
    assert two.end(one, beat=1)  # it had ended before


def test_an_end_that_waited_for_a_beat_does_nothing(store: Cluster) -> None:  # same_beat
    one, two = store.node("one"), store.node("two")
    beating = one.beats.begin()
    one.beats.execute(cluster._EXTEND, {"me": one.id, "until": 0, "drains": False})
    ending = Calling(lambda: two.end(one, beat=1))
    store.until_waiting(ending)
    beating.commit()
    assert not ending.result()
    assert is_live(one.beat(), one.id)


# -- beats -----------------------------------------------------------------------------------------------------------


def test_a_beat_tells_who_lives_and_whose_the_shards_are(store: Cluster) -> None:
    one, two = store.node("one"), store.node("two")
    one.take(0, 1)
    two.take(1, 2)
    told = one.beat()
    assert [row.name for row in told.controllers] == ["one", "two"]
    assert told.shards is not None and len(told.shards) == SHARDS
    assert [each.owner for each in told.shards[:4]] == [one.id, one.id, two.id, None]


def test_a_beat_tells_of_shards_only_when_some_have_moved(store: Cluster) -> None:
    one, two = store.node("one"), store.node("two")
    version = one.beat().cluster_version
    assert one.beat(known=version).shards is None
    assert two.take(3).shards
    moved = one.beat(known=version)
    assert moved.shards is not None and moved.shards[3].owner == two.id
    assert two.take(3).shards == ()
    assert one.beat(known=moved.cluster_version).shards is None


def test_a_beat_of_a_controller_that_was_ended_changes_nothing(store: Cluster) -> None:
    one, two = store.node("one"), store.node("two")
    assert two.end(one)
    told = one.beat(served_until=2**60)
    row = told.row_of(one.id)
    assert row is not None and row.ended_at is not None
    assert (row.beat, is_live(told, one.id)) == (1, False) and row.served_until < 2**60


def test_a_bound_is_a_lease_ahead_and_never_goes_back(store: Cluster) -> None:
    one = store.node("one")
    told = one.beat(served_until=5)
    row = told.row_of(one.id)
    assert row is not None and 0 <= row.clock_bound - LEASE_MS <= told.store_now
    assert row.served_until > 5  # it was served since it began
    store.execute("UPDATE controller SET clock_bound = clock_bound + 20000")  # as after a step back of the clock
    after = one.beat().row_of(one.id)
    assert after is not None and after.clock_bound == row.clock_bound + 20_000


def test_a_controller_that_drains_says_so(store: Cluster) -> None:
    one, two = store.node("one"), store.node("two")
    one.beat(draining=True)
    assert [row.draining for row in two.beat().controllers] == [True, False]


# -- taking ----------------------------------------------------------------------------------------------------------


def test_only_free_shards_are_taken(store: Cluster) -> None:
    one, two = store.node("one"), store.node("two")
    assert [(each.id, each.fence) for each in one.take(1, 2).shards] == [(1, 1), (2, 1)]
    assert [each.id for each in two.take(2, 3).shards] == [3]
    assert two.end(one)
    assert [(each.id, each.fence, each.owner) for each in two.take(1, 2, 3).shards] == [(1, 2, two.id), (2, 2, two.id)]


def test_a_controller_that_was_ended_takes_nothing(store: Cluster) -> None:
    one, two = store.node("one"), store.node("two")
    assert two.end(one)
    assert one.take(1).shards == ()


def test_of_two_that_take_a_shard_at_once_one_gets_it(store: Cluster) -> None:
    nodes = [store.node(name) for name in ("one", "two", "three")]
    takings = [Calling(partial(node.take, *range(SHARDS))) for node in nodes]
    taken = [each for taking in takings for each in taking.result().shards]
    assert sorted(each.id for each in taken) == list(range(SHARDS))
    assert {each.fence for each in taken} == {1}


def test_takes_and_releases_of_many_at_once_never_deadlock(store: Cluster) -> None:
    nodes = [store.node(name) for name in ("one", "two")]

    def run(node: Node) -> int:
        moved = 0
        for _ in range(20):
            shards = node.take(*range(20)).shards
            with node.commit(*shards, release=Release(tuple(each.id for each in shards)[::-1], 0, 0)):
                moved += len(shards)
        return moved

    runs = [Calling(partial(run, node)) for node in nodes]
    moved = sum(each.result() for each in runs)
    assert sum(store.shard(number).fence for number in range(20)) == moved == len(store.wrote())


def test_who_takes_a_shard_begins_at_the_bound_of_who_had_it(store: Cluster) -> None:  # clock_floor
    one, two = store.node("one"), store.node("two")
    one.take(7)
    store.execute(f"UPDATE controller SET clock_bound = clock_bound + 60000 WHERE id = {one.id}")
    row = two.beat().row_of(one.id)
    assert row is not None and two.end(one)
    (shard,) = two.take(7).shards
    assert shard.clock_floor == row.clock_bound


def test_who_takes_a_shard_begins_no_earlier_than_its_floor(store: Cluster) -> None:  # clock_floor
    one, two = store.node("one"), store.node("two")
    (shard,) = one.take(7).shards
    later = shard.clock_floor + 60_000
    with one.commit(shard, release=Release((7,), shard.served_until, later)):
        pass
    assert [each.clock_floor for each in two.take(7).shards] == [later]


def test_who_takes_a_shard_begins_no_earlier_than_the_stores_clock(store: Cluster) -> None:
    one = store.node("one")
    before = one.beat().store_now
    taken = one.take(7)
    assert before <= taken.shards[0].clock_floor <= taken.store_now


def test_who_takes_a_shard_begins_no_earlier_than_its_own_clock(store: Cluster) -> None:  # clock_floor
    """The store's clock may have been set back, while controllers go on by what they heard before."""
    one, two = store.node("one"), store.node("two")
    (first,) = one.take(7).shards
    row = two.beat().row_of(one.id)
    assert row is not None and two.end(one)
    own = row.clock_bound + 5_000
    (second,) = two.take(7, now=own).shards
    assert second.clock_floor == own
    assert second.unserved_ms == own - max(row.served_until, first.served_until)


def test_the_time_in_which_nobody_served_is_added(store: Cluster) -> None:  # add_gap
    #   served by      one ─────── 10 s ago       two
    #   unserved                          10 s ──►
    one, two = store.node("one"), store.node("two")
    (first,) = one.take(7).shards
    assert first.unserved_ms == 0  # nobody ever had it
    store.execute("UPDATE shard SET served_until = served_until - 20000, clock_floor = 0 WHERE id = 7")
    store.execute(f"UPDATE controller SET served_until = served_until - 10000, clock_bound = 0 WHERE id = {one.id}")
    row = two.beat().row_of(one.id)
    assert row is not None and two.end(one)
    (second,) = two.take(7).shards
    assert second.unserved_ms == second.clock_floor - row.served_until >= 10_000
    assert second.served_until == second.clock_floor


def test_no_time_is_added_twice(store: Cluster) -> None:  # add_gap
    """A controller that ends before its next beat has served since it took the shard."""
    one, two, three = store.node("one"), store.node("two"), store.node("three")
    one.take(7)
    assert three.end(one)
    (second,) = two.take(7).shards
    store.execute(f"UPDATE controller SET served_until = 0 WHERE id = {two.id}")
    assert three.end(two)
    (third,) = three.take(7).shards
    assert third.unserved_ms - second.unserved_ms == third.clock_floor - second.served_until


def test_time_since_a_release_is_added(store: Cluster) -> None:  # add_gap
    one, two = store.node("one"), store.node("two")
    (first,) = one.take(7).shards
    until = first.served_until + 5
    with one.commit(first, release=Release((7,), until, 0)):
        pass
    assert store.shard(7).owner is None
    (second,) = two.take(7).shards
    assert (second.fence, second.unserved_ms) == (2, max(0, second.clock_floor - until))


def test_what_a_commit_says_of_unserved_time_is_not_added_again(store: Cluster) -> None:  # failing_is_silence
    #   one serves ──── until        says 9 s were unserved        two
    #   unserved          └──────────────── 9 s ┤            │ added
    one, two = store.node("one"), store.node("two")
    (first,) = one.take(7).shards
    until = first.served_until + 9_000
    commit = Commit(ShardCheck(Check(one.id, ()), None, {7: 9_000}, until))
    write_commit(one.commits, commit)
    assert two.end(one)
    (second,) = two.take(7).shards
    assert second.unserved_ms == 9_000 + max(0, second.clock_floor - until)


def test_a_release_counts_only_if_its_commit_does(store: Cluster) -> None:
    one = store.node("one")
    (shard,) = one.take(7).shards
    version = one.beat().cluster_version
    with pytest.raises(ZeroDivisionError), one.commit(shard, release=Release((7,), 0, 0)):
        raise ZeroDivisionError
    assert (store.shard(7).owner, one.beat().cluster_version) == (one.id, version)
    with one.commit(shard, release=Release((7,), 0, 0)):
        pass
    assert (store.shard(7).owner, one.beat().cluster_version) == (None, version + 1)


# -- beginning -------------------------------------------------------------------------------------------------------


def test_a_start_ends_one_of_its_name_and_takes_its_shards(store: Cluster) -> None:
    one, other = store.node("one"), store.node("other")
    one.take(1, 2)
    other.take(3)
    again = Node(store, "one")
    begun = again.begun()
    assert begun.ended == (one.id,)
    assert begun.answer.shards is not None
    mine = [(each.id, each.fence) for each in begun.answer.shards if each.owner == again.id]
    assert mine == [(1, 2), (2, 2)]
    assert not is_live(one.beat(), one.id)


def test_an_end_by_name_waits_for_the_commit_under_way(store: Cluster) -> None:  # row_lock
    one, again = store.node("one"), Node(store, "one")
    (shard,) = one.take(7).shards
    with one.commit(shard):
        beginning = Calling(again.begun)
        store.until_waiting(beginning)
    assert beginning.result().ended == (one.id,)
    assert store.wrote() == [(7, 1)]


def test_of_two_that_start_with_one_name_at_once_one_lives(store: Cluster) -> None:
    nodes = [Node(store, "one") for _ in range(4)]
    for each in [Calling(node.begun) for node in nodes]:
        each.result()
    assert len([row for row in nodes[0].beat().controllers if row.ended_at is None]) == 1


def test_a_controller_begins_anew_under_a_new_id_with_its_shards(store: Cluster) -> None:  # new_incarnation
    one, two = store.node("one"), store.node("two")
    (shard,) = one.take(7).shards
    former = one.id
    begun = one.begun(previous=former, clock_shown=shard.clock_floor)
    assert one.id != former and begun.ended == (former,)
    assert [(each.owner, each.fence) for each in [store.shard(7)]] == [(one.id, 2)]
    with pytest.raises(ShardsLost), one.commit(shard):
        pass
    row = two.beat().row_of(former)
    assert row is None
    assert store.execute(f"SELECT clock_bound FROM controller WHERE id = {former}") == [(shard.clock_floor + 1,)]


def test_who_begins_anew_waits_for_what_was_under_way(store: Cluster) -> None:  # settle_first
    one = store.node("one")
    (shard,) = one.take(7).shards
    former = one.id
    with one.commit(shard):
        beginning = Calling(lambda: one.begun(previous=former))
        store.until_waiting(beginning)
    assert beginning.result().ended == (former,)
    assert store.wrote() == [(7, 1)]


def test_who_was_ended_begins_anew_without_what_others_took(store: Cluster) -> None:
    one, two = store.node("one"), store.node("two")
    one.take(1, 2)
    assert two.end(one)
    two.take(1)
    begun = one.begun(previous=one.id)
    assert begun.ended == () and begun.answer.shards is not None
    assert [each.id for each in begun.answer.shards if each.owner == one.id] == [2]


def test_who_was_replaced_by_its_name_does_not_come_back(store: Cluster) -> None:
    one = store.node("one")
    again = store.node("one")
    former = one.id
    found = one.begin(previous=former)
    assert isinstance(found, NameTaken) and found.by.id == again.id
    assert is_live(again.beat(), again.id)


def test_a_begin_that_is_sent_again_counts_as_a_beat(store: Cluster) -> None:
    one = store.node("one")
    one.take(7)
    request = Begin(99, one.identity, one.id, False, 0)
    first, second = cluster.begin(one.beats, request), cluster.begin(one.beats, request)
    assert isinstance(first, BeginAnswer) and isinstance(second, BeginAnswer)
    assert second.answer.shards == first.answer.shards
    rows = [each.answer.row_of(99) for each in (first, second)]
    assert [row.beat for row in rows if row is not None] == [1, 2]
    two = store.node("one")
    third = cluster.begin(one.beats, request)
    assert isinstance(third, BeginAnswer) and not is_live(third.answer, 99) and is_live(third.answer, two.id)


def test_rows_of_the_dead_are_forgotten_when_their_shards_are_taken(store: Cluster) -> None:
    one, two, three = store.node("one"), store.node("two"), store.node("three")
    one.take(1)
    assert three.end(one) and three.end(two)
    store.execute("UPDATE controller SET ended_at = 0 WHERE ended_at IS NOT NULL")
    store.node("four")
    assert store.execute("SELECT name FROM controller ORDER BY id") == [("one",), ("three",), ("four",)]


def test_who_leaves_says_which_time_it_showed(store: Cluster) -> None:
    one, two = store.node("one"), store.node("two")
    (shard,) = one.take(7).shards
    cluster.leave(one.beats, Leave(one.id, shard.clock_floor + 5))
    assert not is_live(one.beat(), one.id)
    store.execute("UPDATE shard SET clock_floor = 0 WHERE id = 7")
    (next_,) = two.take(7).shards
    assert next_.clock_floor < shard.clock_floor + LEASE_MS


# -- lost sessions ---------------------------------------------------------------------------------------------------


def test_nothing_is_adopted_before_a_lost_commit_is_over(store: Cluster) -> None:  # settle_first
    one = store.node("one")
    (shard,) = one.take(7).shards
    lost, again = one.commit(shard), store.connect()
    lost.__enter__()
    adopting = Calling(lambda: cluster.adopt(again, Adopt(one.id)))
    store.until_waiting(adopting)
    lost.__exit__(None, None, None)
    assert adopting.result().shards == (shard,)
    assert store.wrote() == [(7, 1)]


def test_who_was_ended_adopts_nothing(store: Cluster) -> None:
    one, two = store.node("one"), store.node("two")
    one.take(7)
    assert two.end(one)
    assert one.adopt().shards == ()


# -- what time alone changes -----------------------------------------------------------------------------------------


def test_due_streams_are_found_by_shard_and_time(store: Cluster) -> None:
    with store.connect() as connection:
        with connection.begin():
            for name, shard, wake_at in (
                ("a", 1, 30),
                ("b", 1, 10),
                ("c", 1, None),
                ("d", 1, 31),
                ("e", 2, 5),
                ("f", 3, 5),
            ):
                row = {"name": name, "shard": shard, "wake_at": wake_at}
                connection.execute(insert(schema.stream).values(STREAM | row))
        found = cluster.due_streams(connection, [1, 2], 30, 10)
        assert [(each.name, each.wake_at) for each in found] == [("c", None), ("e", 5), ("b", 10), ("a", 30)]
        assert [each.name for each in cluster.due_streams(connection, [1, 2], 30, 2)] == ["c", "e"]


STREAM = {
    "open": True,
    "config": "{}",
    "original": "null",
    "sealed": False,
    "epochs": 0,
    "head": "{}",
    "clock": 0,
    "created_at": 0,
    "identity": "1",
    "remainders": "{}",
    "passed": "{}",
    "owner": "x",
    "fence": 0,
}


# -- from one controller, and restoring ------------------------------------------------------------------------------


def test_the_first_begin_goes_on_where_one_controller_left_the_store(postgres: Postgres, postgres_url: str) -> None:
    with open_database(postgres_url) as database:
        alone = begin_term(database.writer, "alone", 1_000)
        pending = Commit(TermCheck(alone, served_until=5_000, clock_bound=9_000, unserved_ms=70))
        pending.add_row(
            schema.stream,
            STREAM | {"name": "s", "shard": None, "unserved_ms": None, "wake_at": None},
        )
        write_commit(database.writer, pending)
    with ExitStack() as opened:
        store = Cluster(postgres_url, opened, postgres)
        one = store.node("one")
        (shard,) = one.take(7).shards
        assert (shard.fence, shard.unserved_ms) == (alone.fence + 2, 70 + shard.clock_floor - 5_000)
        assert store.execute("SELECT shard FROM stream") == [(shard_of("stream", "s", SHARDS),)]
        store.node("two")  # and the terms are over once
        assert store.shard(7).fence == alone.fence + 2
    over = pytest.raises(TermOver, match="controllers that serve the store together took it over")
    with open_database(postgres_url) as database, over:
        write_commit(database.writer, Commit(TermCheck(alone, served_until=0, clock_bound=0)))


def test_controllers_that_share_a_store_keep_out_one_that_serves_alone(store: Cluster) -> None:
    store.node("one")
    with pytest.raises(AlreadyServed):
        open_database(store.url)


def test_a_store_that_was_served_together_is_served_by_none_alone(postgres: Postgres, postgres_url: str) -> None:
    with ExitStack() as opened:
        Cluster(postgres_url, opened, postgres).node("one").take(7)
    with open_database(postgres_url) as database, pytest.raises(ServedTogether, match="give this one a --name"):
        begin_term(database.writer, "alone", 1_000)


def test_a_controller_that_serves_alone_keeps_out_those_that_share(postgres_url: str) -> None:
    engine = writing_engine(parse_url(postgres_url))
    with engine.connect(), pytest.raises(AlreadyServed):
        joint_engine(parse_url(postgres_url), Timeline(), leading=True).connect()
    engine.dispose()


def test_a_restore_ends_all_controllers_and_leaps_the_fences(store: Cluster) -> None:
    one = store.node("one")
    (shard,) = one.take(7).shards
    before, now = one.beat(served_until=one.beat().store_now), 2_000_000_000_000
    with store.connect() as connection:
        begun_restore = connection.begin()
        served = cluster.restore_shards(connection, now)
        begun_restore.commit()
    row = before.row_of(one.id)
    assert row is not None and served == row.served_until
    with pytest.raises(ControllerEnded), one.commit(shard):
        pass
    begun = one.begun(previous=one.id)
    assert begun.answer.cluster_version > before.cluster_version
    again = store.shard(7)
    assert (again.owner, again.fence) == (one.id, now // 1000 - 1_735_689_600 + 1)
    restored = cluster.restores(one.beats, [7, 8])
    tenure = Tenure(again.fence, "one", again.clock_floor, Unserved(), restored[7])
    assert (tenure.restored_at(shard.fence), tenure.restored_at(again.fence)) == (now, None)
    assert restored[8] == []


def test_a_rewind_sets_shards_back_to_the_clock_of_the_store(store: Cluster) -> None:
    one = store.node("one")
    (shard,) = one.take(7).shards
    now = one.beat().store_now
    ahead = now + 86_400_000
    store.execute(f"UPDATE shard SET clock_floor = {ahead}, served_until = {ahead - 500} WHERE id = 7")
    store.execute(f"UPDATE controller SET clock_bound = {ahead + 500}, served_until = {ahead - 40}")
    with store.connect() as connection:
        begun_rewind = connection.begin()
        to, by_ms = cluster.rewind_shards(connection)
        begun_rewind.commit()
    assert now <= to and by_ms == ahead + 500 - to
    row = store.shard(7)
    assert (row.owner, row.clock_floor, row.served_until) == (None, to, to)
    assert to - row.unserved_ms == ahead - 40 - shard.unserved_ms  # served time is what it was
    with pytest.raises(ControllerEnded), one.commit(shard):
        pass
    begun = one.begun(previous=one.id)
    assert begun.answer.shards is not None and all(each.owner is None for each in begun.answer.shards)
    (again,) = one.take(7).shards
    assert to <= again.clock_floor < ahead and again.fence == shard.fence + 1
    assert again.clock_floor - again.unserved_ms == to - row.unserved_ms  # nobody served since
