"""What is done to controllers and their store under load: each fault an object, drawn from a seed by one table.

A fault ends when the controllers are ready again; where there are several, one that was ended comes back by itself. The
history has a record of each time in which nobody can have been served, so that nobody is blamed for silence by mistake,
and with several controllers one of each fault: how long calls waited is told by it, and the checker takes from it when
a controller may have shown what is old.
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
from typing import Final, NamedTuple, Protocol

from tests.chaos.history import Lost, Outage, Record, Struck
from tests.chaos.limits import COUNTED_AWAY_S, LOST_S, PAUSE_S, READY_LOOK_S, READY_S, STALE_S
from tests.chaos.processes import Served
from tests.chaos.site import Site
from tests.postgres import Postgres

BEGINS_S: Final = 2.0  # until a controller under load has begun a transaction
SESSIONS: Final = "FROM pg_stat_activity WHERE datname = '{}' AND application_name = 'strandline'"


@dataclass(slots=True)
class Target:
    """What a fault may strike."""

    site: Site
    store: Postgres | None  # a fail-over changes it
    standby: Postgres | None
    database: str
    record: Callable[[Record], None]

    @property
    def is_alone(self) -> bool:
        return len(self.site.controllers) == 1

    @property
    def postgres(self) -> Postgres:
        assert self.store is not None
        return self.store

    @property
    def sessions(self) -> str:
        return SESSIONS.format(self.database.rpartition("/")[2])

    async def ready(self) -> None:
        for served in self.site.controllers:
            await served.ready(measured=False)


class Fault(Protocol):
    """Something that happens once."""

    @property
    def name(self) -> str: ...

    @property
    def kills(self) -> int:
        """How many processes it kills."""
        ...

    @property
    def blind(self) -> bool:
        """Whether a controller may meanwhile answer without a look at the store."""
        ...

    async def strike(self, target: Target, victim: int) -> None: ...


@dataclass(frozen=True, slots=True)
class End:
    """A signal that ends the process: SIGKILL, or SIGTERM for an end in order. The next one starts after a while. With
    `early_s` that one is ended, too, so long after its start, whatever it is doing by then."""

    name: str
    how: signal.Signals
    away_s: float
    early_s: float | None = None
    blind: bool = False

    @property
    def kills(self) -> int:
        if self.how is not signal.SIGKILL:
            return 0
        return 1 if self.early_s is None else 2

    async def strike(self, target: Target, victim: int) -> None:
        served = target.site.controllers[victim]
        began = await self._end(target, served, self.away_s)
        if self.early_s is not None:
            await asyncio.sleep(self.early_s)
            began = await self._end(target, served, 0.0)
        if target.is_alone:
            refused = await served.ready()  # until then nobody can have been served
            if refused > began:
                target.record(Outage(began, refused, self.name))

    async def _end(self, target: Target, served: Served, away_s: float) -> float:
        """Ends the process and starts the next one; returns when the one had ended."""
        served.send(self.how)
        await served.ended()
        began = time.monotonic()
        await asyncio.sleep(away_s)
        if target.is_alone:
            target.record(Outage(began, time.monotonic(), self.name))
        served.start()
        return began


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP, and SIGCONT after a while: of one process, or of all. With `further` it strikes within a transaction:
    after that many statements, of which the first one locks."""

    seconds: float
    further: int = 0
    all: bool = False
    kills: int = 0
    blind: bool = False

    @property
    def name(self) -> str:
        return "pause all" if self.all else "pause in a transaction" if self.further else "pause"

    async def strike(self, target: Target, victim: int) -> None:
        stopped = target.site.controllers if self.all else [target.site.controllers[victim]]
        if self.further:
            with suppress(TimeoutError):
                await asyncio.wait_for(target.site.stores[victim].writing(self.further), BEGINS_S)
        for served in stopped:
            served.send(signal.SIGSTOP)
        began = time.monotonic()
        await asyncio.sleep(self.seconds)
        if len(stopped) == len(target.site.controllers):
            target.record(Outage(began, time.monotonic(), self.name))
        for served in stopped:
            served.send(signal.SIGCONT)
        for served in stopped:
            await served.ready(measured=False)


@dataclass(frozen=True, slots=True)
class CutStore:
    """A controller does not reach the store: its connections are reset and refused, or what is sent is held."""

    seconds: float
    resets: bool
    kills: int = 0
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
    kills: int = 0
    blind: bool = True

    async def strike(self, target: Target, victim: int) -> None:
        ending = f"SELECT pg_terminate_backend(pid) {target.sessions} AND random() <= {self.part}"
        await asyncio.to_thread(target.postgres.execute, ending)
        await target.ready()


