"""Wakes streams when time alone changes something. One timer, for the earliest deadline; no scans."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from controller.clock import Clock
from controller.commit.serving import HEARTBEAT_MS
from controller.storage.tenure import Tenure
from controller.streams.loaded_stream import LoadedStream

ADVANCE_PAUSE_MS: Final = 10  # between two checks of one stream's deadlines
EXACT_MS: Final = 1_000  # a deadline further ahead may be too early: its stream is then woken for nothing
ROOM_ENTRIES: Final = 1_024  # in the heap, before those that were replaced are removed

log = logging.getLogger(__name__)


class Timers:
    """The deadlines of loaded streams."""

    def __init__(self, clock: Clock, changed: Callable[[LoadedStream], None], serves: Callable[[Tenure], bool]) -> None:
        """`changed` is called with a stream that time has changed, so that it is written. What is not served is left
        to whoever serves it next."""
        self._clock = clock
        self._serves = serves
        self._changed = changed
        self._heap: list[tuple[int, int, LoadedStream]] = []
        self._count = 0
        self._room = ROOM_ENTRIES
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, loaded: LoadedStream) -> None:
        """Updates the deadline of a stream. Call it after every change of the stream.

        A lower bound is enough: if the stream is woken too early, it returns a later one.
        """
        wake = loaded.stream.next_wake(exact_before=-math.inf)
        if wake is not None and (loaded.wake is None or wake < loaded.wake):
            self._push(loaded, wake)
            self._arm()

    @property
    def next_moment(self) -> int | None:
        """A lower bound of the earliest deadline."""
        return self._heap[0][0] if self._heap else None

    def run_due(self) -> None:
        """Advances every stream whose deadline has passed."""
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            moment, _, loaded = heappop(self._heap)
            if loaded.wake != moment or loaded.discarded or not self._serves(loaded.tenure):
                continue
            loaded.wake = None
            self._advance(loaded, now)
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _advance(self, loaded: LoadedStream, now: int) -> None:
        try:
            loaded.stream.advance(now)
            wake = loaded.stream.next_wake(exact_before=now + EXACT_MS)
        except Exception:
            log.exception("stream %r could not be advanced", loaded.name)
            wake = now + 1_000
        self._changed(loaded)
        if wake is not None:
            # A deadline that stays in the past must not make this spin: while the store is away, no writer times out.
            pause_ms = HEARTBEAT_MS if loaded.tenure.unserved.is_away(now) else ADVANCE_PAUSE_MS
            self._push(loaded, max(wake, now + pause_ms))

    def _push(self, loaded: LoadedStream, wake: int) -> None:
        loaded.wake = wake
        self._count += 1
        heappush(self._heap, (wake, self._count, loaded))
        if len(self._heap) > self._room:
            # Entries replaced by an earlier deadline stay in the heap; a long timeout would collect them for days.
            self._heap = [entry for entry in self._heap if entry[2].wake == entry[0] and not entry[2].discarded]
            heapify(self._heap)
            self._room = max(ROOM_ENTRIES, 2 * len(self._heap))

    def _arm(self) -> None:
        self.stop()
        while self._heap and (self._heap[0][2].discarded or self._heap[0][2].wake != self._heap[0][0]):
            heappop(self._heap)
        if self._heap and not self._clock.by_hand:
            wait_ms = max(0, self._heap[0][0] - self._clock.now())
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self.run_due)
