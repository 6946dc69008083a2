"""Where a round runs: its controllers, the ways to them and to their store, and who owned what."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.clocks import SetClock
from tests.chaos.history import Tenancy
from tests.chaos.processes import Launcher, Served
from tests.chaos.proxy import Harm, Proxy
from tests.ports import free_port
from tests.postgres import Postgres

# Each change of a shard's owner or fence, with the moment before its commit by the machine's clock.
TENANCIES = """
CREATE SCHEMA IF NOT EXISTS chaos;
CREATE TABLE chaos.tenancy (shard integer, owner bigint, fence integer, clock_floor bigint, began double precision);
CREATE TABLE chaos.controller (id bigint PRIMARY KEY, name text);
CREATE FUNCTION chaos.note_controller() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO chaos.controller VALUES (NEW.id, NEW.name); RETURN NULL; END $$;
CREATE FUNCTION chaos.note_tenancy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.tenancy
    VALUES (NEW.id, NEW.owner, NEW.fence, NEW.clock_floor, extract(epoch FROM pg_catalog.clock_timestamp()));
    RETURN NULL;
END $$;
CREATE TRIGGER note_controller AFTER INSERT ON public.controller
FOR EACH ROW EXECUTE FUNCTION chaos.note_controller();
CREATE TRIGGER note_tenancy AFTER UPDATE ON public.shard FOR EACH ROW
WHEN (OLD.owner IS DISTINCT FROM NEW.owner OR OLD.fence IS DISTINCT FROM NEW.fence)
EXECUTE FUNCTION chaos.note_tenancy();
INSERT INTO chaos.controller SELECT id, name FROM public.controller;
INSERT INTO chaos.tenancy SELECT id, owner, fence, clock_floor, 0 FROM public.shard;
"""
OWNED = """
SELECT owned.kind, owned.name, controller.name, fence, clock_floor, began
FROM (
    SELECT 'stream' AS kind, name, shard FROM public.stream
    UNION ALL SELECT 'group', name, shard FROM public.reader_group
) AS owned
JOIN chaos.tenancy USING (shard) LEFT JOIN chaos.controller ON controller.id = tenancy.owner
ORDER BY began
"""


@dataclass(slots=True)
class Site:
    """One controller on its own, or several that serve a PostgreSQL together.

    Writers and readers come by proxies, each controller's in the order of the controllers. So do several controllers
    to each other (`peers`) and to the store (`stores`).
    """

    controllers: list[Served]
    for_writers: list[Proxy] = field(default_factory=list)
    for_readers: list[Proxy] = field(default_factory=list)
    peers: list[Proxy] = field(default_factory=list)
    stores: list[Proxy] = field(default_factory=list)

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
async def together(
    launcher: Launcher, postgres: Postgres, database: str, folder: Path, count: int, mutant: str | None, seed: int
) -> AsyncIterator[Site]:
    """So many controllers on one PostgreSQL."""
    chance, site = random.Random(seed), Site([])
    async with AsyncExitStack() as open_:
        for number in range(count):
            port = free_port()
            seeds = list(_seeds(chance, 4))
            for proxies, to, own in zip(
                (site.for_writers, site.for_readers, site.peers, site.stores),
                (port, port, port, postgres.port),
                seeds,
                strict=True,
            ):
                proxies.append(await open_.enter_async_context(Proxy(to, own)))
            name = f"c{number}"
            options = ["--name", name, "--address", f"http://127.0.0.1:{site.peers[-1].port}"]
            options += ["--client-address", f"http://127.0.0.1:{site.for_writers[-1].port}"]
            served = Served(
                launcher,
                database.replace(f":{postgres.port}/", f":{site.stores[-1].port}/"),
                folder,
                mutant,
                name=name,
                options=options,
                port=port,
                clock=SetClock(folder / f"{name}.clock"),
            )
            site.controllers.append(served)
        yield site


def _seeds(chance: random.Random, count: int) -> Iterator[int]:
    return (int(chance.random() * 2**32) for _ in range(count))


def record_tenancies(postgres: Postgres, database: str) -> None:
    """From now on the store records who owns what. Its schema has to be there, and no controller yet: its transactions
    come by a proxy in the caller's loop, which this blocks while it waits for their locks."""
    postgres.execute(TENANCIES, database)


def tenancies(postgres: Postgres, database: str) -> Sequence[Tenancy]:
    """Who owned each stream and group, on the clock of the harness."""
    ahead = time.time() - time.monotonic()
    found = postgres.execute(OWNED, database)
    return [
        Tenancy(kind, name, owner, fence, clock_floor, max(0.0, began - ahead))
        for kind, name, owner, fence, clock_floor, began in found
    ]
