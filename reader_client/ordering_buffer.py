"""Sorts events by time: holds each one until the watermark says that no older event follows."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, TypeVar

from strandline.core.checks import check_time, check_whole
from strandline.errors import QueueFull, WatermarkWentBack

Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class Timed(Generic[Event]):
    """An event and the time at which it happened."""

    time: int
    event: Event


class EventTimeOrdering(Generic[Event]):
    """Takes events in any order and returns them oldest first; events of one time keep their order of arrival.

    An event older than the watermark at its arrival is late: it is not kept, and `add` returns False. A
    returned event is never older than one returned before.

    `capacity` bounds the events that are held, all of them at or above the watermark.

    Raises InvalidConfig, QueueFull for an event beyond `capacity`, and WatermarkWentBack. A refused call
    changes nothing.
    """

    __slots__ = ("_arrivals", "_capacity", "_held", "_watermark")

    def __init__(self, capacity: int) -> None:
        self._capacity = check_whole("capacity", capacity, least=1)
        self._held: list[tuple[int, int, Event]] = []
        self._arrivals = 0  # breaks ties, so that events themselves are never compared
        self._watermark: int | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def full(self) -> bool:
        return len(self._held) >= self._capacity

    @property
    def watermark(self) -> int | None:
        return self._watermark

    def add(self, time: int, event: Event) -> bool:
        """Holds the event until the watermark passes its time; returns False for a late event, which is not kept."""
        check_time("time", time)
        if self._watermark is not None and time < self._watermark:
            return False
        if self.full:
            raise QueueFull(capacity=self._capacity)
        heappush(self._held, (time, self._arrivals, event))
        self._arrivals += 1
        return True

    def advance(self, watermark: int | None) -> list[Timed[Event]]:
        """Returns the events older than `watermark`, oldest first: no older event follows.

        None (no watermark yet) and a repeated watermark return nothing. Raises WatermarkWentBack for an older
        one.
        """
        if watermark is None:
            return []
        check_time("watermark", watermark)
        if self._watermark is not None and watermark < self._watermark:
            raise WatermarkWentBack(input=type(self).__name__, key="", value=watermark, previous=self._watermark)
        self._watermark = watermark
        released: list[Timed[Event]] = []
        while self._held and self._held[0][0] < watermark:
            released.append(self._pop())
        return released

    def finish(self) -> list[Timed[Event]]:
        """Returns every event still held, oldest first: the stream has ended."""
        return [self._pop() for _ in range(len(self._held))]

    def _pop(self) -> Timed[Event]:
        time, _, event = heappop(self._held)
        return Timed(time, event)
