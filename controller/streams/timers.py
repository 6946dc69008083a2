"""Wakes streams when time alone changes something. One timer, for the earliest deadline; no scans."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Final

from controller.clock import Clock
from controller.streams.loaded_stream import LoadedStream

RETRY_MS: Final = 1_000  # after a commit that failed
ADVANCE_PAUSE_MS: Final = 10  # between two checks of one stream's deadlines
ROOM_ENTRIES: Final = 1_024  # in the heap, before those that were replaced are removed


class Timers:
    """The deadlines of loaded streams."""

    def __init__(self, clock: Clock, advance: Callable[[str], asyncio.Future[None]]) -> None:
        """`advance` has what time has brought about in a stream of a name done soon."""
        self._clock = clock
        self._advance = advance
        self._heap: list[tuple[int, int, LoadedStream]] = []
        self._count = 0
        self._room = ROOM_ENTRIES
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._advancing: set[asyncio.Future[None]] = set()

    def watch(self, loaded: LoadedStream) -> None:
        """Takes note of the deadline of a stream. Call it after every change of the stream."""
        wake = loaded.deadline
        if wake is not None and (loaded.wake is None or wake < loaded.wake):
            self._push(loaded, wake)
            self._arm()

    @property
    def next_moment(self) -> int | None:
        """A lower bound of the earliest deadline."""
        return self._heap[0][0] if self._heap else None

    def run_due(self) -> None:
        """Begins to advance every stream whose deadline has passed."""
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now and not self._stopped:
            moment, _, loaded = heappop(self._heap)
            if loaded.wake != moment or loaded.discarded:
                continue
            loaded.wake = None
            advanced = self._advance(loaded.name)
            self._advancing.add(advanced)
            advanced.add_done_callback(partial(self._advanced, loaded))
        self._arm()

    async def all_advanced(self) -> None:
        """Returns when nothing is due any more, for clocks that are moved by hand."""
        self.run_due()
        while self._advancing:
            await asyncio.wait(self._advancing)
            self.run_due()

    def stop(self) -> None:
        """Begins nothing any more."""
        self._stopped = True
        self._disarm()

    def _advanced(self, loaded: LoadedStream, done: asyncio.Future[None]) -> None:
        self._advancing.discard(done)
        wake = loaded.find_deadline()
        if wake is not None and not loaded.discarded:
            # A deadline that stays in the past must not make this spin: while nobody is heard, no writer times out. Nor
            # must a store that is away.
            now = self._clock.now()
            failed = done.cancelled() or done.exception() is not None
            at = max(wake, now + (RETRY_MS if failed or self._clock.unserved.is_away(now) else ADVANCE_PAUSE_MS))
            if loaded.wake is None or at < loaded.wake or loaded.wake <= now:
                self._push(loaded, at)
                self._arm()

    def _push(self, loaded: LoadedStream, wake: int) -> None:
        loaded.wake = wake
        self._count += 1
        heappush(self._heap, (wake, self._count, loaded))
        if len(self._heap) > self._room:
            self.drop_replaced()
            self._room = max(ROOM_ENTRIES, 2 * len(self._heap))

    def drop_replaced(self) -> None:
        """Drops entries that an earlier deadline replaced, and those of streams that have left memory: with a long
        timeout they, and these streams, would stay for days."""
        self._heap = [entry for entry in self._heap if entry[2].wake == entry[0] and not entry[2].discarded]
        heapify(self._heap)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._disarm()
        while self._heap and (self._heap[0][2].discarded or self._heap[0][2].wake != self._heap[0][0]):
            heappop(self._heap)
        if self._heap and not self._clock.by_hand and not self._stopped:
            wait_ms = max(0, self._heap[0][0] - self._clock.now())
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self.run_due)
