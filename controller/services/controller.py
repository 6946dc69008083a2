"""Puts the services together, and starts and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from controller.limits import HEARTBEAT_MS, TOKEN_USE_MS, TOKENS_LOOK_MS
from controller.services.clock import Clock
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
from controller.storage.spells import Gaps, begin_spell
from controller.storage.writing import Spell
from strandline.errors import StoreCorrupt, StoreUnavailable, StrandlineError
from strandline.protocol.errors import StoreUndecided

log = logging.getLogger(__name__)


class Controller:
    """A controller that serves one store."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        spell: Spell,
        gaps: Gaps,
        health: StoreHealth,
        stopwatch: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.clock = clock
        self.health = health
        self.counts = Counts()
        self.streams = Streams(store, committer, clock, spell, gaps)
        self.notes = Notes(self.streams, committer, clock)
        self.reading = Reading(self.streams, store, clock)
        self.following = Following(self.streams, self.reading)
        self.indexing = Indexing(self.streams, store)
        self.groups = Groups(store, committer, clock, self.streams, self.reading, self.indexing, spell, gaps)
        self.retention = Retention(self.streams, self.reading, self.groups, store, committer, clock)
        self.journals = Journals(self.streams, self.groups, store)
        self.overview = Overview(self.streams, self.groups, self.reading, clock, stopwatch)
        self.tokens = Tokens(store, clock)
        self.denials = Denials(clock)
        self.measures = Measures(self.streams, self.groups, self.reading, committer, clock, stopwatch)
        self.damage = store.damage
        self.damage.on_found = self._enter_damage
        self.stopping = False
        self._store = store
        self._committer = committer
        self._heart: asyncio.Task[None] | None = None
        self._doorman: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        database_url: str,
        source: Callable[[], int],
        owner: str,
        stopwatch: Callable[[], float] = time.perf_counter,
        *,
        by_hand: bool = False,
    ) -> Controller:
        """Opens the store and begins to serve; raises what `open_database` does.

        Where the clock is moved `by_hand`, nothing happens by itself: who moves it calls `run_due`.
        """
        database = await asyncio.to_thread(open_database, database_url)
        spell, gaps = begin_spell(database.writer, owner, source())
        clock = Clock(source, spell.started_at, by_hand=by_hand)
        health = StoreHealth(stopwatch)
        store = Store(database, health)
        committer = Committer(store.commit, spell, clock, health=health)
        controller = cls(store, committer, clock, spell, gaps, health, stopwatch)
        await controller.tokens.refresh()
        committer.start()
        controller._doorman = asyncio.create_task(controller._look_at_tokens(), name="tokens")
        if not by_hand:
            controller._heart = asyncio.create_task(controller._beat(), name="heartbeat")
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
        for task in (self._heart, self._doorman):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self.streams.stop()
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

    def _enter_damage(self, error: StoreCorrupt) -> None:
        """The journal of a stream or group tells of it, if that can be loaded at all."""
        live = self.streams.at_hand(error.stream) if error.stream is not None else None
        group = self.groups.at_hand(error.group) if error.group is not None else None
        for found in (live, group):
            if found is not None and found.journal.refuse(error, self.clock.now()):
                self._committer.keep(found)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_MS / 1000)
            self.streams.tell_held()
            with contextlib.suppress(StrandlineError):  # logged where it failed, and the next beat tries again
                await self._committer.beat()
                await self.retention.run_due()

    async def _look_at_tokens(self) -> None:
        looks = 0
        while True:
            await asyncio.sleep(TOKENS_LOOK_MS / 1000)
            looks += 1
            try:
                await self.tokens.refresh()
                if looks % (TOKEN_USE_MS // TOKENS_LOOK_MS) == 0:
                    await self.tokens.note_use()
            except (StoreUnavailable, StoreUndecided):
                continue  # those who were known stay known, and who writes to the store hears of it
            except Exception:
                log.exception("the tokens could not be looked at")
