"""Puts the services together, and starts and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from controller.limits import HEARTBEAT_MS, TOKEN_USE_MS, TOKENS_LOOK_MS
from controller.services.clock import Clock, HostClock
from controller.services.commits import Committer
from controller.services.counts import Counts
from controller.services.denials import Denials
from controller.services.following import Following
from controller.services.groups import Groups
from controller.services.health import StoreHealth
from controller.services.indexing import Indexing
from controller.services.journals import Journals
from controller.services.measures import Measures
from controller.services.notes import Notes
from controller.services.operator_log import tell
from controller.services.overview import Overview
from controller.services.reading import Reading
from controller.services.retention import Retention
from controller.services.store import Store
from controller.services.streams import Streams
from controller.services.tokens import Tokens
from controller.storage import upgrade
from controller.storage.database import open_database
from controller.storage.spells import Restores, begin_spell
from controller.storage.writing import Spell
from strandline.errors import StoreUnavailable, StrandlineError
from strandline.unserved import Unserved

log = logging.getLogger(__name__)


class Controller:
    """A controller that serves one store."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        spell: Spell,
        restores: Restores,
        health: StoreHealth,
        stopwatch: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.clock = clock
        self.health = health
        self.counts = Counts()
        self.streams = Streams(store, committer, clock, spell, restores)
        self.notes = Notes(self.streams, committer, clock)
        self.reading = Reading(self.streams, store, clock)
        self.following = Following(self.streams, self.reading)
        self.indexing = Indexing(self.streams, store)
        self.groups = Groups(store, committer, clock, self.streams, self.reading, self.indexing, spell, restores)
        self.retention = Retention(self.streams, self.reading, self.groups, store, committer, clock)
        self.journals = Journals(self.streams, self.groups, store)
        self.overview = Overview(self.streams, self.groups, self.reading, clock, stopwatch)
        self.tokens = Tokens(store, clock)
        self.denials = Denials(clock)
        self.measures = Measures(self.streams, self.groups, self.reading, committer, clock, stopwatch)
        self.stopping = False
        self._store = store
        self._committer = committer
        self._heart: asyncio.Task[None] | None = None
        self._pulse: asyncio.Task[None] | None = None
        self._doorman: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        database_url: str,
        host: HostClock,
        owner: str,
        stopwatch: Callable[[], float] = time.perf_counter,
        *,
        by_hand: bool = False,
    ) -> Controller:
        """Opens the store and begins to serve; raises what `open_database` does.

        Where the clock is moved `by_hand`, nothing happens by itself: who moves it calls `run_due`.
        """
        database = await asyncio.to_thread(open_database, database_url)
        spell, restores = begin_spell(database.writer, owner, host.wall())
        clock = Clock(host, spell.started_at, by_hand=by_hand, unserved=Unserved(spell.unserved_ms))
        health = StoreHealth(stopwatch)
        store = Store(database, health)
        committer = Committer(store.commit, spell, clock, health=health)
        controller = cls(store, committer, clock, spell, restores, health, stopwatch)
        await controller.tokens.refresh()
        committer.start()
        controller._doorman = asyncio.create_task(controller._look_at_tokens(), name="tokens")
        if not by_hand:
            controller._heart = asyncio.create_task(controller._beat(), name="heartbeat")
            controller._pulse = asyncio.create_task(controller._ask_the_time(), name="pulse")
        return controller

    def begin_stop(self) -> None:
        """No longer ready; readers that wait are answered now."""
        self.stopping = True
        self.reading.stop()

    async def stop(self) -> None:
        """Writes what is waiting and lets go of the store."""
        self.begin_stop()
        self.measures.stop()
        self.streams.deadlines.stop()
        self.clock.watched = False
        for task in (self._heart, self._pulse, self._doorman):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self.streams.settle()
        with contextlib.suppress(StrandlineError):
            await self._committer.stop()
            tell("flushed")
        with contextlib.suppress(StrandlineError):
            await self.tokens.note_use()
        await asyncio.to_thread(self._store.close)

    async def check_ready(self) -> None:
        """Raises StoreUnavailable where a call could not be served."""
        if self.stopping:
            raise StoreUnavailable(reason="the controller is stopping")
        await self._store.read(upgrade.check_now)

    async def run_due(self) -> None:
        """Does all that is due now, for clocks that are moved by hand; done when it is durable."""
        self.streams.deadlines.run_due()
        self.streams.tell_held()
        await self.retention.run_due()
        await self._committer.beat()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_MS / 1000)
            self.streams.tell_held()
            with contextlib.suppress(StrandlineError):  # logged where it failed, and the next beat tries again
                await self._committer.beat()
                await self.retention.run_due()

    async def _ask_the_time(self) -> None:
        """Looks at the clock each second, whatever else goes on: so it shows if this process stands still.

        The beats of the heart do not: they wait for the store.
        """
        self.clock.now()
        self.clock.watched = True
        while True:
            await asyncio.sleep(HEARTBEAT_MS / 1000)
            self.streams.deadlines.run_due()  # a clock that follows its host's may have come there early

    async def _look_at_tokens(self) -> None:
        looks = 0
        while True:
            await asyncio.sleep(TOKENS_LOOK_MS / 1000)
            looks += 1
            try:
                await self.tokens.refresh()
                if looks % (TOKEN_USE_MS // TOKENS_LOOK_MS) == 0:
                    await self.tokens.note_use()
            except StoreUnavailable:
                continue  # those who were known stay known, and who writes to the store hears of it
            except Exception:
                log.exception("the tokens could not be looked at")
