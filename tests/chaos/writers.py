"""Faithful writers over raw HTTP, and the log that they write to: their events are never older than what they noted."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.facts import Effect, body_of, effect_of, problem_of
from tests.chaos.history import Appended, Call, Record, Stream
from tests.chaos.limits import RETRY_S
from tests.chaos.rawclient import RawClient


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Log:
    """A log in this process: appends are instant, and recorded."""

    def __init__(self, stream: Stream, record: Callable[[Record], None]) -> None:
        self.stream = stream
        self.ends = dict.fromkeys(stream.segments, 0)
        self.newest: dict[str, dict[str, int]] = {segment: {} for segment in stream.segments}
        self._record = record

    def append(self, writer: str, segment: str, times: Mapping[str, int]) -> int:
        """Appends an event; returns the offset behind it."""
        offset = self.ends[segment]
        self.ends[segment] = offset + 1
        known = self.newest[segment]
        for key, at in times.items():
            known[key] = max(at, known.get(key, at))
        self._record(Appended(self.stream.name, segment, offset, writer, dict(times), time.monotonic()))
        return offset + 1


@dataclass(frozen=True, slots=True)
class Habits:
    """What a raw writer is like."""

    keys: tuple[str, ...] = ("",)
    segments: tuple[str, ...] = ()  # that it appends to
    whole_log: bool = False  # it notes the ends of all segments, not of what it wrote itself
    tells_newest: bool = False
    uses_epochs: bool = True
    leaves: bool = True  # goes idle and closes now and then
    careless: bool = False  # it writes below its floor at times, and has to be told that this is late
    naps_s: float = 0.0  # it is silent for so long now and then
    think_s: float = 0.12
    lag_ms: int = 0


@dataclass(slots=True)
class RawWriter:
    """One writer. A call is repeated until it is answered; each note has a greater time than the one before."""

    client: RawClient
    log: Log
    name: str
    habits: Habits
    chance: random.Random
    over: asyncio.Event
    epochs: list[int] = field(default_factory=list)
    is_in: bool = False
    noted: dict[str, int] = field(default_factory=dict)  # the greatest time that was sent, by key
    floor: dict[str, int] = field(default_factory=dict)
    own: dict[str, int] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"/v1/streams/{self.log.stream.name}/writers/{self.name}"

    async def run(self) -> None:
        while not self.over.is_set():
            if self.is_in:
                await self._live()
            else:
                await self._register()
            await asyncio.sleep(self.chance.random() * 2 * self.habits.think_s)
        if not self.is_in:
            await self._register()
        await self._note()  # in the end everybody is in, so that time can be seen to move on

    async def _live(self) -> None:
        habits, roll = self.habits, self.chance.random()
        await self._note()
        if not self.is_in or not habits.leaves:
            pass
        elif roll < 0.012:
            await self._leave("POST", f"{self.path}/idle")
        elif roll < 0.022:
            await self._leave("DELETE", self.path)
        elif roll < 0.032 and len(self.epochs) > 1:
            await self._note_with_old_epoch()
        elif roll < 0.045:
            await self._register()
        elif roll < 0.06:
            await self._look()
        if habits.naps_s and roll > 0.94:
            await asyncio.sleep(habits.naps_s)

    async def _until_answered(self, method: str, path: str, body: Any = None, query: Any = None) -> Call:
        while True:
            call = await self.client.call(method, path, body, query)
            effect = effect_of(call)
            problem = problem_of(call)
            if effect is Effect.DONE or (problem is not None and problem.get("status", 500) < 500):
                return call
            await asyncio.sleep(self.chance.random() * 2 * RETRY_S)

    async def _register(self) -> None:
        keys = self.habits.keys
        call = await self._until_answered("PUT", self.path, None if keys == ("",) else {"keys": list(keys)})
        told = body_of(call)
        if told is None:
            return
        self.epochs.append(told["epoch"])
        self._heed(told["floors"])
        self.is_in = True

    def _heed(self, floors: Mapping[str, int | None]) -> None:
        """What is written from now on is at or above the floors, as it has to be not to be late."""
        if self.habits.careless:
            return
        for key, floor in floors.items():
            if floor is not None:
                self.floor[key] = max(floor, self.floor.get(key, floor))

    def _least(self, key: str, at: int) -> int:
        return max(at, self.floor.get(key, at), self.noted.get(key, at))

    def _write(self) -> None:
        for _ in range(self.chance.randrange(0, 4)):
            now = wall_ms() - self.habits.lag_ms
            times = {key: self._least(key, now - self.chance.randrange(0, 60)) for key in self.habits.keys}
            segment = self.chance.choice(self.habits.segments)
            self.own[segment] = self.log.append(self.name, segment, times)

    def _next_note(self) -> dict[str, Any]:
        """A note of all that was written, with times above those of the note before."""
        self._write()
        habits, now = self.habits, wall_ms() - self.habits.lag_ms
        times = {}
        for key in habits.keys:
            times[key] = max(now, self.floor.get(key, 0), self.noted.get(key, 0) + 1)
        self.noted.update(times)
        position = dict(self.log.ends) if habits.whole_log else dict(self.own)
        note: dict[str, Any] = {"writer": self.name, "position": position}
        if habits.uses_epochs:
            note["epoch"] = self.epochs[-1]
        keyed = habits.keys != ("",)
        note.update({"times": times} if keyed else {"time": times[""]})
        if habits.tells_newest and position:
            newest = {
                key: max(self.log.newest[segment][key] for segment, offset in position.items() if offset)
                for key in habits.keys
            }
            note["newest"] = newest if keyed else newest[""]
        return note

    async def _note(self) -> None:
        """Notes, until it is answered; where nothing was changed, now and then it looks, and makes another note."""
        note = self._next_note()
        path = f"/v1/streams/{self.log.stream.name}/notes"
        while True:
            many = self.chance.random() < 0.2
            call = await self.client.call("POST", path, {"notes": [note]} if many else note)
            told = body_of(call)
            result = told if told is None or not many else told["results"][0]
            effect = effect_of(call, result)
            if effect is Effect.DONE and result is not None:
                self._heed(result.get("floors") or {"": result.get("floor")})
                if self.chance.random() < 0.05:
                    await self.client.call("POST", path, note)  # repeated, it is no refusal
                return
            problem = problem_of(call) or (result if result is not None and "code" in result else None)
            if problem is not None and problem.get("status", 500) < 500:
                self.is_in = False  # it registers again, as a program does that was fenced
                return
            if effect is Effect.NONE and self.chance.random() < 0.3:
                await self._look()
                note = self._next_note()
            await asyncio.sleep(self.chance.random() * 2 * RETRY_S)

    async def _look(self) -> None:
        await self.client.call("GET", f"/v1/streams/{self.log.stream.name}/writers", query={"limit": "1000"})

    async def _leave(self, method: str, path: str) -> None:
        await self._until_answered(method, path, query={"epoch": str(self.epochs[-1])})
        self.is_in = False
        await asyncio.sleep(self.chance.random() * 0.5)

    async def _note_with_old_epoch(self) -> None:
        """As a process does that was replaced; it has to be refused."""
        note = {"writer": self.name, "position": dict(self.own), "epoch": self.epochs[-2]}
        times = {key: self.noted.get(key, wall_ms()) for key in self.habits.keys}
        note.update({"times": times} if self.habits.keys != ("",) else {"time": times[""]})
        await self.client.call("POST", f"/v1/streams/{self.log.stream.name}/notes", note)


async def append_for_ever(log: Log, chance: random.Random, over: asyncio.Event) -> None:
    """Brokers of an ingestion stream: events come from anybody, and have no times of their own."""
    while not over.is_set():
        log.append("broker", chance.choice(log.stream.segments), {})
        await asyncio.sleep(chance.random() * 0.08)


async def report_tail(client: RawClient, log: Log, chance: random.Random, over: asyncio.Event) -> None:
    """A tail reporter: gets the clock, then reads the log's ends, then reports both until it is answered."""
    stream = log.stream.name
    clock = 0
    while True:
        last = over.is_set()
        call = await client.call("GET", f"/v1/streams/{stream}")
        if effect_of(call) is not Effect.DONE:
            await asyncio.sleep(chance.random() * 2 * RETRY_S)
            continue
        clock = max(clock, getattr(call.outcome, "clock", None) or 0)
        body = {"reporter": "tail", "time": clock, "position": dict(log.ends)}
        while effect_of(await client.call("POST", f"/v1/streams/{stream}/tail", body)) is not Effect.DONE:
            await asyncio.sleep(chance.random() * 2 * RETRY_S)
        if last:
            return
        await asyncio.sleep(chance.random() * 0.3)