@dataclass(frozen=True, slots=True)
class CrashSession:
    """PostgreSQL loses the process of one session by SIGKILL, ends all others, and recovers."""

    name: str = "kill session"
    kills: int = 1
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
    """PostgreSQL ends as in a crash, and starts again after a while. Controllers go on."""

    away_s: float
    name: str = "kill store"
    kills: int = 1
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
    kills: int = 1
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
        target.store, target.standby = standby, None
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


# -- what is drawn -------------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """How often a fault comes, compared with others, and how one is drawn."""

    alone: int  # with one controller
    several: int
    draw: Callable[[random.Random], Fault]
    of_store: bool = False  # it strikes PostgreSQL


def _away_s(chance: random.Random) -> float:
    return chance.choice((0.0, 0.0, chance.uniform(0.1, 1.2), chance.uniform(1.0, 3.0)))


def _killed(chance: random.Random) -> Fault:
    early_s = chance.uniform(0.0, 0.5) if chance.random() < 0.12 else None
    return End("kill", signal.SIGKILL, _away_s(chance), early_s)


def _paused(chance: random.Random) -> Fault:
    return Pause(chance.choice((chance.uniform(0.1, 1.5), chance.uniform(1.8, 2.9), PAUSE_S)))


KINDS: Final[Mapping[str, Kind]] = {
    "kill": Kind(62, 6, _killed),
    "end": Kind(8, 3, lambda chance: End("end", signal.SIGTERM, _away_s(chance))),
    "pause": Kind(10, 2, _paused),
    "pause_in_transaction": Kind(0, 4, lambda chance: Pause(PAUSE_S, chance.choice((1, 1, 2, 3, 4)))),
    "pause_all": Kind(0, 1, lambda chance: Pause(chance.uniform(COUNTED_AWAY_S + 0.2, PAUSE_S), all=True)),
    "cut_store": Kind(0, 3, lambda chance: CutStore(chance.uniform(0.3, 6.0), resets=chance.random() < 0.3)),
    "end_sessions": Kind(12, 3, lambda chance: EndSessions(chance.choice((0.3, 0.5, 1.0))), of_store=True),
    "kill_session": Kind(2, 1, lambda chance: CrashSession(), of_store=True),
    "kill_store": Kind(
        8, 1, lambda chance: KillStore(chance.choice((0.0, chance.uniform(0.1, 1.5), COUNTED_AWAY_S + 1.0))), True
    ),
    "fail_over": Kind(0, 0, lambda chance: FailOver(), of_store=True),
}
FAIL_OVER: Final = "fail_over"  # comes where it is asked for: it needs a standby
EACH_KIND: Final = tuple(name for name, kind in KINDS.items() if kind.several)


@dataclass(frozen=True, slots=True)
class Step:
    """A fault, which controller it strikes, and how long the load goes on before it."""

    wait_s: float
    victim: int
    fault: Fault


def plan_alone(chance: random.Random, kills: int, *, postgresql: bool) -> Sequence[Step]:
    """Faults of one controller with so many kills, and others in between; now and then a longer time without any."""
    kinds = [kind for kind in KINDS.values() if kind.alone and (postgresql or not kind.of_store)]
    steps: list[Step] = []
    while sum(step.fault.kills for step in steps) < kills:
        wait_s = chance.uniform(3.0, 5.0) if chance.random() < 0.06 else chance.uniform(0.05, 1.3)
        (kind,) = chance.choices(kinds, [each.alone for each in kinds])
        steps.append(Step(wait_s, 0, kind.draw(chance)))
    return steps


def plan(chance: random.Random, faults: int, controllers: int, kinds: Sequence[str] = ()) -> Sequence[Step]:
    """So many faults of several controllers, of these kinds or of any. Where there are as many kinds as faults, one of
    each in this order."""
    drawn = kinds or EACH_KIND
    weights = [KINDS[kind].several or 1 for kind in drawn]
    steps = []
    for number in range(faults):
        kind = drawn[number] if faults == len(kinds) else chance.choices(drawn, weights)[0]
        steps.append(Step(chance.uniform(0.5, 2.0), chance.randrange(controllers), KINDS[kind].draw(chance)))
    return steps


async def strike_all(target: Target, steps: Sequence[Step], struck: Callable[[Fault], None]) -> None:
    """Carries a plan out, one fault after the other."""
    for step in steps:
        await asyncio.sleep(step.wait_s)
        began = time.monotonic()
        await step.fault.strike(target, step.victim)
        if not target.is_alone:
            target.record(Struck(step.fault.name, began, time.monotonic(), step.fault.blind))
        struck(step.fault)
