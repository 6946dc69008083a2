"""The streams and groups of a real store, without what stands around them in a controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from controller.clock import Clock
from controller.commit.freshness import Freshness
from controller.commit.loop import CommitLoop
from controller.commit.store import Store
from controller.groups.service import Groups
from controller.storage.database import open_database
from controller.storage.heads import Service
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from controller.streams.time_index import TimeIndexes
from strandline.core.changes import NoteResult
from strandline.core.note import Note
from strandline.testing import ManualClock
from tests.served import NOON

CONFIG = {"mark_interval_ms": 0, "max_ahead_ms": None}


def unfollowed(_: Service) -> None:
    """For a clock that is moved by hand."""


class World:
    """The streams and groups of a real store."""

    def __init__(self, store: Store) -> None:
        self.clock = ManualClock(NOON)
        clock = self.clock_of_streams = Clock(self.clock, by_hand=True)
        self.store = store
        self.commits = CommitLoop(self.store, clock, unfollowed)
        self.freshness = Freshness(self.store, self.commits)
        self.streams = Streams(self.store, self.commits, clock, self.freshness)
        reading, indexing = Reads(self.streams, self.store, clock), TimeIndexes(self.streams, self.store)
        self.groups = Groups(self.store, self.commits, clock, self.streams, reading, indexing, self.freshness)

    async def note(self, stream: str, time: int, writer: str = "w") -> NoteResult:
        """Takes a note, and returns when it is durable."""
        note = Note(writer=writer, times={"": time}, position={"0": time})
        return await self.streams.change(stream, lambda each, now: each.note(note, now))


def play(url: str, scene: Callable[[World], Awaitable[None]], kind: type[Store] = Store) -> None:
    async def whole() -> None:
        world = World(kind(open_database(url)))
        world.commits.start()
        await scene(world)
        await world.commits.stop(5)
        await world.store.close(2)

    asyncio.run(whole())
