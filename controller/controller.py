"""Puts the services together, and starts and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Self, TypeVar

from controller.clock import Clock, HostClock
from controller.cluster.cluster_view import SeenController
from controller.cluster.member import Member, MemberPhase
from controller.cluster.records import Adopt, ControllerRow, Identity
from controller.commit.group_commit import Committer
from controller.commit.health import Outage, Replaced, StoreHealth
from controller.commit.serving import HEARTBEAT_MS, TermRecord
from controller.commit.store import Store
from controller.groups.service import Groups
from controller.joint.driver import Driver
from controller.joint.member_events import MemberEvents
from controller.joint.ownership import Ownership
from controller.joint.store_time import StoreTime
from controller.limits import DEFAULT_LIMITS, Limits
from controller.mark_retention import Retention
from controller.records.counts import Counts
from controller.records.operator_log import log_event
from controller.settings import START_DEADLINE_S
from controller.slices import Slices
from controller.status.denied_calls import DeniedCalls
from controller.status.journal_reads import JournalReads
from controller.status.metrics import Metrics
from controller.status.single_flight import SingleFlight
from controller.status.status_reader import StatusReader
from controller.storage import cluster
from controller.storage.cluster import NameReused
from controller.storage.database import Database, open_database, open_joint
from controller.storage.diagnosis import Cause
from controller.storage.kinds import parse_url
from controller.storage.refusals import StoreAway, shown
from controller.storage.session import StoreConnection
from controller.storage.tenure import Tenures
from controller.storage.terms import OneTerm, Term, begin_term
from controller.storage.transaction import refusing
from controller.storage.worker import in_thread
from controller.streams.due_streams import DueStreams
from controller.streams.mark_feed import MarkFeed
from controller.streams.notes import Notes
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from controller.streams.time_index import TimeIndexes
from controller.tokens import Tokens
from strandline.core.served_time import Unserved
from strandline.errors import (
    LastController,
    ServesAlone,
    StoreUnavailable,
    StoreUndecided,
    StrandlineError,
)
from strandline.version import __version__
from strandline.wire.controllers import ControllerReply, ControllersReply, ControllerState

TOKENS_REFRESH_MS: Final = 500  # how often a controller checks for new and revoked tokens
TOKEN_USE_MS: Final = 60_000  # how often the store records which tokens were used

log = logging.getLogger(__name__)

Opened = TypeVar("Opened")


class Readiness(NamedTuple):
    """Why a call could not be served, if so. A store that is damaged in places answers all the same."""

    reason: str | None
    store_answers: bool


class Controller:
    """A controller that serves one store."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        tenures: Tenures,
        health: StoreHealth,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.clock = clock
        self.health = health
        self._limits = limits
        self.counts = Counts()
        self.streams = Streams(store, committer, clock, tenures, load_wait_ms=limits.load_wait_ms)
        self.notes = Notes(self.streams, committer, clock, waiting_bytes=limits.waiting_bytes)
        self.reading = Reads(self.streams, store, clock)
        self.following = MarkFeed(self.streams, self.reading, committer, subscribers=limits.subscribers)
        self.indexing = TimeIndexes(self.streams, store)
        self.groups = Groups(store, committer, clock, self.streams, self.reading, self.indexing, tenures)
        self.retention = Retention(self.streams, self.reading, self.groups, store, committer, clock)
        self.journals = JournalReads(self.streams, self.groups, store, searches=limits.journal_searches)
        self.status = StatusReader(self.streams, self.groups, clock)
        self.version = __version__
        self.since = 0  # once it serves
        self._readiness = SingleFlight(self._find_out, clock, rest=0)
        self.tokens = Tokens(store, clock)
        self.denials = DeniedCalls(clock)
        self.measures = Metrics(self.streams, self.groups, self.status, committer)
        health.when_replaced = self.reading.stop  # no further mark will come
        self.stopping = False
        self._store = store
        self._committer = committer
        self._stop_by = 0.0  # set once it is stopping
        self._heartbeat: asyncio.Task[None] | None = None
        self._clock_reader: asyncio.Task[None] | None = None
        self._token_refresher: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        database_url: str,
        host: HostClock,
        owner: str,
        *,
        by_hand: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Controller:
        """Opens the store and begins to serve; raises what `open_database` raises.

        With a clock that is moved `by_hand`, nothing happens by itself: the caller moves it and calls `run_due`.
        """
        database, term = await _opened(database_url, partial(_begin, database_url, owner, host))
        clock = Clock(host, term.started_at, by_hand=by_hand, unserved=Unserved(term.unserved_ms))
        health = StoreHealth()
        health.wrote()  # the start of the term
        store = Store(database, term, health, limits=limits)
        committer = Committer(store.commit, TermRecord(term, clock), waiting_calls=limits.waiting_calls, health=health)
        controller = cls(store, committer, clock, OneTerm(term, clock.unserved), health, limits=limits)
        await controller._read_tokens(database_url)
        clock.unserved.skip(clock.now() - term.started_at)  # nobody could be heard before this
        committer.start()
        controller._serve(by_hand=by_hand)
        return controller

    async def _read_tokens(self, database_url: str) -> None:
        """Reads the tokens for the first time; raises StoreAway."""
        try:
            await self.tokens.refresh()
        except StoreUnavailable as error:
            raise StoreAway(store=shown(parse_url(database_url)), reason=error.reason) from error

    def _serve(self, *, by_hand: bool = False) -> None:
        """Begins what a controller does by itself."""
        self.since = self.clock.now()
        self._token_refresher = asyncio.create_task(self._refresh_tokens(), name="tokens")
        if not by_hand:
            self._heartbeat = asyncio.create_task(self._run_heartbeat(), name="heartbeat")
            self._clock_reader = asyncio.create_task(self._read_clock(), name="pulse")

    @property
    def replaced(self) -> Replaced | None:
        """Why this controller may no longer serve its store, and must be stopped; None while it may."""
        return self.health.replaced

    def controllers(self) -> ControllersReply:
        """Who serves the store: this controller alone."""
        alone = ControllerReply(
            name=None,
            address=None,
            client_address=None,
            version=self.version,
            since=self.since,
            state=ControllerState.LIVE,
            shards=None,
            beat_age_ms=None,
        )
        return ControllersReply(asked=None, controllers=(alone,))

    async def drain(self, by: str | None, *, force: bool) -> None:
        """Begins to hand everything over to other controllers, and then to end, because a caller asks for it. Raises
        ServesAlone without others."""
        raise ServesAlone

    def begin_stop(self) -> None:
        """Ends readiness, answers waiting readers, and starts the deadline of `stop`, whatever the store does."""
        self._start_deadline()
        self.reading.stop()

    def _start_deadline(self) -> None:
        if not self.stopping:
            self._stop_by = asyncio.get_running_loop().time() + self._limits.drain_s
        self.stopping = True

    @property
    def calls_end_in_s(self) -> int:
        """How long calls may still take once this controller is stopping."""
        return max(0, round(self._stop_by - self._limits.stop_s - asyncio.get_running_loop().time()))

    async def hand_over(self) -> None:
        """Gives to others what it serves, before it stops to take calls. A controller alone has nobody to give to."""

    async def stop(self) -> None:
        """Writes what is waiting, and closes the store."""
        self.begin_stop()
        self.measures.stop()
        self.streams.timers.stop()
        self.clock.watched = False
        tasks = [task for task in (self._heartbeat, self._clock_reader, self._token_refresher) if task is not None]
        for task in tasks:
            task.cancel()
        await self.streams.stop()
        self.streams.settle()
        if await self._committer.stop(self._seconds_left()):
            log_event("flushed")
            with contextlib.suppress(StrandlineError, TimeoutError):
                async with asyncio.timeout(self._seconds_left()):
                    await self.tokens.note_use()
        else:
            outage = self.health.outage
            reason = "the store has not answered in time" if outage is None else outage.reason
            log_event("not_flushed", logging.ERROR, reason=reason)
        if tasks:
            await asyncio.wait(tasks, timeout=self._seconds_left())
        if not await self._close(min(self._limits.close_s, self._seconds_left())):
            log_event("store_left_behind", logging.ERROR)

    async def _close(self, seconds: float) -> bool:
        """Closes the store; returns whether that was in time."""
        return await self._store.close(seconds)

    def _seconds_left(self) -> float:
        """The time left for writing to the store, without the time reserved for closing it."""
        left = self._stop_by - asyncio.get_running_loop().time() - self._limits.close_s - self._limits.cut_grace_s
        return max(0.0, left)

    async def check_ready(self) -> None:
        """Raises StoreUnavailable if a call could not be served, with the reason and since when.

        A recent commit shows that the store can be written; without one, a commit is tried.
        """
        if self.replaced is not None:
            raise StoreUnavailable(reason=str(self.replaced))
        if self.stopping:
            raise StoreUnavailable(reason="the controller is stopping")
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.ready_s
        if not self.health.takes_writes:
            await self._try_commit()
        try:
            async with asyncio.timeout_at(until):
                await self._store.check()
        except TimeoutError:
            raise StoreUnavailable(
                reason=f"the store has not answered a read within {self._limits.ready_s:g} s"
            ) from None
        if self.health.damage is not None:
            raise self._not_ready(self.health.damage)

    async def readiness(self) -> Readiness:
        """Whether a call could be served. Found out once a second, however many ask."""
        return await self._readiness.get(None)

    async def _find_out(self, _: None, __: Slices) -> Readiness:
        try:
            await self.check_ready()
        except StoreUnavailable as error:
            damage = self.health.damage
            return Readiness(error.reason, store_answers=damage is not None and damage.reason == error.reason)
        except StoreUndecided as error:
            return Readiness(str(error), store_answers=False)
        return Readiness(None, store_answers=True)

    async def _try_commit(self) -> None:
        commit = self._committer.beat_soon()
        await asyncio.wait([commit], timeout=self._limits.ready_s)
        if self.health.outage is not None:
            raise self._not_ready(self.health.outage)
        if commit.done():
            await commit
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
        self.streams.timers.run_due()
        self.streams.record_held()
        await self.retention.run_due()
        await self._committer.beat()

    async def _run_heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_MS / 1000)
            try:
                self.streams.record_held()
                await self._committer.beat()
                await self.retention.run_due()
            except StrandlineError:
                continue  # logged where it failed, and the next beat tries again
            except Exception:
                log.exception("a heartbeat failed; the next one tries again")

    async def _read_clock(self) -> None:
        """Reads the clock each second, which shows whether this process was suspended.

        The heartbeat cannot do that: it waits for the store.
        """
        self.clock.now()
        self.clock.watched = True
        while True:
            await asyncio.sleep(HEARTBEAT_MS / 1000)
            self.streams.timers.run_due()  # a clock that steps forward to its host's may reach a deadline early

    async def _refresh_tokens(self) -> None:
        rounds = 0
        while True:
            await asyncio.sleep(TOKENS_REFRESH_MS / 1000)
            rounds += 1
            try:
                await self.tokens.refresh()
                if rounds % (TOKEN_USE_MS // TOKENS_REFRESH_MS) == 0:
                    await self.tokens.note_use()
            except (StoreUnavailable, StoreUndecided):
                continue  # known tokens stay valid, and the failure is logged by the store
            except Exception:
                log.exception("the tokens could not be read again")


class JointController(Controller):
    """A controller that serves some shards of a store, together with others."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: StoreTime,
        health: StoreHealth,
        driver: Driver,
        host: HostClock,
        events: MemberEvents,
        limits: Limits,
    ) -> None:
        super().__init__(store, committer, clock, driver.tenures, health, limits=limits)
        self.member = driver.member
        self.events = events
        self._driver = driver
        self._host = host
        self._due = DueStreams(self.streams, store, committer, clock, driver.tenures.all)
        driver.stopped.add_done_callback(self._has_stopped)

    @classmethod
    async def begin(
        cls,
        database_url: str,
        host: HostClock,
        identity: Identity,
        ownership: Ownership,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Self:
        """Opens the store and begins to serve shards of it; `ownership` then says who owns what.

        Raises what `open_joint` raises, and StoreAway without a lease in time.
        """
        database, sessions = await _opened(database_url, partial(open_joint, database_url))
        events = MemberEvents()
        member = Member(identity, partial(secrets.randbits, 63), events.observe)
        driver = Driver(member, sessions, host.monotonic, limits)
        ownership.follow(driver)

        def settle(connection: StoreConnection) -> None:
            cluster.adopt(connection, Adopt(member.id))

        health = StoreHealth()
        store = Store(database, None, health, settle, limits)
        committer = Committer(store.commit, driver.record, waiting_calls=limits.waiting_calls, health=health)
        controller = cls(store, committer, StoreTime(host, member), health, driver, host, events, limits)
        try:
            async with asyncio.timeout(START_DEADLINE_S):
                await controller._read_tokens(database_url)
                committer.start()
                controller._due.start()
                memories = controller.streams, controller.groups
                await driver.begin(memories, committer.beat_soon, controller._due.check_soon)
        except TimeoutError:
            raise StoreAway(
                store=shown(parse_url(database_url)), reason=f"it gave no lease for {START_DEADLINE_S} s"
            ) from None
        health.wrote()  # the begin
        controller._serve()
        return controller

    def _has_stopped(self, stopped: asyncio.Future[ControllerRow | None]) -> None:
        replaced_by = None if stopped.cancelled() else stopped.result()
        if replaced_by is not None:
            self.health.replace(NameReused(name=replaced_by.name, address=replaced_by.address))

    def controllers(self) -> ControllersReply:
        """Who serves the store, as the last answer to a beat had it."""
        seen = self.member.controllers(self._host.monotonic())
        return ControllersReply(asked=self.member.identity.name, controllers=tuple(map(self._reply_of, seen)))

    def _reply_of(self, seen: SeenController) -> ControllerReply:
        row, state = seen.row, ControllerState.LIVE
        is_own = row.id == self.member.id
        if seen.ended:
            state = ControllerState.LOST if seen.lost else ControllerState.ENDED
        elif row.draining or (is_own and self.stopping):
            state = ControllerState.DRAINING
        elif is_own and not self.has_lease:
            state = ControllerState.NO_LEASE
        return ControllerReply(
            name=row.name,
            address=row.address,
            client_address=row.client_address,
            version=row.version,
            since=row.began_at,
            state=state,
            shards=seen.shards,
            beat_age_ms=seen.beat_age_ms,
        )

    @property
    def has_lease(self) -> bool:
        """Whether this controller may answer anything from memory."""
        return self.member.phase is MemberPhase.SERVING

    @property
    def lease_age_ms(self) -> int:
        """How long ago the last beat that was answered had been sent."""
        return self._host.monotonic() - self.member.renewed_at

    async def drain(self, by: str | None, *, force: bool) -> None:
        """Begins to hand everything over, and then to end, because a caller asks for it; `by` is the token's name.
        Raises LastController if there is nobody to hand it to, unless this one is to end all the same (`force`)."""
        if not self.stopping and not force:
            await self.read_controllers()
            if not self.member.has_successors:
                raise LastController(controller=self.member.identity.name)
        if not self.stopping:
            log_event("drain_asked", by=by)
        self.begin_stop()

    async def read_controllers(self) -> None:
        """Returns after a beat that was sent from now on: what the last one told may be old. Raises
        StoreUnavailable if none is answered."""
        asked = self._host.monotonic()
        try:
            async with asyncio.timeout(self._limits.ready_s):
                while self.member.renewed_at < asked:
                    if self.member.check_soon(self._host.monotonic()):
                        self._driver.step()
                    await self._driver.changed()
        except TimeoutError:
            raise StoreUnavailable(reason="this controller could not ask the store who else serves it") from None

    def begin_stop(self) -> None:
        """Ends readiness, starts the deadline of `stop`, and begins to hand everything over. Whoever waits for a mark
        is answered when its stream is handed over."""
        begun = self.stopping
        self._start_deadline()
        if not begun:
            log_event("draining", shards=len(self.member.owned), others=max(0, self.member.live_controllers - 1))
            self._driver.drain()

    async def hand_over(self) -> None:
        """Returns once others may have everything, or when that takes too long; whoever waits then is answered."""
        until = self._stop_by - self._limits.drain_s + self._limits.hand_over_s
        seconds = max(0.0, until - asyncio.get_running_loop().time())
        await asyncio.wait([self._driver.stopped], timeout=seconds)
        self.reading.stop()
        if self._driver.stopped.done() and self._heartbeat is not None:
            self._heartbeat.cancel()  # there is nothing left to commit

    async def stop(self) -> None:
        self.begin_stop()
        await self.hand_over()
        await self._due.stop()
        await super().stop()

    async def _close(self, seconds: float) -> bool:
        return all(await asyncio.gather(self._driver.close(seconds), super()._close(seconds)))

    async def check_ready(self) -> None:
        """Raises StoreUnavailable without a lease, too."""
        if self.replaced is None and self.stopping:
            raise StoreUnavailable(reason="this controller is draining: others take over what it serves, and it ends")
        if self.replaced is None and not self.has_lease:
            raise StoreUnavailable(reason="this controller holds no lease of the store")
        await super().check_ready()


async def _opened(url: str, opening: Callable[[], Opened]) -> Opened:
    """Opens a store in a thread; raises StoreRefused."""
    done = asyncio.wrap_future(in_thread("store-start", opening))
    await asyncio.wait([done], timeout=START_DEADLINE_S)
    if not done.done():
        raise StoreAway(store=shown(parse_url(url)), reason=f"it has not answered for {START_DEADLINE_S} s")
    return done.result()


def _begin(url: str, owner: str, host: HostClock) -> tuple[Database, Term]:
    """Opens a store and begins to serve it; raises StoreRefused."""
    database = open_database(url)
    try:
        with refusing(parse_url(url)):
            return database, begin_term(database.writer, owner, host.wall())
    except BaseException:
        database.close()
        raise
