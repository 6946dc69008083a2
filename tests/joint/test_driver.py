"""Several controllers serve one PostgreSQL together: with real sessions, commits, streams and leases."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from controller.cluster.member import BEAT_MS
from controller.cluster.records import LEASE_MS, Kind
from controller.storage.database import open_joint
from controller.storage.refusals import OneController
from controller.streams.due_streams import DUE_CHECK_MS
from controller.streams.mark_feed import FeedOver, MarkFeed, NewMarks
from strandline.core.served_time import COMMIT_HANGS_MS
from strandline.errors import NotOwner, StoreUnavailable
from tests.joint.nodes import AWAY, CONFIG, PATIENCE_S, Node, Nodes, nodes
from tests.postgres import Postgres
from tests.storage.loads import load_stream

pytestmark = pytest.mark.full

STREAMS = [f"s{number}" for number in range(12)]


def play(url: str, scene: Callable[[Nodes], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with nodes(url) as all_nodes:
            await scene(all_nodes)

    asyncio.run(whole())


def test_a_controller_alone_takes_every_shard(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        (one,) = await all_nodes.start("one")
        await all_nodes.until_even()
        assert one.shards == one.driver.tenures.shards == 256
        await all_nodes.create(STREAMS)
        for time in (1, 2):
            assert await all_nodes.note("s0", time) is one

    play(postgres_url, scene)


def test_three_controllers_share_the_shards_evenly_and_two_may_stop_at_once(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        (one,) = await all_nodes.start("one")
        await all_nodes.create(STREAMS)
        for stream in STREAMS:
            await all_nodes.note(stream, 1)
        two, three = await all_nodes.start("two", "three")
        await all_nodes.until_even()
        for stream in STREAMS:
            assert sum(node.owns(stream) for node in all_nodes.live) == 1
            owner = await all_nodes.note(stream, 2)
            others = [node for node in all_nodes.live if node is not owner]
            for node in others:
                with pytest.raises(NotOwner):
                    await node.note(stream, 3)
            assert await owner.marks(stream) == [1, 2]

        await asyncio.gather(all_nodes.stop(one), all_nodes.stop(two))
        for stream in STREAMS:
            assert await all_nodes.note(stream, 4) is three
            assert await three.marks(stream) == [1, 2, 3]

    play(postgres_url, scene)


def test_the_others_go_on_when_a_controller_is_killed(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        one, *_ = await all_nodes.start("one", "two", "three")
        await all_nodes.create(STREAMS)
        for time in (1, 2):
            for stream in STREAMS:
                await all_nodes.note(stream, time)
        await all_nodes.crash(one)
        for stream in STREAMS:
            owner = await all_nodes.note(stream, 3)
            assert await owner.marks(stream) == [1, 2, 3]
        await all_nodes.until_even()

    play(postgres_url, scene)


def test_a_controller_that_stops_hands_everything_over(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        one, two = await all_nodes.start("one", "two")
        await all_nodes.create(STREAMS)
        for stream in STREAMS:
            await all_nodes.note(stream, 1)
        await all_nodes.stop(one)
        assert one.shards == 0
        for stream in STREAMS:
            assert await all_nodes.note(stream, 2) is two
            assert await two.marks(stream) == [1, 2]

    play(postgres_url, scene)


def test_when_all_stop_at_once_the_next_one_goes_on_with_everything(postgres_url: str) -> None:
    """They hand over what nobody takes any more, and nobody waits for anybody."""

    async def scene(all_nodes: Nodes) -> None:
        stopping = await all_nodes.start("one", "two")
        await all_nodes.create(STREAMS)
        for stream in STREAMS:
            await all_nodes.note(stream, 1)
        await asyncio.gather(*map(all_nodes.stop, stopping))
        (three,) = await all_nodes.start("three")
        for stream in STREAMS:
            assert await all_nodes.note(stream, 2) is three
            assert await three.marks(stream) == [1, 2]

    play(postgres_url, scene)


def test_a_commit_with_a_shard_that_was_lost_writes_nothing_of_its_batch(postgres: Postgres, postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        (one,) = await all_nodes.start("one")
        lost, beside = STREAMS[:2]
        await all_nodes.create([lost, beside])
        for stream in (lost, beside):
            await all_nodes.note(stream, 1)
        shard, id_before = one.driver.tenures.of(Kind.STREAM, lost).shard, one.member.id
        # As after a release whose answer this controller was never given; no beat shows it.
        postgres.execute(f"UPDATE shard SET owner = NULL WHERE id = {shard}", postgres_url)
        for told in await asyncio.gather(one.note(lost, 2), one.note(beside, 2), return_exceptions=True):
            assert isinstance(told, StoreUnavailable)
        assert await one.marks(lost) == await one.marks(beside) == [1]

        for stream in (lost, beside):
            await all_nodes.note(stream, 3)
            assert await one.marks(stream) == [1, 2]
        assert one.member.id != id_before

    play(postgres_url, scene)


def test_a_controller_that_was_paused_answers_nothing_from_memory(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        (one,) = await all_nodes.start("one")
        await all_nodes.create(["s0"])
        await all_nodes.note("s0", 1)
        before, id_before = one.streams.find_loaded("s0"), one.member.id
        assert before is not None

        one.host.paused_ms += LEASE_MS
        assert one.streams.find_loaded("s0") is None and one.streams.in_memory() == []
        with pytest.raises(NotOwner):
            await one.streams.get("s0")

        await all_nodes.note("s0", 2)
        assert one.member.id != id_before
        assert one.streams.find_loaded("s0") is not before
        assert await one.marks("s0") == [1, 2]

    play(postgres_url, scene)


def test_a_controller_that_was_ended_meanwhile_writes_nothing(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        one, two = await all_nodes.start("one", "two")
        await all_nodes.until_even()
        stream = next(name for name in STREAMS if one.owns(name))
        await all_nodes.create([stream])
        await all_nodes.note(stream, 1)
        await one.driver.close(2)  # no beat any more
        all_nodes.live.remove(one)
        await all_nodes.until(lambda: two.owns(stream))
        await all_nodes.note(stream, 2)

        one.host.paused_ms -= 2 * PATIENCE_S * 1000  # it believes that its lease runs
        assert one.streams.find_loaded(stream) is not None
        with pytest.raises(AWAY):
            await one.note(stream, 3)
        assert await two.marks(stream) == [1, 2]
        await one.crash()

    play(postgres_url, scene)


def test_all_start_over_after_the_sessions_were_ended(postgres: Postgres, postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        await all_nodes.start("one", "two")
        await all_nodes.create(STREAMS)
        for time in range(1, 4):
            postgres.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()",
                postgres_url,
            )
            for stream in STREAMS:
                owner = await all_nodes.note(stream, time)
                assert await owner.marks(stream) == list(range(1, time + 1))

    play(postgres_url, scene)


def test_time_in_which_commits_hang_is_no_silence_for_the_next_owner(postgres: Postgres, postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        (one,) = await all_nodes.start("one")
        await all_nodes.create(["s0"])
        before = one.streams.find_loaded("s0")
        assert before is not None
        hang = f"BEGIN; LOCK TABLE mark; SELECT pg_sleep({(COMMIT_HANGS_MS + 500) / 1000}); COMMIT"
        hanging = asyncio.create_task(asyncio.to_thread(postgres.execute, hang, postgres_url))
        time = 0
        while before.tenure.unserved.total_ms < COMMIT_HANGS_MS:
            time += 1
            await one.note("s0", time)
        await hanging
        await one.note("s0", time + 1)

        (two,) = await all_nodes.start("two")
        await all_nodes.stop(one)
        await all_nodes.note("s0", time + 2)
        after = two.streams.find_loaded("s0")
        assert after is not None and after.tenure.unserved.total_ms >= before.tenure.unserved.total_ms

    play(postgres_url, scene)


def test_who_waits_for_a_mark_is_answered_when_the_stream_is_handed_over(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        one, two = await all_nodes.start("one", "two")
        await all_nodes.until_even()
        stream = next(name for name in STREAMS if one.owns(name))
        await all_nodes.create([stream])
        await all_nodes.note(stream, 1)
        waiting = asyncio.create_task(one.reading.marks(stream, "", 1, 10, wait_ms=PATIENCE_S * 1000))
        feed = MarkFeed(one.streams, one.reading, one.committer)
        events = feed.events(stream, "", 0, lambda mark, _: b"%d" % mark.seq)
        assert await anext(events) == NewMarks([b"1"])
        following = asyncio.ensure_future(anext(events))
        await all_nodes.stop(one)
        assert list((await waiting).marks) == []
        assert await following == FeedOver("moved")
        await all_nodes.note(stream, 2)
        assert [mark.seq for mark in (await two.reading.marks(stream, "", 1, 10)).marks] == [2]

    play(postgres_url, scene)


def test_a_hand_over_writes_what_would_be_written_later(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        one, two = await all_nodes.start("one", "two")
        await all_nodes.until_even()
        stream = next(name for name in STREAMS if one.owns(name))
        await all_nodes.create([stream])
        await all_nodes.note(stream, 1)
        stored = await two.store.read(load_stream, stream)
        assert stored is not None
        noted_at, time = (await one.streams.get(stream)).noted_at, 1
        while noted_at == stored.noted_at:  # the first is stored at once
            time += 1
            await all_nodes.note(stream, time)
        await all_nodes.stop(one)
        await all_nodes.until(lambda: two.owns(stream))
        assert (await two.streams.get(stream)).noted_at == noted_at

    play(postgres_url, scene)


def beaten(node: Node, bound: int) -> bool:
    return node.member.clock.bound > bound


def test_time_in_which_commits_fail_is_no_silence_after_a_kill(postgres: Postgres, postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        (one,) = await all_nodes.start("one")
        await all_nodes.create(["s0"])
        await all_nodes.note("s0", 1)
        postgres.execute("ALTER TABLE mark ADD CONSTRAINT none CHECK (false) NOT VALID", postgres_url)
        with pytest.raises(StoreUnavailable):
            await one.note("s0", 2)
        failing = one.member.clock.shown
        for bound in (one.member.clock.bound, one.member.clock.bound + BEAT_MS):  # two more beats are answered
            await all_nodes.until(partial(beaten, one, bound))
        await all_nodes.crash(one)
        postgres.execute("ALTER TABLE mark DROP CONSTRAINT none", postgres_url)

        (two,) = await all_nodes.start("one")
        await all_nodes.note("s0", 2)
        tenure = two.driver.tenures.of(Kind.STREAM, "s0")
        assert tenure.clock_floor - tenure.unserved.total_ms <= failing

    play(postgres_url, scene)


def test_time_moves_on_in_a_stream_that_nobody_calls_after_a_takeover(postgres_url: str) -> None:
    """A silent writer times out at the next owner, which nobody has told of the stream."""

    async def scene(all_nodes: Nodes) -> None:
        (one,) = await all_nodes.start("one")
        await all_nodes.until_even()
        await one.streams.create("s0", 1, {**CONFIG, "writer_timeout_ms": 2_000})
        await one.note("s0", 1, "silent")
        await one.note("s0", 2)
        await asyncio.sleep(0.5)
        await one.note("s0", 3)  # this writer is heard for longer
        assert await one.marks("s0") == [1]
        (two,) = await all_nodes.start("two")
        await all_nodes.crash(one)
        while await two.marks("s0") != [1, 2] or (loaded := two.streams.find_loaded("s0")) is None:
            await two.driver.changed()
        assert loaded.chains[""].last is not None
        assert loaded.chains[""].last.excluded == ("silent",)

    play(postgres_url, scene)


def test_a_look_for_due_streams_writes_nothing_for_loaded_ones(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        (one,) = await all_nodes.start("one")
        await all_nodes.until_even()
        await one.streams.create("s0", 1, {**CONFIG, "writer_timeout_ms": DUE_CHECK_MS // 2})
        await one.note("s0", 1)
        loaded = one.streams.find_loaded("s0")
        assert loaded is not None
        await one.due.wake_due()
        assert one.committer.pending(loaded) is None

    play(postgres_url, scene)


def test_the_look_for_due_streams_ends_also_when_shards_were_just_taken(postgres_url: str) -> None:
    async def scene(_: Nodes) -> None:
        node = Node(postgres_url, "one")
        node.due.start()
        for _turn in range(3):  # until it waits
            await asyncio.sleep(0)
        node.due.check_soon()
        async with asyncio.timeout(PATIENCE_S):
            await node.crash()

    play(postgres_url, scene)


def test_two_that_start_on_an_empty_database_make_one_store(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        opened = await asyncio.gather(*(asyncio.to_thread(open_joint, postgres_url) for _ in range(3)))
        assert sorted(database.fresh for database, _ in opened) == [False, False, True]
        for database, sessions in opened:
            sessions.close()
            database.close()

    play(postgres_url, scene)


def test_sqlite_is_served_by_one_controller() -> None:
    with pytest.raises(OneController, match="one controller serves alone: several need PostgreSQL"):
        open_joint("sqlite:///store.db")
