"""Finds streams that time alone is about to change and that nobody calls, and loads them: then their timers run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from controller.clock import Clock
from controller.commit.group_commit import Committer
from controller.commit.store import Store
from controller.storage.cluster import Due, due_streams
from controller.storage.tenure import Tenure
from controller.streams.registry import Streams
from strandline.errors import StrandlineError

DUE_CHECK_MS: Final = 10_000  # between two looks for streams that time alone is about to change
DUE_STREAMS: Final = 1_000  # found at a time
DUE_LOADS: Final = 4  # of these, loaded at once
DUE_STALE_MS: Final = 60_000  # the store is told the next moment of a loaded stream again after so long


class DueStreams:
    """For a controller with shards. Loaded late, a stream does the same as in time."""

    def __init__(
        self,
        streams: Streams,
        store: Store,
        committer: Committer,
        clock: Clock,
        tenures: Callable[[], Collection[Tenure]],
    ) -> None:
        """`tenures` are all at present."""
        self._streams = streams
        self._store = store
        self._committer = committer
        self._clock = clock
        self._tenures = tenures
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="due-streams")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def check_soon(self) -> None:
        """Looks now, and not only in a while: shards were taken."""
        self._wanted.set()

    async def _run(self) -> None:
        while True:
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with what it waits for.
            with suppress(TimeoutError):
                async with asyncio.timeout(DUE_CHECK_MS / 1000):
                    await self._wanted.wait()
            self._wanted.clear()
            try:
                await self.wake_due()
            except StrandlineError:
                continue  # the store logs why, and the next look tries again

    async def wake_due(self) -> None:
        """Loads what is due until the next look, the oldest first."""
        shards = [tenure.shard for tenure in self._tenures() if tenure.shard is not None]
        if not shards:
            return
        until = self._clock.now() + DUE_CHECK_MS
        found = await self._store.read(due_streams, shards, until, DUE_STREAMS)
        for first in range(0, len(found), DUE_LOADS):
            await asyncio.gather(*map(self._wake, found[first : first + DUE_LOADS]))

    async def _wake(self, due: Due) -> None:
        loaded = self._streams.find_loaded(due.name)
        if loaded is not None and due.wake_at is not None and due.wake_at > self._clock.now() - DUE_STALE_MS:
            return  # its timer runs, and its next commits may tell the store an earlier moment
        try:
            loaded = await self._streams.get(due.name)
        except StrandlineError:
            return  # another controller has it now, or it is damaged, or the next look tries again
        loaded.store_wake()
        self._committer.keep(loaded)
