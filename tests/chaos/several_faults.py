"""What is done to several controllers on one PostgreSQL under load: each fault an object, drawn from a seed.

A fault ends when all controllers are ready again. A record of each goes to the history: how long calls waited is told
by it, and the checker takes from it when a controller may have shown what is old.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from tests.chaos.history import Lost, Outage, Record, Struck
from tests.chaos.limits import COUNTED_AWAY_S, LOST_S, PAUSE_S, READY_LOOK_S, READY_S, STALE_S
from tests.chaos.site import Site
from tests.postgres import Postgres

BEGINS_S: Final = 2.0  # until a controller under load has begun a transaction
SESSIONS: Final = "FROM pg_stat_activity WHERE datname = '{}' AND application_name = 'strandline'"


@dataclass(slots=True)
class Target:
    """What a fault may strike."""

    site: Site
    postgres: Postgres  # a fail-over changes it
    standby: Postgres | None
    database: str
    record: Callable[[Record], None]

    @property
    def sessions(self) -> str:
        return SESSIONS.format(self.database.rpartition("/")[2])

    async def ready(self) -> None:
        for served in self.site.controllers:
            await served.ready(measured=False)


class SeveralFault(Protocol):
    """Something that happens once."""

    @property
    def name(self) -> str: ...

    @property
    def blind(self) -> bool:
        """Whether a controller may meanwhile answer without a look at the store."""
        ...

    async def strike(self, target: Target, victim: int) -> None: ...


@dataclass(frozen=True, slots=True)
class End:
    """A signal that ends the process: SIGKILL, or SIGTERM for an end in order. The next one starts after a while."""

    name: str
    how: signal.Signals
    away_s: float
    blind: bool = False

    async def strike(self, target: Target, victim: int) -> None:
        served = target.site.controllers[victim]
        served.send(self.how)
        await served.ended()
        await asyncio.sleep(self.away_s)
        served.start()


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP, and SIGCONT after a while. With `further` it strikes within a transaction: after that many statements,
    of which the first one locks."""

    seconds: float
    further: int = 0
    blind: bool = False

    @property
    def name(self) -> str:
        return "pause in a transaction" if self.further else "pause"

    async def strike(self, target: Target, victim: int) -> None:
        served = target.site.controllers[victim]
        if self.further:
            with suppress(TimeoutError):
                await asyncio.wait_for(target.site.stores[victim].writing(self.further), BEGINS_S)
        served.send(signal.SIGSTOP)
        await asyncio.sleep(self.seconds)
        served.send(signal.SIGCONT)
        await served.ready(measured=False)


@dataclass(frozen=True, slots=True)
class PauseAll:
    """Nobody serves for longer than a silence may be counted."""

    seconds: float
    name: str = "pause all"
    blind: bool = False

    async def strike(self, target: Target, victim: int) -> None:
        for served in target.site.controllers:
            served.send(signal.SIGSTOP)
        began = time.monotonic()
        await asyncio.sleep(self.seconds)
        target.record(Outage(began, time.monotonic(), self.name))
        for served in target.site.controllers:
            served.send(signal.SIGCONT)
        await target.ready()


@dataclass(frozen=True, slots=True)
class CutStore:
    """A controller does not reach the store: its connections are reset and refused, or what is sent is held."""

    seconds: float
    resets: bool
    blind: bool = True

    @property
    def name(self) -> str:
        return "connections reset" if self.resets else "connections silent"

    async def strike(self, target: Target, victim: int) -> None:
        way = target.site.stores[victim]
        if self.resets:
            way.reset()
        else:
            way.hold()
        await asyncio.sleep(self.seconds)
        way.open()
        await target.site.controllers[victim].ready(measured=False)


@dataclass(frozen=True, slots=True)
class EndSessions:
    """PostgreSQL ends some sessions of the controllers."""

    part: float
    name: str = "end sessions"
    blind: bool = True

    async def strike(self, target: Target, victim: int) -> None:
        ending = f"SELECT pg_terminate_backend(pid) {target.sessions} AND random() <= {self.part}"
        await asyncio.to_thread(target.postgres.execute, ending)
        await target.ready()


@dataclass(frozen=True, slots=True)
class CrashSession:
    """PostgreSQL loses the process of one session by SIGKILL, ends all others, and recovers."""

    name: str = "kill session"
    blind: bool = True

    async def strike(self, target: Target, victim: int) -> None:
        found = await asyncio.to_thread(target.postgres.execute, f"SELECT pid {target.sessions}")
        if found:
            await asyncio.to_thread(_crash, target.postgres, found[victim % len(found)][0])
        await target.ready()


def _crash(postgres: Postgres, session: int) -> None:
    """Kills the process of a session; returns when the server has recovered. It notices when it reaps the process."""
    with suppress(ProcessLookupError):
        os.kill(session, signal.SIGKILL)
        while True:
            os.kill(session, 0)
            time.sleep(0.01)
    postgres.wait_until_ready()


@dataclass(frozen=True, slots=True)
class KillStore:
    """PostgreSQL ends as in a crash, and starts again after a while."""

    away_s: float
    name: str = "kill store"
    blind: bool = True

    async def strike(self, target: Target, victim: int) -> None:
        await asyncio.to_thread(target.postgres.stop, signal.SIGQUIT)
        began = time.monotonic()
        try:
            await asyncio.sleep(self.away_s)
        finally:
            target.record(Outage(began, time.monotonic(), self.name))
            await asyncio.to_thread(target.postgres.start)
        await target.ready()


