"""Heads are locked in one order, served time has its gaps, which controllers serve is seen from their rows, and a
restore shows every cache that it is outdated."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from controller.storage.database import Database, open_database
from controller.storage.heads import DueStream, compare, due_streams, lock, new_stamp, serve, start_over
from controller.storage.news import lock_and_look
from controller.storage.presence import ENDED_MS, GONE_MS, PRESENT_MS, Presence, present_controllers
from controller.storage.save import Commit, write_rows
from controller.storage.subjects import Kind, Subject
from controller.storage.transaction import transaction
from strandline.core.served_time import SERVED_GAP_MS
from tests.postgres import Postgres
from tests.served import NOON, ManualClock
from tests.storage.filled import group, note, stream
from tests.storage.writes import write

S, T, G = Subject(Kind.STREAM, "s"), Subject(Kind.STREAM, "t"), Subject(Kind.GROUP, "g")


@pytest.fixture
def database(both_stores: str) -> Iterator[Database]:
    with open_database(both_stores) as opened:
        yield opened


def test_a_gap_in_service_is_unserved_whoever_finds_it_but_not_for_who_is_late_or_by_hand(
    database: Database,
) -> None:
    #   served   1000 ─ 1000 + GAP ─ gap of GAP + 1 ─┤ two find it
    served = [serve(database.writer, 1_000), serve(database.writer, 1_000 + SERVED_GAP_MS)]
    assert [(each.served_until, each.unserved_ms) for each in served] == [(1_000, 0), (1_000 + SERVED_GAP_MS, 0)]
    later = 1_000 + 2 * SERVED_GAP_MS + 1
    found = [serve(database.writer, time) for time in (later, later, later - 1_000)]
    assert [(each.served_until, each.unserved_ms) for each in found] == [(later, SERVED_GAP_MS + 1)] * 3
    assert serve(database.writer, later + 900_000, by_hand=True)[:2] == (later + 900_000, SERVED_GAP_MS + 1)


def test_a_lock_finds_the_heads_that_there_are_and_how_long_the_store_was_served(database: Database) -> None:
    serve(database.writer, 1_000)
    write(database, stream("s"), group("g"))
    with transaction(database.writer):
        heads, service = lock(database.writer, [T, S, G])
        assert set(heads) == {S, G} and service[:2] == (1_000, 0)
        assert lock(database.writer, [T])[1] == service or not lock(database.writer, [T])[0]
    with database.reader.begin():
        assert compare(database.reader, [S, T, G]) == heads


def states(database: Database, clock: ManualClock) -> dict[str, str]:
    return {each.name: each.state(clock.now) for each in present_controllers(database.reader, clock.now)}


def test_a_controller_serves_is_away_once_it_is_silent_and_has_ended_for_an_hour(database: Database) -> None:
    clock = ManualClock()
    one, other = Presence("a:1", "1", clock.wall), Presence("b:1", "2", clock.wall)
    assert states(database, clock) == {}
    one.serve(database.writer)
    clock.now += 1_000
    other.serve(database.writer)
    one.serve(database.writer)
    (first, _) = present_controllers(database.reader, clock.now)
    assert first == ("a:1", "1", NOON, NOON + 1_000, False)
    assert states(database, clock) == {"a:1": "serving", "b:1": "serving"}
    clock.now += PRESENT_MS
    assert states(database, clock) == {"a:1": "serving", "b:1": "serving"}
    clock.now += 1
    one.serve(database.writer)
    assert states(database, clock) == {"a:1": "serving", "b:1": "away"}
    one.leave(database.writer)
    assert states(database, clock) == {"a:1": "ended", "b:1": "away"}
    clock.now += ENDED_MS
    assert states(database, clock) == {"a:1": "ended", "b:1": "away"}
    clock.now += 1
    assert states(database, clock) == {"b:1": "away"}
    clock.now += GONE_MS - ENDED_MS
    assert states(database, clock) == {}


def test_a_controller_that_begins_takes_the_place_of_one_that_is_away_on_its_host_or_for_longest(
    database: Database,
) -> None:
    clock = ManualClock()
    killed = [Presence(name, "1", clock.wall) for name in ("a:1", "b:1", "c:1", "c:2")]
    for each in killed:
        each.serve(database.writer)
        clock.now += 1_000
    killed[-1].leave(database.writer)
    clock.now += PRESENT_MS
    for name, left in (("b:2", {"a:1", "c:1"}), ("d:1", {"c:1"}), ("d:2", set[str]()), ("d:3", set[str]())):
        Presence(name, "1", clock.wall).serve(database.writer)
        assert {name for name, state in states(database, clock).items() if state == "away"} == left
    assert states(database, clock)["c:2"] == "ended"

    killed[0].serve(database.writer)  # it was only stopped, and takes nobody's place
    assert states(database, clock)["a:1"] == "serving" and len(states(database, clock)) == 6


def test_a_controller_that_is_started_again_at_once_takes_its_own_place_once_it_is_away(database: Database) -> None:
    clock = ManualClock()
    killed, other = Presence("a:1", "1", clock.wall), Presence("b:1", "1", clock.wall)
    killed.serve(database.writer)
    clock.now += 1_000
    other.serve(database.writer)
    again = Presence("a:2", "1", clock.wall)
    again.serve(database.writer)
    assert states(database, clock) == dict.fromkeys(("a:1", "b:1", "a:2"), "serving")
    for _ in range(PRESENT_MS // 1_000):
        clock.now += 1_000
        again.serve(database.writer)
    assert states(database, clock) == dict.fromkeys(("b:1", "a:2"), "serving")
    clock.now += 1_000
    again.serve(database.writer)  # the other one was there when it began
    assert states(database, clock) == {"b:1": "away", "a:2": "serving"}


def test_a_stream_is_due_by_what_its_head_has(database: Database) -> None:
    live = stream("s")
    live.stream.configure({"writer_timeout_ms": 100}, 0)
    note(live, 5, "a")
    write(database, live)
    with database.reader.begin():
        wake_at = compare(database.reader, [S])[S].wake_at
    if database.reader.dialect.name == "sqlite":
        assert due_streams(database.reader, wake_at) == []
    assert due_streams(database.reader, wake_at + 1) == [(wake_at, "s")]
    assert due_streams(database.reader, wake_at + 1, DueStream(wake_at, "s")) == []


def test_a_restore_outdates_every_cache_until_the_next_commit(database: Database) -> None:
    serve(database.writer, 1_000)
    live = stream("s")
    write(database, live)
    with transaction(database.writer):
        assert start_over(database.writer, 5_000) == 1_000
        stored = lock(database.writer, [S])[0][S]
    assert live.head.differs(stored) and not live.head.may_follow(stored) and stored.restored_at == 5_000
    live.head = stored
    live.begin_anew(5_000)
    write(database, live)
    assert live.stream.epochs > 5_000
    with database.reader.begin():
        assert compare(database.reader, [S])[S].restored_at is None


@pytest.mark.parametrize("at_once", [False, True])
def test_whoever_locks_sees_what_was_committed_while_it_waited(
    postgres: Postgres, postgres_url: str, at_once: bool
) -> None:
    with open_database(postgres_url) as one, open_database(postgres_url) as other:
        live = stream("s")
        write(one, live)
        known, seen = {S: live.known}, list[tuple[int, int]]()

        def wait_and_look() -> None:
            with transaction(other.writer):
                found = lock_and_look(other.writer, [S], known, (), at_once=at_once)()
                seen.append((found.heads[S].version, found.streams["s"].changes[-1].seq))

        thread = threading.Thread(target=wait_and_look)
        with transaction(one.writer):
            lock(one.writer, [S])
            thread.start()
            waits = f"SELECT 1 FROM pg_stat_activity WHERE datname = '{postgres_url.rpartition('/')[2]}'"
            deadline = time.monotonic() + 30
            while not postgres.execute(f"{waits} AND wait_event_type = 'Lock'") and time.monotonic() < deadline:
                pass
            assert not seen
            note(live, 1, "a")
            commit = Commit(new_stamp())
            live.write(commit)
            write_rows(one.writer, commit)
        thread.join(30)
        assert seen == [(2, 2)]


def test_two_that_lock_in_other_orders_never_wait_for_each_other(postgres_url: str) -> None:
    with open_database(postgres_url) as one, open_database(postgres_url) as other:
        write(one, stream("s"), stream("t"), group("g"))

        def lock_often(database: Database, subjects: list[Subject]) -> None:
            for _ in range(100):
                with transaction(database.writer):
                    assert len(lock(database.writer, subjects)[0]) == 3
                done.append(None)

        done: list[None] = []
        threads = [threading.Thread(target=lock_often, args=given) for given in ((one, [S, T, G]), (other, [G, T, S]))]
        for each in threads:
            each.start()
        for each in threads:
            each.join(30)
        assert len(done) == 200
