"""What is done to several controllers and their store while the load goes on: each fault an object, drawn from a seed.

A fault on one controller ends when that one is ready again. Faults on two of them, or on one and the store, may come at
once. A record of each goes to the history; the checker takes from it when a controller can have served nobody.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from tests.chaos.clocks import step_clock
from tests.chaos.history import Outage, Record, Struck
from tests.chaos.limits import FAULTS_AT_ONCE, LEASE_S
from tests.chaos.processes import Served
from tests.chaos.proxy import CALM, Harm
from tests.chaos.site import Site
from tests.postgres import Postgres

OWNER: Final = """
SELECT controller.name FROM public.stream JOIN public.shard ON shard.id = stream.shard
JOIN public.controller ON controller.id = shard.owner WHERE stream.name = 'timed'
"""
SLOW: Final = Harm(delay=1.0, delay_s=0.08)  # of each piece of what passes between a controller and the store


@dataclass(frozen=True, slots=True)
class Target:
    """What a fault may strike."""

    site: Site
    postgres: Postgres
    database: str
    record: Callable[[Record], None]
    served: Callable[[Sequence[int]], Awaitable[None]]  # waits until these ports serve every stream

    def struck(self, fault: str, victim: int | None, began: float, *, silent: bool = False, ended: bool = True) -> None:
        """Records a fault that is over now; with `silent` and without `ended`, a process that is."""
        name = None if victim is None else self.site.controllers[victim].name
        self.record(Struck(fault, name, began, time.monotonic() if ended else None, silent))


class JointFault(Protocol):
    """Something that happens once."""

    @property
    def name(self) -> str: ...

    @property
    def on_store(self) -> bool:
        """Whether it strikes the store, and no controller by itself."""
        ...

    async def strike(self, target: Target, victim: int) -> None:
        """Does it, and waits until the controller is ready again."""
        ...


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL; the next process starts after `away_s`. With `early_s` that one is killed, too, so long after its
    start."""

    away_s: float
    early_s: float | None = None
    name: str = "kill"
    on_store: bool = False

    async def strike(self, target: Target, victim: int) -> None:
        served = target.site.controllers[victim]
        await self._kill(target, victim, served)
        await asyncio.sleep(self.away_s)
        served.start()
        if self.early_s is not None:
            await asyncio.sleep(self.early_s)
            await self._kill(target, victim, served)
            served.start()
        await served.ready()

    async def _kill(self, target: Target, victim: int, served: Served) -> None:
        served.send(signal.SIGKILL)
        await served.ended()
        target.struck(self.name, victim, time.monotonic(), silent=True, ended=False)