@dataclass(frozen=True, slots=True)
class FailOver:
    """An asynchronous standby takes the primary's place, without what was committed last. One controller is stopped
    meanwhile, and goes on when others have written as much as was lost, and more."""

    name: str = "fail over"
    blind: bool = True

    async def strike(self, target: Target, victim: int) -> None:
        primary, standby = target.postgres, target.standby
        assert standby is not None
        began = time.monotonic()
        await asyncio.to_thread(_stop_following, primary, standby)
        await asyncio.sleep(LOST_S)
        stopped = target.site.controllers[victim]
        stopped.send(signal.SIGSTOP)
        written = await asyncio.to_thread(_version, primary, target.database)
        await asyncio.to_thread(primary.stop, signal.SIGQUIT)
        await asyncio.to_thread(standby.execute, "SELECT pg_promote()")
        for way in target.site.stores:
            way.to = standby.port
            way.reset_all()
        target.postgres, target.standby = standby, None
        for served in target.site.controllers:
            if served is not stopped:
                await served.ready(measured=False)
        await asyncio.sleep(2 * STALE_S)
        target.record(Lost(began, time.monotonic()))
        deadline = time.monotonic() + READY_S
        while await asyncio.to_thread(_version, standby, target.database) <= written and time.monotonic() < deadline:
            await asyncio.sleep(READY_LOOK_S)
        stopped.send(signal.SIGCONT)
        await stopped.ready(measured=False)


def _version(postgres: Postgres, database: str) -> int:
    """Of the stream that is written most."""
    ((version,),) = postgres.execute("SELECT version FROM head WHERE kind = 'stream' AND name = 'fast'", database)
    return int(version)


def _stop_following(primary: Postgres, standby: Postgres) -> None:
    """Once the standby has all that is durable now, it gets nothing more."""
    ((reached,),) = primary.execute("SELECT pg_current_wal_flush_lsn()::text")
    while not standby.execute(f"SELECT coalesce(pg_last_wal_receive_lsn() >= '{reached}', false)")[0][0]:
        time.sleep(0.01)
    standby.execute("ALTER SYSTEM SET primary_conninfo = 'host=127.0.0.1 port=1 connect_timeout=1'")
    standby.execute("SELECT pg_reload_conf()")


@dataclass(frozen=True, slots=True)
class Step:
    """A fault, which controller it strikes, and how long the load goes on before it."""

    wait_s: float
    victim: int
    fault: SeveralFault


def _away_s(chance: random.Random) -> float:
    return chance.choice((0.0, chance.uniform(0.1, 1.0), chance.uniform(1.0, 3.0)))


# By kind: how often it comes, compared with others, and how one is drawn.
KINDS: Final[Mapping[str, tuple[int, Callable[[random.Random], SeveralFault]]]] = {
    "kill": (6, lambda chance: End("kill", signal.SIGKILL, _away_s(chance))),
    "end": (3, lambda chance: End("end", signal.SIGTERM, _away_s(chance))),
    "pause": (2, lambda chance: Pause(chance.choice((chance.uniform(0.2, 1.5), chance.uniform(1.8, 2.9), PAUSE_S)))),
    "pause_in_transaction": (4, lambda chance: Pause(PAUSE_S, chance.choice((1, 1, 2, 3, 4)))),
    "pause_all": (1, lambda chance: PauseAll(chance.uniform(COUNTED_AWAY_S + 0.2, PAUSE_S))),
    "cut_store": (3, lambda chance: CutStore(chance.uniform(0.3, 6.0), resets=chance.random() < 0.3)),
    "end_sessions": (3, lambda chance: EndSessions(chance.choice((0.3, 0.5, 1.0)))),
    "kill_session": (1, lambda chance: CrashSession()),
    "kill_store": (1, lambda chance: KillStore(chance.choice((0.0, chance.uniform(0.1, 1.5), COUNTED_AWAY_S + 1.0)))),
}
FAIL_OVER: Final = "fail_over"


def plan(chance: random.Random, faults: int, controllers: int, kinds: Sequence[str] = ()) -> Sequence[Step]:
    """So many faults, of these kinds or of any. Where there are as many kinds as faults, one of each in this order."""
    drawn = kinds or tuple(KINDS)
    weights = [KINDS[kind][0] if kind in KINDS else 1 for kind in drawn]
    steps = []
    for number in range(faults):
        kind = drawn[number] if faults == len(kinds) else chance.choices(drawn, weights)[0]
        fault = FailOver() if kind == FAIL_OVER else KINDS[kind][1](chance)
        steps.append(Step(chance.uniform(0.5, 2.0), chance.randrange(controllers), fault))
    return steps


async def strike_all(target: Target, steps: Sequence[Step], struck: Callable[[SeveralFault], None]) -> None:
    """Carries a plan out, one fault after the other."""
    for step in steps:
        await asyncio.sleep(step.wait_s)
        began = time.monotonic()
        await step.fault.strike(target, step.victim)
        target.record(Struck(step.fault.name, began, time.monotonic(), step.fault.blind))
        struck(step.fault)
