"""Several controllers that serve one PostgreSQL, for what is measured on them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.servers import RunningServer, running
from controller.cluster.records import Kind
from controller.cluster.shards import fair_share, shard_of
from tests.ports import free_port
from tests.postgres import Postgres

BALANCED_DEADLINE_S: Final = 60
OWNERS: Final = """
SELECT shard.id, controller.name FROM shard LEFT JOIN controller ON controller.id = shard.owner
AND controller.ended_at IS NULL ORDER BY shard.id
"""


@dataclass
class Cluster:
    """Controllers by name, and the database that they serve."""

    postgres: Postgres
    database: str
    opened: ExitStack
    beginning: Sequence[str] = ()  # of the command of each controller

    def __post_init__(self) -> None:
        self.controllers: dict[str, RunningServer] = {}

    def start(self, name: str) -> None:
        """Starts a controller, or one that was ended again."""
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        command = ("serve", "--port", str(port), "--database", self.database, "--name", name, "--address", address)
        server = running("-m", "controller", *command, beginning=self.beginning)
        self.controllers[name] = self.opened.enter_context(server)

    def owners(self) -> list[str | None]:
        """The names of the owners of all shards."""
        return [name for _, name in self.postgres.execute(OWNERS, self.database)]

    def owners_of(self, streams: Sequence[str]) -> dict[str, list[str]]:
        """The streams of each controller."""
        owners = self.owners()
        found: dict[str, list[str]] = {name: [] for name in self.controllers}
        for stream in streams:
            owner = owners[shard_of(Kind.STREAM, stream, len(owners))]
            assert owner is not None
            found[owner].append(stream)
        return found

    def balance(self) -> None:
        """Waits until all controllers have their share."""
        deadline = time.monotonic() + BALANCED_DEADLINE_S
        while not self._is_balanced():
            if time.monotonic() > deadline:
                raise SystemExit(f"after {BALANCED_DEADLINE_S} s the controllers did not have their shares")
            time.sleep(0.1)

    def _is_balanced(self) -> bool:
        owners = self.owners()
        counts = [owners.count(name) for name in self.controllers]
        return sum(counts) == len(owners) and max(counts) <= fair_share(len(owners), len(self.controllers))


def sessions_of(postmaster: int) -> list[int]:
    """The processes of a PostgreSQL."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[1]) == postmaster:
            found.append(int(each.parent.name))
    return found
