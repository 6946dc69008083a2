"""The process of a controller: the product's own parts over the simulated store, in tasks that end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from controller.clock import Clock, StoreClock, StoreTime
from controller.commit.freshness import Freshness
from controller.commit.loop import CommitLoop
from controller.groups.service import Groups
from controller.lifecycle import AWAITED_MS, DUE_CHECK_MS, HEARTBEAT_MS, TOKENS_REFRESH_MS
from controller.storage.heads import Service
from controller.storage.presence import Presence
from controller.storage.subjects import Kind, Subject
from controller.streams.notes import Notes
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from controller.streams.time_index import TimeIndexes
from controller.tokens import Tokens
from strandline.errors import StrandlineError
from tests.several.judge import Judge
from tests.several.server import Server, SimulatedStore
from tests.several.virtual_time import TASKS


class HostClock:
    """The clocks of a host, which may show anything."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def wall(self) -> int:
        return self.monotonic() + self._ahead_ms

    def monotonic(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)


class Process:
    def __init__(self, number: int, server: Server, judge: Judge, host: HostClock) -> None:
        self.number = number
        self.alive = True
        self.serves = False
        self._server = server
        self._judge = judge
        self._host = host
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._context = copy_context()
        self._context.run(TASKS.set, self._tasks)
        self._stopped: asyncio.Future[None] | None = None
        self.store = SimulatedStore(server, self)
        self._starting = self.run(self._start())

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = self._context.run(asyncio.create_task, coroutine)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def awake(self) -> None:
        while self._stopped is not None:
            await asyncio.wait([self._stopped])

    def stop(self, seconds: float) -> None:
        """It does nothing for a while."""
        if self._stopped is None:
            loop = asyncio.get_running_loop()
            self._stopped = loop.create_future()
            loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        if self._stopped is not None:
            self._stopped.set_result(None)
            self._stopped = None

    def kill(self) -> None:
        self.alive = self.serves = False
        for task in list(self._tasks):
            task.cancel()
        if hasattr(self, "streams"):
            self.streams.timers.stop()
            self._ending = asyncio.create_task(self.freshness.stop())
        self._go_on()
        if self.store.session.idle_since is not None:
            self._server.end(self.store.session)

    # -- what a controller does by itself ------------------------------------------------------------------------

    async def _start(self) -> None:
        presence = Presence(str(self.number), "1", self._server.now)
        service: Service | None = None
        while service is None:
            with suppress(StrandlineError):
                service = await self.store.serve(presence.serve)
            await asyncio.sleep(0.1)
        clock = StoreClock(self._host)
        time = StoreTime(service, clock)
        self.clock = Clock(clock, service.served_until, unserved=time.unserved)
        presence.begin(self.clock.now, by_hand=False)
        store: Any = self.store
        self.commits = CommitLoop(store, self.clock, time.follow)
        self.freshness = Freshness(store, self.commits)
        self.streams = Streams(store, self.commits, self.clock, self.freshness)
        self.notes = Notes(self.streams, self.commits)
        self.reads = Reads(self.streams, store, self.clock)
        indexes = TimeIndexes(self.streams, store)
        self.groups = Groups(store, self.commits, self.clock, self.streams, self.reads, indexes, self.freshness)
        self.tokens = Tokens(store, self.clock)
        self.store.before_lock = self.check
        self.commits.start()

        async def beat() -> None:
            time.follow(await self.store.serve(presence.serve))
            self.streams.store_counts()

        async def run_due() -> None:
            self.streams.timers.run_due()

        for often_ms, what in (
            (HEARTBEAT_MS, beat),
            (HEARTBEAT_MS, run_due),
            (AWAITED_MS, self.streams.refresh_awaited),
            (DUE_CHECK_MS, self.streams.advance_due),
            (TOKENS_REFRESH_MS, self.tokens.refresh),
        ):
            self._loops.append(asyncio.create_task(self._repeat(often_ms, what)))
        self.serves = True

    async def _repeat(self, often_ms: int, what: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await asyncio.sleep(often_ms * self._server.random.uniform(0.5, 1.5) / 1000)
            await self.awake()
            with suppress(StrandlineError):
                await what()

    # -- what is judged of it ------------------------------------------------------------------------------------

    def in_memory(self) -> list[Subject]:
        streams = [each.subject for each in self.streams.in_memory()]
        return streams + [each.subject for each in self.groups.in_memory()]

    def check(self) -> None:
        """Caches that have the store's heads equal the store. Nothing of them may be unwritten. So do tokens that have
        its stamp."""
        self._judge.same_tokens(self.tokens)
        subjects = self.in_memory()
        heads = self._judge.heads(subjects)
        for subject in subjects:
            cached = self.commits.loaded(subject)
            if cached is None or cached.head.differs(heads.get(subject)):
                continue
            if subject.kind is Kind.GROUP:
                self._judge.same_group(self.groups.find_loaded(subject.name))  # type: ignore[arg-type]  # it is in memory
            else:
                loaded = self.streams.find_loaded(subject.name)
                assert loaded is not None
                self._judge.same_stream(loaded, self.clock.unserved, self.clock.now())
