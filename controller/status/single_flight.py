"""Looks that are shared: however many ask, each is made once at a time, and what is dear is made less often."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from controller.clock import Clock
from controller.limits import LOOK_REST, LOOK_TTL_MS, LOOKS_SHARED
from controller.yielding import Yielding

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(slots=True)
class _Kept(Generic[T]):
    value: T
    until: int


class SingleFlight(Generic[K, T]):
    """Looks by what they are at. One is shared by all who ask for it while it is fresh: for LOOK_TTL_MS, or LOOK_REST
    times as long as it took to make, if that is longer."""

    def __init__(
        self, make: Callable[[K, Yielding], Awaitable[T]], clock: Clock, stopwatch: Callable[[], float]
    ) -> None:
        self._make = make
        self._clock = clock
        self._stopwatch = stopwatch
        self._kept: dict[K, _Kept[T]] = {}
        self._making: dict[K, asyncio.Task[T]] = {}

    async def get(self, at: K) -> T:
        """The look at something; raises whatever making it does."""
        kept = self._kept.get(at)
        if kept is not None and self._clock.now() < kept.until:
            return kept.value
        task = self._making.get(at)
        if task is None:
            task = self._making[at] = asyncio.create_task(self._look(at), name="look")
            task.add_done_callback(partial(self._over, at))
        return await asyncio.shield(task)

    async def _look(self, at: K) -> T:
        slices = Yielding(self._stopwatch)
        began = self._clock.now()
        value = await self._make(at, slices)
        self._kept.pop(at, None)
        self._kept[at] = _Kept(value, began + max(LOOK_TTL_MS, int(slices.worked_ms * LOOK_REST)))
        while len(self._kept) > LOOKS_SHARED:
            del self._kept[next(iter(self._kept))]  # the one that was made longest ago
        return value

    def _over(self, at: K, task: asyncio.Task[T]) -> None:
        del self._making[at]
        if task.cancelled() or task.exception() is not None:
            self._kept.pop(at, None)  # an exception that nobody waits for any more has been looked at