@dataclass(frozen=True, slots=True)
class Drain:
    """SIGTERM: the controller hands everything over, and ends; the next process starts after `away_s`."""

    away_s: float
    name: str = "drain"
    on_store: bool = False

    async def strike(self, target: Target, victim: int) -> None:
        served, began = target.site.controllers[victim], time.monotonic()
        served.send(signal.SIGTERM)
        await served.ended()
        target.struck(self.name, victim, began)
        target.struck(self.name, victim, time.monotonic(), silent=True, ended=False)
        await asyncio.sleep(self.away_s)
        served.start()
        await served.ready()


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP, and SIGCONT after a while."""

    pause_s: float
    name: str = "pause"
    on_store: bool = False

    async def strike(self, target: Target, victim: int) -> None:
        served = target.site.controllers[victim]
        served.send(signal.SIGSTOP)
        began = time.monotonic()
        await asyncio.sleep(self.pause_s)
        target.struck(self.name, victim, began, silent=True)
        served.send(signal.SIGCONT)
        await served.ready(measured=False)


@dataclass(frozen=True, slots=True)
class TakeOver:
    """SIGKILL, or SIGSTOP with `stops`, and nothing else. Before it comes back the others serve everything."""

    stops: bool
    name: str = "take over"
    on_store: bool = False

    async def strike(self, target: Target, victim: int) -> None:
        site, served = target.site, target.site.controllers[victim]
        served.send(signal.SIGSTOP if self.stops else signal.SIGKILL)
        if not self.stops:
            await served.ended()
        began = time.monotonic()
        await target.served([each.port for each in site.controllers if each is not served])
        if self.stops:
            target.struck(self.name, victim, began, silent=True)
            served.send(signal.SIGCONT)
        else:
            target.record(Struck(self.name, served.name, began, None, silent=True))
            served.start()
        await served.ready(measured=not self.stops)


@dataclass(frozen=True, slots=True)
class CutStore:
    """A controller does not reach the store: its connections are reset and refused, or what is sent is held."""

    seconds: float
    resets: bool
    name: str = "cut store"
    on_store: bool = False

    async def strike(self, target: Target, victim: int) -> None:
        way = target.site.stores[victim]
        if self.resets:
            way.reset()
        else:
            way.hold()
        began = time.monotonic()
        await asyncio.sleep(self.seconds)
        target.struck(f"{self.name}: {'reset' if self.resets else 'held'}", victim, began, silent=True)
        way.open()
        await target.site.controllers[victim].ready(measured=False)


@dataclass(frozen=True, slots=True)
class CutPeers:
    """Other controllers do not reach this one: they are refused, or calls or answers are held. With `both` this one
    reaches none of the others either."""

    seconds: float
    how: str  # refuse, calls, answers
    both: bool = False
    name: str = "cut peers"
    on_store: bool = False

    async def strike(self, target: Target, victim: int) -> None:
        ways = target.site.peers if self.both else [target.site.peers[victim]]
        began = time.monotonic()
        for way in ways:
            match self.how:
                case "refuse":
                    way.reset()
                case "calls":
                    way.hold(back=False)
                case _:
                    way.hold(forth=False)
        await asyncio.sleep(self.seconds)
        for way in ways:
            way.open()
        target.struck(f"{self.name}: {self.how}", victim, began)


@dataclass(frozen=True, slots=True)
class SlowStore:
    """All that passes between a controller and the store takes long."""

    seconds: float
    name: str = "slow store"
    on_store: bool = False

    async def strike(self, target: Target, victim: int) -> None:
        way, began = target.site.stores[victim], time.monotonic()
        way.harm = SLOW
        await asyncio.sleep(self.seconds)
        way.harm = CALM
        target.struck(self.name, victim, began)
        await target.site.controllers[victim].ready(measured=False)


@dataclass(frozen=True, slots=True)
class StepHostClock:
    """The wall clock of a controller's host is set. Nothing may depend on it."""

    by_ms: int
    name: str = "step host's clock"
    on_store: bool = False

    async def strike(self, target: Target, victim: int) -> None:
        clock, began = target.site.controllers[victim].clock, time.monotonic()
        assert clock is not None
        clock.step(self.by_ms)
        target.struck(self.name, victim, began)


@dataclass(frozen=True, slots=True)
class StepStoreClock:
    """The clock of PostgreSQL's host is set."""

    by_ms: int
    name: str = "step store's clock"
    on_store: bool = True

    async def strike(self, target: Target, victim: int) -> None:
        began = time.monotonic()
        await asyncio.to_thread(step_clock, target.postgres, target.database, self.by_ms)
        target.record(Struck(self.name, None, began, time.monotonic(), leap_ms=self.by_ms))


@dataclass(frozen=True, slots=True)
class EndSessions:
    """PostgreSQL ends the sessions of all controllers; or it loses the process of one session by SIGKILL, and ends all
    others to recover."""

    crash: bool = False
    on_store: bool = True

    @property
    def name(self) -> str:
        return "kill session" if self.crash else "end sessions"

    async def strike(self, target: Target, victim: int) -> None:
        began = time.monotonic()
        what = "pid" if self.crash else "pg_terminate_backend(pid)"
        asked = (
            f"SELECT {what} FROM pg_stat_activity WHERE datname = '{target.database.rpartition('/')[2]}' "
            f"AND application_name = 'strandline'"
        )
        found = await asyncio.to_thread(target.postgres.execute, asked)
        if self.crash and found:
            await asyncio.to_thread(_crash, target.postgres, found[victim % len(found)][0])
        target.struck(self.name, None, began)


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
    on_store: bool = True

    async def strike(self, target: Target, victim: int) -> None:
        await asyncio.to_thread(target.postgres.stop, signal.SIGQUIT)
        began = time.monotonic()
        try:
            await asyncio.sleep(self.away_s)
        finally:
            target.record(Outage(began, time.monotonic(), self.name))
            await asyncio.to_thread(target.postgres.start)
        target.struck(self.name, None, began)


@dataclass(frozen=True, slots=True)
class Step:
    """A fault, which controller it strikes, and how long the load goes on before it. Without a victim it strikes the
    controller that owns the stream whose writers can be lost."""

    wait_s: float
    victim: int | None
    fault: JointFault


def _away_s(chance: random.Random) -> float:
    """How long nobody serves under a name: mostly so long that the others take over, or not at all."""
    return chance.choice((0.0, chance.uniform(0.1, 1.0), chance.uniform(4.0, 5.5)))


