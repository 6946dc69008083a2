"""What is done to the processes while the load goes on: each fault an object, drawn from a seed.

A fault ends when the controller is ready again. What it reports as an outage is at most the time in which nobody could
be served, so that nobody is blamed for silence by mistake.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.chaos.history import Outage
from tests.chaos.limits import COUNTED_AWAY_S
from tests.chaos.processes import Served
from tests.postgres import Postgres


@dataclass(frozen=True, slots=True)
class Target:
    """What a fault may strike."""

    served: Served
    postgres: Postgres | None
    database: str
    record: Callable[[Outage], None]


class Fault(Protocol):
    """Something that happens once."""

    @property
    def name(self) -> str: ...

    @property
    def kills(self) -> int:
        """How many processes it kills."""
        ...

    async def strike(self, target: Target) -> None:
        """Does it, and waits until the controller is ready again."""
        ...


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL; the next controller starts after `away_s`. With `early_s` that one is killed, too, so long after its
    start, whatever it is doing by then."""

    away_s: float = 0.0
    early_s: float | None = None
    name: str = "kill"

    @property
    def kills(self) -> int:
        return 1 if self.early_s is None else 2

    async def strike(self, target: Target) -> None:
        began = await _end(target, signal.SIGKILL, self.away_s, self.name)
        if self.early_s is not None:
            await asyncio.sleep(self.early_s)
            began = await _end(target, signal.SIGKILL, 0.0, self.name)
        await _come_back(target, began, self.name)


@dataclass(frozen=True, slots=True)
class End:
    """SIGTERM: an end in order."""

    away_s: float = 0.0
    name: str = "end"
    kills: int = 0

    async def strike(self, target: Target) -> None:
        began = await _end(target, signal.SIGTERM, self.away_s, self.name)
        await _come_back(target, began, self.name)


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP, and SIGCONT after a while."""

    pause_s: float
    name: str = "pause"
    kills: int = 0

    async def strike(self, target: Target) -> None:
        target.served.send(signal.SIGSTOP)
        began = time.monotonic()
        await asyncio.sleep(self.pause_s)
        target.record(Outage(began, time.monotonic(), self.name))
        target.served.send(signal.SIGCONT)
        await target.served.ready(measured=False)


@dataclass(frozen=True, slots=True)
class EndSessions:
    """PostgreSQL ends the sessions of the controller."""

    name: str = "end sessions"
    kills: int = 0

    async def strike(self, target: Target) -> None:
        assert target.postgres is not None
        database = target.database.rpartition("/")[2]
        ending = (
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}' "
            f"AND application_name = 'strandline'"
        )
        await asyncio.to_thread(target.postgres.execute, ending)
        await target.served.ready(measured=False)


@dataclass(frozen=True, slots=True)
class KillStore:
    """PostgreSQL ends as in a crash, and starts again after a while. The controller goes on."""

    away_s: float = 0.0
    name: str = "kill store"
    kills: int = 1

    async def strike(self, target: Target) -> None:
        assert target.postgres is not None
        await asyncio.to_thread(target.postgres.stop, signal.SIGQUIT)
        began = time.monotonic()
        await asyncio.sleep(self.away_s)
        target.record(Outage(began, time.monotonic(), self.name))
        await asyncio.to_thread(target.postgres.start)
        await target.served.ready(measured=False)


async def _end(target: Target, how: signal.Signals, away_s: float, name: str) -> float:
    """Ends the process and starts the next one; returns when the one had ended."""
    target.served.send(how)
    await target.served.ended()
    began = time.monotonic()
    await asyncio.sleep(away_s)
    target.record(Outage(began, time.monotonic(), name))
    target.served.start()
    return began


async def _come_back(target: Target, began: float, name: str) -> None:
    """Until a connection was refused last nobody can have been served."""
    refused = await target.served.ready()
    if refused > began:
        target.record(Outage(began, refused, name))


@dataclass(frozen=True, slots=True)
class Step:
    """A fault, and how long the load goes on before it."""

    wait_s: float
    fault: Fault


def plan(chance: random.Random, kills: int, *, postgresql: bool) -> Sequence[Step]:
    """Faults with so many kills, and others in between; now and then a longer time without any."""
    steps: list[Step] = []
    left = kills
    while left > 0:
        wait_s = chance.uniform(3.0, 5.0) if chance.random() < 0.06 else chance.uniform(0.05, 1.3)
        fault = draw(chance, postgresql=postgresql)
        left -= fault.kills
        steps.append(Step(wait_s, fault))
    return steps


def draw(chance: random.Random, *, postgresql: bool) -> Fault:
    away_s = chance.choice((0.0, 0.0, 0.0, chance.uniform(0.1, 1.2)))
    roll = chance.random()
    if roll < 0.08:
        return End(away_s)
    if roll < 0.18:
        return Pause(chance.choice((chance.uniform(0.1, 1.2), chance.uniform(COUNTED_AWAY_S, 5.0))))
    if postgresql and roll < 0.30:
        return EndSessions()
    if postgresql and roll < 0.38:
        return KillStore(chance.choice((0.0, 0.0, chance.uniform(0.1, 1.5))))
    return Kill(away_s, chance.uniform(0.0, 0.5) if chance.random() < 0.12 else None)
