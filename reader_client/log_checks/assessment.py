"""What a watermark of greatest time − delay loses: counted for a row of delays at once, in bounded memory.

An event is late for a delay if it is older than the watermark that was reached before it came. How far it is behind the
greatest time before it shows for all delays whether it is late, so one count for each delay is enough, whatever the
number of events.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import accumulate
from math import ceil
from typing import Final

ASSESS_NAMES: Final = 1_000  # partitions that are counted each by itself
BOUNDARIES_AT_ONCE: Final = 10_000  # of those that one event passes; a single wrong time may pass millions
WAIT_DIGITS: Final = 3  # of a wait, which is rounded up: what is said of it is at most 1 % too much


@dataclass(frozen=True, slots=True)
class Arrival:
    """An event as a reader gets it; `arrived` is when it came, on the same clock as `time`, if that is known, and
    `writer` who wrote it, if a field has that."""

    partition: str
    time: int
    arrived: int | None = None
    writer: str | None = None


@dataclass(frozen=True, slots=True)
class Losses:
    """Of so many events, how many are late for each delay, and the greatest time that one is behind.

    `whose` is a partition; None stands for all that had no place of their own.
    """

    whose: str | None
    events: int
    late: tuple[int, ...]
    most_behind_ms: int


@dataclass(frozen=True, slots=True)
class Waits:
    """How long after the end of a window its result came, over all windows, for one delay."""

    windows: int
    median_ms: int
    p99_ms: int
    most_ms: int


@dataclass(frozen=True, slots=True)
class Assessed:
    """The result. Tuples of numbers are in the order of `delays_ms`. `waits` is empty if no arrival is known."""

    delays_ms: tuple[int, ...]
    total: Losses
    partitions: tuple[Losses, ...]
    waits: tuple[Waits | None, ...]
    oldest: int | None
    newest: int | None


class Assessment:
    """Takes events in some order, and counts what each delay would lose of them."""

    def __init__(
        self, delays_ms: Sequence[int], *, window_ms: int, by_window: bool = False, names: int = ASSESS_NAMES
    ) -> None:
        """`delays_ms` rise. `window_ms` is the size of the windows whose results are waited for; with `by_window` an
        event is late only if its window has closed. Of partitions, the first `names` are counted by themselves each.
        """
        self._delays = tuple(delays_ms)
        self._window_ms = window_ms
        self._by_window = by_window
        self._names = names
        self._greatest: int | None = None
        self._oldest: int | None = None
        self._partitions: dict[str | None, _Count] = {}
        self._closed = [0] * len(delays_ms)  # by delay, the end of the last window that closed
        self._waits: list[Counter[int]] = [Counter() for _ in delays_ms]
        self.events = 0

    def take(self, event: Arrival) -> None:
        """Counts one event."""
        behind, is_late_by = 0, 0
        if self._greatest is not None:
            behind = max(0, self._greatest - event.time)
            window_end = (event.time // self._window_ms + 1) * self._window_ms
            is_late_by = self._greatest - window_end + 1 if self._by_window else behind
        self.events += 1
        count = self._count_of(event.partition)
        count.late[bisect_left(self._delays, is_late_by)] += 1
        count.most_behind_ms = max(count.most_behind_ms, behind)
        if self._oldest is None:
            self._closed = [event.time // self._window_ms] * len(self._delays)
        if self._oldest is None or event.time < self._oldest:
            self._oldest = event.time
        if self._greatest is None or event.time > self._greatest:
            self._greatest = event.time
            if event.arrived is not None:
                self._close(event.time, event.arrived)

    def result(self) -> Assessed:
        """The most affected partition is first, and what had no place of its own last."""
        named = [_losses(name, [count]) for name, count in self._partitions.items()]
        named.sort(key=lambda each: (each.whose is None, [-late for late in each.late], each.whose or ""))
        return Assessed(
            self._delays,
            _losses(None, [_Count(len(self._delays)), *self._partitions.values()]),
            tuple(named),
            tuple(map(_spread, self._waits)) if any(self._waits) else (),
            self._oldest,
            self._greatest,
        )

    def _count_of(self, name: str) -> _Count:
        found = self._partitions.get(name)
        if found is None:
            place = name if len(self._partitions) < self._names else None
            found = self._partitions.setdefault(place, _Count(len(self._delays)))
        return found

    def _close(self, greatest: int, arrived: int) -> None:
        """Records how late the windows close that this event ends, for each delay."""
        for number, delay_ms in enumerate(self._delays):
            last = (greatest - delay_ms) // self._window_ms
            begin = max(self._closed[number] + 1, last - BOUNDARIES_AT_ONCE + 1)
            for window in range(begin, last + 1):
                self._waits[number][_rounded(max(0, arrived - window * self._window_ms))] += 1
            self._closed[number] = max(self._closed[number], last)


def skewed(events: Iterable[Arrival], again: Iterable[Arrival], partition: str, times: int) -> Iterator[Arrival]:
    """The order in which a replay reads events that gets through one partition so many times as fast as through the
    others. `events` and `again` are the same events in order of arrival, read twice. When they arrived no longer says
    anything, and is left out."""

    def placed(read: Iterable[Arrival], *, fast: bool) -> Iterator[tuple[float, Arrival]]:
        for number, each in enumerate(read):
            if (each.partition == partition) == fast:
                yield (number / times if fast else number), Arrival(each.partition, each.time)

    both = merge(placed(events, fast=True), placed(again, fast=False), key=lambda pair: pair[0])
    return (each for _, each in both)


class _Count:
    """Events by the number of delays for which they are late."""

    def __init__(self, delays: int) -> None:
        self.late = [0] * (delays + 1)
        self.most_behind_ms = 0


def _losses(whose: str | None, counts: Sequence[_Count]) -> Losses:
    late = [sum(column) for column in zip(*(each.late for each in counts), strict=True)]
    at_least = list(accumulate(reversed(late)))[::-1]  # late for the n-th delay is what is late for n of them or more
    return Losses(whose, at_least[0], tuple(at_least[1:]), max(each.most_behind_ms for each in counts))


def _rounded(wait_ms: int) -> int:
    step = int(10 ** max(0, len(str(wait_ms)) - WAIT_DIGITS))
    return -(-wait_ms // step) * step


def _spread(waits: Counter[int]) -> Waits | None:
    if not waits:
        return None
    values = sorted(waits)
    up_to = list(accumulate(waits[value] for value in values))
    median, p99 = (values[bisect_left(up_to, ceil(up_to[-1] * share))] for share in (0.5, 0.99))
    return Waits(up_to[-1], median, p99, values[-1])
