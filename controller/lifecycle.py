"""A controller: how it is made of its store, its time, who commits and what serves callers; what it does by itself,
whether it is ready, and its orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from controller.clock import Clock, HostClock, StoreClock, StoreTime
from controller.commit.freshness import Freshness
from controller.commit.health import Outage, StoreHealth
from controller.commit.loop import CommitLoop
from controller.commit.store import Store
from controller.groups.service import Groups
from controller.limits import DEFAULT_LIMITS, Limits
from controller.mark_retention import Retention
from controller.operator_log import log_event
from controller.operators.denied_calls import DeniedCalls
from controller.operators.metrics import Counts, Metrics
from controller.operators.status_reader import StatusReader
from controller.settings import START_DEADLINE_S
from controller.storage.database import Database, open_database
from controller.storage.diagnosis import Cause
from controller.storage.heads import Service, read_service
from controller.storage.kinds import kind_of, parse_url
from controller.storage.presence import Presence, present_controllers
from controller.storage.refusals import StoreAway, shown
from controller.storage.transaction import refusing
from controller.storage.worker import in_thread
from controller.streams.mark_feed import MarkFeed
from controller.streams.notes import Notes
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from controller.streams.time_index import TimeIndexes
from controller.tokens import Tokens
from strandline.errors import StoreUnavailable, StoreUndecided, StrandlineError
from strandline.version import __version__
from strandline.wire.controllers import ControllerReply, ControllersReply

HEARTBEAT_MS: Final = 1_000  # how often the store records that somebody serves it
LOOK_AROUND_MS: Final = 1_000  # how often the clock is read, and what was counted is written
RETENTION_MS: Final = 1_000  # how often marks are looked for that are too old
LET_GO_MS: Final = 10_000  # how often streams that nobody calls leave memory
AWAITED_MS: Final = 50  # how often marks of other controllers are looked for, while somebody waits for some
DUE_CHECK_MS: Final = 1_000  # how often streams are looked for that time alone should have changed
TOKENS_REFRESH_MS: Final = 500  # how often a controller checks for new and revoked tokens
TOKEN_USE_MS: Final = 60_000  # how often the store records which tokens were used

log = logging.getLogger(__name__)


class Readiness(NamedTuple):
    """Why a call could not be served, if so. A store that is damaged in places answers all the same."""

    reason: str | None
    store_answers: bool


@dataclass(kw_only=True, eq=False)
class Controller:
    """A controller that serves one store. `start_controller` makes it."""

    # What carries it
    store: Store
    commits: CommitLoop
    freshness: Freshness
    health: StoreHealth
    clock: Clock
    time: StoreTime
    presence: Presence
    limits: Limits
    # What callers ask for
    tokens: Tokens
    streams: Streams
    notes: Notes
    reading: Reads
    following: MarkFeed
    indexing: TimeIndexes
    groups: Groups
    retention: Retention
    status: StatusReader
    measures: Metrics
    # What it knows of itself
    counts: Counts
    denials: DeniedCalls
    version: str = __version__
    since: int = 0  # once it serves
    stopping: bool = False
    _stop_by: float = 0.0  # set once it is stopping
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)  # what it does by itself

    def serve(self, *, by_hand: bool) -> None:
        """Begins what a controller does by itself."""
        self.since = self.clock.now()
        tokens, streams = self.tokens, self.streams
        run = [self._repeat(TOKENS_REFRESH_MS, tokens.refresh), self._repeat(TOKEN_USE_MS, tokens.note_use)]
        if self.store.is_shared:
            run.append(self._repeat(AWAITED_MS, streams.refresh_awaited))
        if not by_hand:
            self.clock.now()
            self.clock.watched = True
            run += [
                self._repeat(HEARTBEAT_MS, self._beat),  # alone: a late one is time that nobody served
                self._repeat(LOOK_AROUND_MS, self._look_around),
                self._repeat(RETENTION_MS, self.retention.run_due),
                self._repeat(DUE_CHECK_MS, streams.advance_due, 0.5),  # not all controllers at once
                self._repeat(LET_GO_MS, streams.let_go),
            ]
        self._tasks = [asyncio.create_task(each, name="repeated work") for each in run]

    async def controllers(self) -> ControllersReply:
        """Who serves the store, as it was a moment ago."""
        found: ControllersReply = await self.status.memo.get("controllers", self._controllers)
        return found

    async def _controllers(self) -> ControllersReply:
        seen, now = await self.store.read(present_controllers, self.clock.now()), self.clock.now()
        found = [
            ControllerReply(
                name=each.name, version=each.version, state=each.state(now), since=each.since, seen_at=each.seen_at
            )
            for each in seen
        ]
        return ControllersReply(at=now, controllers=tuple(found))

    def begin_stop(self) -> None:
        """Ends readiness, answers waiting readers, and starts the deadline of `stop`, whatever the store does."""
        if not self.stopping:
            self._stop_by = asyncio.get_running_loop().time() + self.limits.drain_s
        self.stopping = True
        self.reading.stop()

    @property
    def calls_end_in_s(self) -> int:
        """How long calls may still take once this controller is stopping."""
        return max(0, round(self._stop_by - self.limits.stop_s - asyncio.get_running_loop().time()))

    async def stop(self) -> None:
        """Writes what is waiting, and closes the store."""
        self.begin_stop()
        self.streams.timers.stop()
        self.clock.watched = False
        for task in self._tasks:
            task.cancel()
        await self.freshness.stop()
        await self.streams.stop()
        self.streams.settle()
        if await self.commits.stop(self._seconds_left()):
            log_event("flushed")
            with contextlib.suppress(StrandlineError, TimeoutError):
                async with asyncio.timeout(self._seconds_left()):
                    await self.tokens.note_use()
                    await self.store.write(self.presence.leave)
        else:
            outage = self.health.outage
            reason = "the store has not answered in time" if outage is None else outage.reason
            log_event("not_flushed", logging.ERROR, reason=reason)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._seconds_left())
        if not await self.store.close(min(self.limits.close_s, self._seconds_left())):
            log_event("store_left_behind", logging.ERROR)

    def _seconds_left(self) -> float:
        """The time left for writing to the store, without the time reserved for closing it."""
        left = self._stop_by - asyncio.get_running_loop().time() - self.limits.close_s - self.limits.cut_grace_s
        return max(0.0, left)

    async def check_ready(self) -> None:
        """Raises StoreUnavailable if a call could not be served, with the reason and since when.

        A recent commit shows that the store can be written; without one, a commit is tried.
        """
        if self.stopping:
            raise StoreUnavailable(reason="the controller is stopping")
        loop = asyncio.get_running_loop()
        until = loop.time() + self.limits.ready_s
        if not self.health.takes_writes:
            await self._try_commit()
        try:
            async with asyncio.timeout_at(until):
                await self.store.check()
        except TimeoutError:
            raise StoreUnavailable(
                reason=f"the store has not answered a read within {self.limits.ready_s:g} s"
            ) from None
        if self.health.damage is not None:
            raise self._not_ready(self.health.damage)

    async def readiness(self) -> Readiness:
        """Whether a call could be served. Found out once a second, however many ask."""
        return await self.status.memo.get("readiness", self._find_out)

    async def _find_out(self) -> Readiness:
        try:
            await self.check_ready()
        except StoreUnavailable as error:
            damage = self.health.damage
            return Readiness(error.reason, store_answers=damage is not None and damage.reason == error.reason)
        except StoreUndecided as error:
            return Readiness(str(error), store_answers=False)
        return Readiness(None, store_answers=True)

    async def _try_commit(self) -> None:
        beat = asyncio.create_task(self._beat())
        beat.add_done_callback(lambda task: task.cancelled() or task.exception())  # even if nobody waits any longer
        await asyncio.wait([beat], timeout=self.limits.ready_s)
        if self.health.outage is not None:
            raise self._not_ready(self.health.outage)
        if beat.done():
            await beat
        elif self.health.under_way_since is not None:
            silent = Outage(Cause.SILENT, "the store has not answered a commit yet", self.health.under_way_since)
            raise self._not_ready(silent)
        else:
            raise StoreUnavailable(reason="the controller is too busy to write to the store")

    def _not_ready(self, outage: Outage) -> StoreUnavailable:
        since = self.clock.now() - round(self.health.age_s(outage.since) * 1000)
        return StoreUnavailable(reason=outage.reason, since=since)

    async def run_due(self) -> None:
        """Does everything that is due now, for clocks that are moved by hand; returns when it is durable."""
        await self._beat()
        await self.streams.timers.all_advanced()
        self.streams.record_held()
        await self.retention.run_due()
        self.streams.store_counts()
        await self.commits.settled()

    async def _beat(self) -> None:
        """Tells the store that somebody serves it, and is there. Raises StoreUnavailable."""
        self.time.follow(await self.store.serve(self.presence.serve))

    async def _repeat(self, every_ms: int, what: Callable[[], Awaitable[object]], spread: float = 0.0) -> None:
        """Does something again and again. If it fails, the next time tries again."""
        while True:
            await asyncio.sleep(every_ms * random.uniform(1 - spread, 1 + spread) / 1000)
            try:
                await what()
            except StrandlineError:
                continue  # logged where it failed
            except Exception:
                log.exception("%s failed; the next time tries again", what.__qualname__)

    async def _look_around(self) -> None:
        """What waits for nobody: reads the clock, which shows whether this process was suspended, and does what is due
        by it, since a clock that leaps may reach a deadline early."""
        self.streams.timers.run_due()
        self.streams.record_held()
        self.streams.store_counts()


async def start_controller(
    url: str, host: HostClock, name: str, *, by_hand: bool = False, limits: Limits = DEFAULT_LIMITS
) -> Controller:
    """Opens the store and begins to serve; raises what `open_database` raises.

    With a clock that is moved `by_hand`, nothing happens by itself: the caller moves it and calls `run_due`.
    """
    # The store, and the time that it shows: SQLite has one controller, whose host's clock it goes by.
    store_clock = StoreClock(host) if kind_of(parse_url(url)).serves_many and not by_hand else None
    presence = Presence(name, __version__, None if store_clock is not None else host.wall)
    database, service = await _opened(url, presence)
    health = StoreHealth()
    health.wrote()  # that it serves
    store = Store(database, health, limits=limits)
    time = StoreTime(service, store_clock, by_hand=by_hand)
    clock = Clock(store_clock or host, service.served_until, by_hand=by_hand, unserved=time.unserved)
    presence.begin(clock.now, by_hand=by_hand)

    # Who commits, and compares what is in memory with the store.
    commits = CommitLoop(store, clock, time.follow, waiting_calls=limits.waiting_calls, health=health)
    commits.start()
    freshness = Freshness(store, commits)

    # What serves callers.
    streams = Streams(store, commits, clock, freshness, load_wait_ms=limits.load_wait_ms)
    reading = Reads(streams, store, clock)
    indexing = TimeIndexes(streams, store)
    groups = Groups(store, commits, clock, streams, reading, indexing, freshness)
    status = StatusReader(streams, groups, clock)
    tokens = Tokens(store, clock)
    controller = Controller(
        store=store,
        commits=commits,
        freshness=freshness,
        health=health,
        clock=clock,
        time=time,
        presence=presence,
        limits=limits,
        tokens=tokens,
        streams=streams,
        notes=Notes(streams, commits, waiting_bytes=limits.waiting_bytes),
        reading=reading,
        following=MarkFeed(streams, reading, commits, subscribers=limits.subscribers),
        indexing=indexing,
        groups=groups,
        retention=Retention(streams, reading, groups, store, clock),
        status=status,
        measures=Metrics(streams, groups, status, commits, health),
        counts=Counts(),
        denials=DeniedCalls(clock),
    )

    # Nobody is served before the tokens are known.
    try:
        await tokens.refresh()
        time.follow(await store.read(read_service))  # two commits have passed since the first reading of its clock
    except StoreUnavailable as error:
        raise StoreAway(store=shown(parse_url(url)), reason=error.reason) from error
    controller.serve(by_hand=by_hand)
    return controller


async def _opened(url: str, presence: Presence) -> tuple[Database, Service]:
    """Opens a store in a thread, and begins to serve it; raises StoreRefused."""
    done = asyncio.wrap_future(in_thread("store-start", partial(_open, url, presence)))
    await asyncio.wait([done], timeout=START_DEADLINE_S)
    if not done.done():
        raise StoreAway(store=shown(parse_url(url)), reason=f"it has not answered for {START_DEADLINE_S} s")
    return done.result()


def _open(url: str, presence: Presence) -> tuple[Database, Service]:
    database = open_database(url)
    try:
        with refusing(parse_url(url)):
            return database, presence.serve(database.writer)
    except BaseException:
        database.close()
        raise
