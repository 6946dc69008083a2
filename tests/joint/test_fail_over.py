"""PostgreSQL fails over, and what was not on the standby is lost: no controller goes on from what is in its memory."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest

from controller.storage.database import open_joint
from controller.storage.postgresql import TimelineLeft
from tests.joint.nodes import AWAY, PATIENCE_S, nodes
from tests.postgres import Postgres

pytestmark = pytest.mark.full

CAUGHT_UP = "SELECT 1 FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()"


async def until_caught_up(primary: Postgres) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(primary.execute, CAUGHT_UP):
            await asyncio.sleep(0.02)


def test_what_the_new_primary_lacks_is_not_gone_on_from(new_postgres: Callable[..., Postgres]) -> None:
    primary = new_postgres("fsync=off")
    first = primary.new_database()
    standby = new_postgres("fsync=off", primary=primary)
    hosts = f"host=127.0.0.1:{primary.port}&host=127.0.0.1:{standby.port}&target_session_attrs=read-write"
    url = f"postgresql://strandline@/{first.rpartition('/')[2]}?{hosts}"

    async def scene() -> None:
        async with nodes(url) as all_nodes:
            (one,) = await all_nodes.start("one")
            await all_nodes.create(["s0"])
            for time in (1, 2):
                await all_nodes.note("s0", time)
            await until_caught_up(primary)
            standby.stop()
            for time in (3, 4):
                await all_nodes.note("s0", time)
            assert one.streams.find_loaded("s0") is not None
            one.host.paused_ms -= 2 * PATIENCE_S * 1000  # its lease does not run out meanwhile
            primary.stop(signal.SIGQUIT)
            standby.start()
            standby.execute("SELECT pg_promote()")

            with pytest.raises(AWAY):
                await one.note("s0", 5)
            await all_nodes.note("s0", 6)
            assert await one.marks("s0") == [1, 2, 3]

    asyncio.run(scene())


def test_no_session_is_used_on_another_timeline_than_that_of_the_beats(postgres_url: str) -> None:
    found: list[str] = []
    database, sessions = open_joint(postgres_url)
    with database:
        sessions.timeline.when_left = lambda: found.append("left")
        sessions.timeline._present = "another"
        with pytest.raises(TimelineLeft):
            database.reading.connect()
        assert found == ["left"]
        sessions.renew()
        database.sessions.loader.begin()
        with pytest.raises(TimelineLeft):  # before the session of the beats has said which one it is
            database.reading.connect()
        assert found == ["left"]
        sessions.beat_connection.exec_driver_sql("SELECT 1")
        database.reading.connect().close()
        sessions.close()
