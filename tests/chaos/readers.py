"""Readers over raw HTTP: marks and windows at rising positions, and a reader of a group."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.facts import Effect, body_of, effect_of, problem_of
from tests.chaos.history import Call
from tests.chaos.limits import RETRY_S
from tests.chaos.rawclient import RawClient
from tests.chaos.writers import Log


@dataclass(slots=True)
class RawReader:
    """Reads one stream: its position only rises."""

    client: RawClient
    log: Log
    keys: tuple[str, ...]
    chance: random.Random
    over: asyncio.Event
    after: dict[str, int] = field(default_factory=dict)
    position: dict[str, int] = field(default_factory=dict)

    async def run(self) -> None:
        path = f"/v1/streams/{self.log.stream.name}"
        while not self.over.is_set():
            key, roll = self.chance.choice(self.keys), self.chance.random()
            if roll < 0.45:
                await self._marks(path, key)
            elif roll < 0.95:
                self._read()
                body = {"position": dict(self.position), "key": key}
                await self.client.call("POST", f"{path}/time-window", body)
            else:
                await self.client.call("GET", path)
            await asyncio.sleep(self.chance.random() * 0.12)

    async def _marks(self, path: str, key: str) -> None:
        after, wait_ms = self.after.get(key, 0), self.chance.choice((0, 0, 200))
        query = {"key": key, "after": str(after), "limit": "1000", "wait_ms": str(wait_ms)}
        call = await self.client.call("GET", f"{path}/marks", query=query)
        told = body_of(call)
        if told is not None and told["marks"]:
            self.after[key] = told["marks"][-1]["seq"]
        elif (problem_of(call) or {}).get("code") == "unknown_seq":
            self.after[key] = 0  # the store failed over, and the mark is gone

    def _read(self) -> None:
        for segment, end in self.log.ends.items():
            at = self.position.get(segment, 0)
            if self.chance.random() < 0.7:
                at = min(end, at + self.chance.randrange(0, 12))
            if self.chance.random() < 0.05:
                at = end
            if at:
                self.position[segment] = at


@dataclass(slots=True)
class RawGroupReader:
    """A reader of a group: takes segments, reports what it has read, gives some up, and now and then begins again."""

    client: RawClient
    group: str
    name: str
    logs: Mapping[str, Log]  # by stream
    chance: random.Random
    over: asyncio.Event
    epoch: int | None = None
    owned: dict[tuple[str, str], int] = field(default_factory=dict)  # by stream and segment

    @property
    def path(self) -> str:
        return f"/v1/reader-groups/{self.group}/readers/{self.name}"

    async def run(self) -> None:
        while not self.over.is_set():
            await self._step()
            await asyncio.sleep(self.chance.random() * 0.15)

    async def _step(self) -> None:
        roll = self.chance.random()
        if self.epoch is None:
            await self._ask("PUT", self.path, {"positions": {}})
        elif roll < 0.15:
            await self._ask("POST", f"{self.path}/acquire", {"epoch": self.epoch, "max": 1})
        elif roll < 0.22 and self.owned:
            place = self.chance.choice(sorted(self.owned))
            await self._ask("POST", f"{self.path}/release", {"epoch": self.epoch, "positions": self._read([place])})
        elif roll < 0.24:
            self.epoch = None
        else:
            await self._ask("PUT", self.path, {"epoch": self.epoch, "positions": self._read(list(self.owned))})

    def _read(self, places: Sequence[tuple[str, str]]) -> dict[str, dict[str, int]]:
        """Positions somewhat further on."""
        read: dict[str, dict[str, int]] = {}
        for stream, segment in places:
            at = self.owned[stream, segment] + self.chance.randrange(0, 8)
            read.setdefault(stream, {})[segment] = min(self.logs[stream].ends[segment], at)
        return read

    async def _ask(self, method: str, path: str, body: object) -> None:
        """Makes a call until it is answered. What is repeated is the same call."""
        while True:
            call: Call = await self.client.call(method, path, body)
            told, problem = body_of(call), problem_of(call)
            if told is not None:
                self.epoch = told["epoch"]
                owned = told["owned"].items()
                self.owned = {(stream, segment): at for stream, each in owned for segment, at in each.items()}
                return
            if problem is not None and problem.get("status", 500) < 500:
                self.epoch, self.owned = None, {}
                return
            if effect_of(call) is Effect.DONE or self.over.is_set():
                return
            await asyncio.sleep(self.chance.random() * 2 * RETRY_S)