def _interrupted_s(chance: random.Random) -> float:
    """How long something is away: less than a lease, or longer than one."""
    return chance.choice((chance.uniform(0.2, 2.5), chance.uniform(LEASE_S + 0.2, LEASE_S + 2.5)))


# By kind: how often it comes, compared with others, and how one is drawn. Those of no weight are drawn by name only.
KINDS: Final[Mapping[str, tuple[int, Callable[[random.Random], JointFault]]]] = {
    "kill": (6, lambda chance: Kill(_away_s(chance), chance.uniform(0, 0.5) if chance.random() < 0.12 else None)),
    "drain": (3, lambda chance: Drain(_away_s(chance))),
    "pause": (5, lambda chance: Pause(_interrupted_s(chance))),
    "kill_owner": (0, lambda chance: Kill(_away_s(chance))),
    "drain_owner": (0, lambda chance: Drain(_away_s(chance))),
    "pause_owner": (0, lambda chance: Pause(chance.uniform(LEASE_S + 0.3, LEASE_S + 2.5))),
    "pause_owner_nearly": (0, lambda chance: Pause(chance.uniform(LEASE_S - 0.8, LEASE_S - 0.1))),
    "take_over": (1, lambda chance: TakeOver(stops=chance.random() < 0.5)),
    "cut_store": (4, lambda chance: CutStore(_interrupted_s(chance), resets=chance.random() < 0.5)),
    "cut_peers": (
        3,
        lambda chance: CutPeers(
            _interrupted_s(chance), chance.choice(("refuse", "calls", "answers")), both=chance.random() < 0.4
        ),
    ),
    "slow_store": (2, lambda chance: SlowStore(chance.uniform(1.0, 4.0))),
    "step_host_clock": (1, lambda chance: StepHostClock(chance.choice((-1, 1)) * chance.randrange(100, 100_000))),
    "step_store_clock": (1, lambda chance: StepStoreClock(chance.randrange(200, 3_000))),
    "set_store_clock_back": (0, lambda chance: StepStoreClock(-chance.randrange(200, 3_000))),
    "end_sessions": (2, lambda chance: EndSessions(crash=chance.random() < 0.4)),
    "kill_store": (1, lambda chance: KillStore(chance.choice((0.0, chance.uniform(0.1, 1.5), LEASE_S + 1.0)))),
}


def plan(chance: random.Random, faults: int, controllers: int, kinds: Sequence[str] = ()) -> Sequence[Step]:
    """So many faults, of these kinds or of any; now and then a longer time without one."""
    drawn = kinds or tuple(KINDS)
    weights = [max(KINDS[kind][0], 1 if kinds else 0) for kind in drawn]
    steps: list[Step] = []
    for number in range(faults):
        wait_s = chance.uniform(3.0, 6.0) if chance.random() < 0.06 else chance.uniform(0.05, 1.2)
        kind = drawn[number] if faults == len(kinds) else chance.choices(drawn, weights)[0]
        victim = chance.randrange(controllers)
        steps.append(Step(wait_s, None if "owner" in kind else victim, KINDS[kind][1](chance)))
    return steps


async def strike_all(target: Target, steps: Sequence[Step], struck: Callable[[JointFault], None]) -> None:
    """Carries a plan out, up to FAULTS_AT_ONCE at once: never two on one controller, never two on the store."""
    running: dict[int | None, asyncio.Task[None]] = {}  # by controller; None: on the store
    try:
        for step in steps:
            await asyncio.sleep(step.wait_s)
            victim = await asyncio.to_thread(_owner, target) if step.victim is None else step.victim
            place = None if step.fault.on_store else victim
            alone = isinstance(step.fault, TakeOver)
            while place in running or len(running) >= (1 if alone else FAULTS_AT_ONCE):
                await asyncio.wait(running.values(), return_when=asyncio.FIRST_COMPLETED)
                _remove_ended(running)
            running[place] = asyncio.create_task(step.fault.strike(target, victim))
            struck(step.fault)
            if alone:
                await running[place]
                _remove_ended(running)
        while running:
            await asyncio.wait(running.values())
            _remove_ended(running)
    finally:
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)


def _owner(target: Target) -> int:
    """The controller that owns the stream `timed`; the first one if nobody does."""
    found = target.postgres.execute(OWNER, target.database)
    names = [served.name for served in target.site.controllers]
    return names.index(found[0][0]) if found else 0


def _remove_ended(running: dict[int | None, asyncio.Task[None]]) -> None:
    for place, task in list(running.items()):
        if task.done():
            del running[place]
            task.result()  # raises what went wrong
