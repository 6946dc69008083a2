"""Where a round runs: its controllers, and the ways to them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.processes import Launcher, Served
from tests.chaos.proxy import Harm, Proxy
from tests.postgres import Postgres


@dataclass(slots=True)
class Site:
    """The controllers. Writers and readers come by proxies, each controller's in the order of the controllers."""

    controllers: list[Served]
    for_writers: list[Proxy] = field(default_factory=list)
    for_readers: list[Proxy] = field(default_factory=list)
    stores: list[Proxy] = field(default_factory=list)  # of several controllers: the way of each to PostgreSQL

    @property
    def writers_ports(self) -> list[int]:
        return [proxy.port for proxy in self.for_writers]

    @property
    def readers_ports(self) -> list[int]:
        return [proxy.port for proxy in self.for_readers]

    @property
    def ports(self) -> list[int]:
        """Straight to the controllers."""
        return [served.port for served in self.controllers]

    def harm(self, harm: Harm) -> None:
        """Sets how clients are harmed."""
        for proxy in (*self.for_writers, *self.for_readers):
            proxy.harm = harm

    @property
    def harms(self) -> Counter[str]:
        return sum((proxy.counts for proxy in (*self.for_writers, *self.for_readers)), Counter[str]())

    def abandon(self) -> None:
        for served in self.controllers:
            served.abandon()


@asynccontextmanager
async def alone(served: Served, chance: random.Random) -> AsyncIterator[Site]:
    """One controller."""
    async with AsyncExitStack() as open_:
        proxies = [await open_.enter_async_context(Proxy(served.port, seed)) for seed in _seeds(chance, 2)]
        yield Site([served], proxies[:1], proxies[1:])


@asynccontextmanager
async def several(
    launcher: Launcher,
    postgres: Postgres,
    database: str,
    folder: Path,
    count: int,
    chance: random.Random,
) -> AsyncIterator[Site]:
    """So many controllers on one PostgreSQL."""
    site = Site([])
    async with AsyncExitStack() as open_:
        for number in range(count):
            store, for_writers, for_readers = _seeds(chance, 3)
            site.stores.append(await open_.enter_async_context(Proxy(postgres.port, store)))
            own = database.replace(f":{postgres.port}/", f":{site.stores[-1].port}/")
            served = Served(launcher, own, folder, f"controller-{number}")
            site.controllers.append(served)
            site.for_writers.append(await open_.enter_async_context(Proxy(served.port, for_writers)))
            site.for_readers.append(await open_.enter_async_context(Proxy(served.port, for_readers)))
        yield site


def _seeds(chance: random.Random, count: int) -> Iterator[int]:
    return (int(chance.random() * 2**32) for _ in range(count))