async def create_for_ever(client: RawClient, chance: random.Random, over: asyncio.Event) -> None:
    """Creates one stream after the other, each with one try, and looks whether it is there."""
    number = 0
    while not over.is_set():
        number += 1
        path = f"/v1/streams/probe-{number}"
        await client.call("PUT", path, {"segments": 1})
        while effect_of(await client.call("GET", path)) is Effect.MAYBE:
            await asyncio.sleep(chance.random() * 2 * RETRY_S)
        await asyncio.sleep(chance.random() * 0.3)


def any_of(chance: random.Random, ways: Sequence[Sequence[int]]) -> random.Random | None:
    """What a client draws the controller of each call from; nothing where there is only one."""
    return random.Random(chance.random()) if len(ways[0]) > 1 else None


def raw_writers(
    log: Log,
    names: Sequence[str],
    habits: Callable[[int], Habits],
    ways: Sequence[Sequence[int]],
    record: Callable[[Record], None],
    chance: random.Random,
    over: asyncio.Event,
) -> list[RawWriter]:
    """Writers of one log; each reaches the controllers by one of the ways, which are ports."""
    found = []
    for number, name in enumerate(names):
        own = random.Random(chance.random())
        client = RawClient(f"{name}@{log.stream.name}", ways[number % len(ways)], record, any_of(own, ways))
        found.append(RawWriter(client, log, name, habits(number), own, over))
    return found
