"""Status that is shared: however many ask, it is worked out once at a time, and what is dear less often."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from controller.clock import Clock
from controller.slices import Slices

STATUS_TTL_MS: Final = 900  # all who ask within it share what is worked out; pages and `watch` ask each second
STATUS_REST: Final = 20  # what took long is shared for so many times as long: it never takes more than a 20th
STATUS_SHARED: Final = 256  # of each kind, kept

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(slots=True)
class _Cached(Generic[T]):
    value: T
    until: int


class SingleFlight(Generic[K, T]):
    """Values by what they are of. One is shared by all who ask for it while it is fresh: for STATUS_TTL_MS, or
    STATUS_REST times as long as it took to make, if that is longer."""

    def __init__(
        self,
        make: Callable[[K, Slices], Awaitable[T]],
        clock: Clock,
        stopwatch: Callable[[], float] = time.thread_time,
        *,
        most: int = STATUS_SHARED,
        rest: int = STATUS_REST,
    ) -> None:
        """`stopwatch` returns seconds of work: what only waits may be made again soon. `most`: so many values are kept.
        `rest`: as STATUS_REST."""
        self._make = make
        self._clock = clock
        self._stopwatch = stopwatch
        self._most = most
        self._rest = rest
        self._cached: dict[K, _Cached[T]] = {}
        self._making: dict[K, asyncio.Task[T]] = {}

    async def get(self, at: K) -> T:
        """The value for something; raises whatever making it does."""
        cached = self._cached.get(at)
        if cached is not None and self._clock.now() < cached.until:
            return cached.value
        task = self._making.get(at)
        if task is None:
            task = self._making[at] = asyncio.create_task(self._work_out(at), name="status")
            task.add_done_callback(partial(self._over, at))
        return await asyncio.shield(task)

    def forget(self) -> None:
        """Drops the shared values, so that the next call makes a new one."""
        self._cached.clear()

    async def _work_out(self, at: K) -> T:
        slices = Slices(self._stopwatch)
        began = self._clock.now()
        value = await self._make(at, slices)
        self._cached.pop(at, None)
        self._cached[at] = _Cached(value, fresh_until(began, slices.worked_ms, self._rest))
        while len(self._cached) > self._most:
            del self._cached[next(iter(self._cached))]  # the one that was made longest ago
        return value

    def _over(self, at: K, task: asyncio.Task[T]) -> None:
        del self._making[at]
        if task.cancelled() or task.exception() is not None:
            self._cached.pop(at, None)  # an exception that nobody waits for any more has been looked at


def fresh_until(began: int, worked_ms: float, rest: int = STATUS_REST) -> int:
    """Until when a value is shared, from the moment when it was begun and the work that it took."""
    return began + max(STATUS_TTL_MS, int(worked_ms * rest))
