"""Controllers that serve one PostgreSQL together, each with its driver, its streams and its groups."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from controller.app import SystemClock
from controller.cluster.member import Member
from controller.cluster.records import Adopt, Identity, Kind
from controller.commit.group_commit import Committer
from controller.commit.store import Store
from controller.groups.service import Groups
from controller.joint.driver import Driver
from controller.joint.store_time import StoreTime
from controller.storage import cluster
from controller.storage.database import open_joint
from controller.storage.session import StoreConnection
from controller.streams.due_streams import DueStreams
from controller.streams.notes import Noted, Notes
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from controller.streams.time_index import TimeIndexes
from strandline.core.note import Note
from strandline.errors import NotOwner, StoreUnavailable, StoreUndecided
from tests.storage.loads import load_stream

CONFIG = {"mark_interval_ms": 0, "max_ahead_ms": None}
PATIENCE_S = 60
AWAY = (NotOwner, StoreUnavailable, StoreUndecided)


class PausedClock(SystemClock):
    """The host's clocks. A pause of the process passes at once; a host that was suspended believes that none was."""

    def __init__(self) -> None:
        self.paused_ms = 0

    def monotonic(self) -> int:
        return super().monotonic() + self.paused_ms


class Node:
    """One controller, as far as streams and groups go."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.host = PausedClock()
        database, sessions = open_joint(url)
        self.member = Member(Identity(name, f"http://{name}", None, "1"), partial(secrets.randbits, 63))
        self.driver = Driver(self.member, sessions, self.host.monotonic)
        clock = StoreTime(self.host, self.member)
        self.store = Store(database, None, settle=self._settle)
        self.committer = Committer(self.store.commit, self.driver.record)
        tenures = self.driver.tenures
        self.streams = Streams(self.store, self.committer, clock, tenures)
        self.notes = Notes(self.streams, self.committer, clock)
        self.reading = Reads(self.streams, self.store, clock)
        indexing = TimeIndexes(self.streams, self.store)
        self.groups = Groups(self.store, self.committer, clock, self.streams, self.reading, indexing, tenures)

        self.due = DueStreams(self.streams, self.store, self.committer, clock, tenures.all)

    def _settle(self, connection: StoreConnection) -> None:
        cluster.adopt(connection, Adopt(self.member.id))

    async def start(self) -> None:
        self.committer.start()
        self.due.start()
        await self.driver.begin([self.streams, self.groups], self.committer.beat_soon, self.due.check_soon)

    async def crash(self) -> None:
        """Says nothing any more, as after kill -9. What has been sent may still arrive."""
        await self.due.stop()
        self.streams.timers.stop()
        await self.driver.close(2)
        await self.committer.stop(0)
        await self.store.close(2)

    async def stop(self) -> None:
        """Hands everything over, and ends."""
        self.driver.drain()
        async with asyncio.timeout(PATIENCE_S):
            await self.driver.stopped
        await self.crash()

    @property
    def shards(self) -> int:
        return len(self.driver.tenures)

    def owns(self, stream: str) -> bool:
        try:
            self.driver.tenures.of(Kind.STREAM, stream)
        except NotOwner:
            return False
        return True

    async def note(self, stream: str, time: int, writer: str = "w") -> Noted:
        return await self.notes.take(stream, Note(writer=writer, times={"": time}, position={"0": time}))

    async def marks(self, stream: str) -> list[int]:
        """The seqs of the marks that the store has."""
        stored = await self.store.read(load_stream, stream)
        return [] if stored is None else [mark.seq for mark in stored.heads.get("", [])]


class Nodes:
    """All controllers of a store."""

    def __init__(self, url: str, ended: AsyncExitStack) -> None:
        self.url = url
        self.live: list[Node] = []
        self._ended = ended

    async def start(self, *names: str) -> list[Node]:
        """Starts controllers; returns when each has a lease."""
        made = []
        for name in names:
            node = Node(self.url, name)
            self._ended.push_async_callback(self._end, node)
            await node.start()
            self.live.append(node)
            made.append(node)
        return made

    async def _end(self, node: Node) -> None:
        if node in self.live:
            await self.crash(node)

    async def crash(self, node: Node) -> None:
        self.live.remove(node)
        await node.crash()

    async def stop(self, node: Node) -> None:
        self.live.remove(node)
        await node.stop()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Returns once something holds; it may after any event."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                events = [asyncio.create_task(node.driver.changed()) for node in self.live]
                await asyncio.wait(events, return_when="FIRST_COMPLETED")
                for event in events:
                    event.cancel()

    async def until_even(self) -> None:
        """Returns once every shard is served, and none of the controllers has more than its share."""
        total = self.live[0].driver.tenures.shards
        share = -(-total // len(self.live))

        def even() -> bool:
            counts = [node.shards for node in self.live]
            return sum(counts) == total and max(counts) <= share

        await self.until(even)

    async def served_by(self, stream: str, call: Callable[[Node], Awaitable[Noted | bool]]) -> Node:
        """Makes a call where its stream is served, again until it succeeds; returns by whom."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for node in self.live:
                    if node.owns(stream):
                        try:
                            await call(node)
                        except AWAY:
                            continue
                        return node
                await self.until(lambda: any(node.owns(stream) for node in self.live))

    async def note(self, stream: str, time: int) -> Node:
        return await self.served_by(stream, lambda node: node.note(stream, time))

    async def create(self, streams: Iterable[str]) -> None:
        for stream in streams:
            await self.served_by(stream, partial(_create, stream))


async def _create(stream: str, node: Node) -> bool:
    return await node.streams.create(stream, 1, CONFIG)


@asynccontextmanager
async def nodes(url: str) -> AsyncIterator[Nodes]:
    async with AsyncExitStack() as ended:
        yield Nodes(url, ended)
