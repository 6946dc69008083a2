"""What a watermark of greatest time − delay loses: counted for a row of delays at once, in bounded memory.

An event is late for a delay if it is older than the watermark that was reached before it came. How far it is behind the
greatest time before it says for all delays whether it is late, so one count for each delay is enough, whatever the
number of events.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import accumulate
from math import ceil, exp, floor, log
from typing import Final

from strandline.core.checks import check_whole
from strandline.errors import InvalidConfig

GROWTH: Final = 1.02  # of the classes of waits: what is said of them is at most 2 % too much
BOUNDARIES_AT_ONCE: Final = 10_000  # of those that one event passes; a single wrong time may pass millions


@dataclass(frozen=True, slots=True)
class Arrival:
    """An event as a reader gets it; `arrived` is when it came, on the same clock as `time`, if that is known, and
    `writer` who wrote it, if a field says so."""

    partition: str
    key: str | None
    time: int
    arrived: int | None = None
    writer: str | None = None


@dataclass(frozen=True, slots=True)
class Losses:
    """Of so many events, how many are late for each delay, and the greatest time that one is behind.

    `whose` is a partition or the beginning of a key; None stands for all that had no place of their own.
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
    prefixes: tuple[Losses, ...]
    waits: tuple[Waits | None, ...]
    oldest: int | None
    newest: int | None


class Assessment:
    """Takes events in some order, and counts what each delay would lose of them."""

    def __init__(
        self,
        delays_ms: Sequence[int],
        *,
        window_ms: int,
        by_window: bool = False,
        prefix_characters: int = 0,
        names: int = 1_000,
    ) -> None:
        """`delays_ms` rise. `window_ms` is the size of the windows whose results are waited for; with `by_window` an
        event is late only if its window has closed. Keys are told apart by so many first characters. Of partitions and
        of these beginnings, the first `names` are counted by themselves each.
        """
        if not delays_ms or list(delays_ms) != sorted(set(delays_ms)):
            raise InvalidConfig(name="delays_ms", value=list(delays_ms), wanted="rising numbers")
        for each in delays_ms:
            check_whole("delays_ms", each, least=0)
        self._delays = tuple(delays_ms)
        self._window_ms = check_whole("window_ms", window_ms, least=1)
        self._by_window = by_window
        self._prefix = prefix_characters
        self._names = names
        self._greatest: int | None = None
        self._oldest: int | None = None
        self._total = _Count(len(delays_ms))
        self._partitions: dict[str | None, _Count] = {}
        self._prefixes: dict[str | None, _Count] = {}
        self._closed = [0] * len(delays_ms)  # by delay, the end of the last window that closed
        self._waits = [_Spread() for _ in delays_ms]

    @property
    def events(self) -> int:
        return self._total.events

    def take(self, event: Arrival) -> None:
        """Counts one event."""
        behind, is_late_by = 0, 0
        if self._greatest is not None:
            behind = max(0, self._greatest - event.time)
            is_late_by = self._greatest - self._window_end(event.time) + 1 if self._by_window else behind
        late = bisect_left(self._delays, is_late_by)
        for count in self._counts(event):
            count.add(late, behind)
        if self._oldest is None:
            self._closed = [event.time // self._window_ms] * len(self._delays)
        if self._oldest is None or event.time < self._oldest:
            self._oldest = event.time
        if self._greatest is None or event.time > self._greatest:
            self._greatest = event.time
            if event.arrived is not None:
                self._close(event.time, event.arrived)

    def result(self) -> Assessed:
        return Assessed(
            self._delays,
            self._total.losses(None),
            _listed(self._partitions),
            _listed(self._prefixes),
            tuple(each.result() for each in self._waits) if any(each.count for each in self._waits) else (),
            self._oldest,
            self._greatest,
        )

    def _counts(self, event: Arrival) -> Iterator[_Count]:
        yield self._total
        yield self._count_of(self._partitions, event.partition)
        if self._prefix and event.key is not None:
            yield self._count_of(self._prefixes, event.key[: self._prefix])

    def _count_of(self, counts: dict[str | None, _Count], name: str) -> _Count:
        found = counts.get(name)
        if found is None:
            place = name if len(counts) < self._names else None
            found = counts.setdefault(place, _Count(len(self._delays)))
        return found

    def _window_end(self, time: int) -> int:
        return (time // self._window_ms + 1) * self._window_ms

    def _close(self, greatest: int, arrived: int) -> None:
        """Records how late the windows close that this event ends, for each delay."""
        for number, delay_ms in enumerate(self._delays):
            last = (greatest - delay_ms) // self._window_ms
            begin = max(self._closed[number] + 1, last - BOUNDARIES_AT_ONCE + 1)
            for window in range(begin, last + 1):
                self._waits[number].add(max(0, arrived - window * self._window_ms))
            self._closed[number] = max(self._closed[number], last)


def skewed(events: Iterable[Arrival], again: Iterable[Arrival], partition: str, times: int) -> Iterator[Arrival]:
    """The order in which a replay reads events that gets through one partition so many times as fast as through the
    others. `events` and `again` are the same events in order of arrival, read twice. When they arrived no longer says
    anything, and is left out."""

    def placed(read: Iterable[Arrival], *, fast: bool) -> Iterator[tuple[float, Arrival]]:
        for number, each in enumerate(read):
            if (each.partition == partition) == fast:
                yield (number / times if fast else number), Arrival(each.partition, each.key, each.time)

    both = merge(placed(events, fast=True), placed(again, fast=False), key=lambda pair: pair[0])
    return (each for _, each in both)


class _Count:
    """Events by the number of delays for which they are late."""

    def __init__(self, delays: int) -> None:
        self.events = 0
        self._late = [0] * (delays + 1)
        self._most_behind_ms = 0

    def add(self, late: int, behind_ms: int) -> None:
        self.events += 1
        self._late[late] += 1
        if behind_ms > self._most_behind_ms:
            self._most_behind_ms = behind_ms

    def losses(self, whose: str | None) -> Losses:
        # Late for the n-th delay is whatever is late for more than n of them.
        at_least = list(accumulate(reversed(self._late[1:])))
        return Losses(whose, self.events, tuple(reversed(at_least)), self._most_behind_ms)


class _Spread:
    """Whole numbers from 0 up, by classes that grow by a fiftieth."""

    def __init__(self) -> None:
        self.count = 0
        self._most = 0
        self._classes: dict[int, int] = {}

    def add(self, value: int) -> None:
        self.count += 1
        self._most = max(self._most, value)
        place = floor(log(value + 1) / log(GROWTH))
        self._classes[place] = self._classes.get(place, 0) + 1

    def result(self) -> Waits | None:
        if not self.count:
            return None
        return Waits(self.count, self._share(0.5), self._share(0.99), self._most)

    def _share(self, share: float) -> int:
        places = sorted(self._classes)
        up_to = list(accumulate(self._classes[place] for place in places))
        place = places[bisect_left(up_to, ceil(self.count * share))]
        return min(self._most, round(exp(log(GROWTH) * (place + 1))) - 1)


def _listed(counts: dict[str | None, _Count]) -> tuple[Losses, ...]:
    """The most affected first, and what had no place of its own last."""
    found = [count.losses(name) for name, count in counts.items()]
    return tuple(sorted(found, key=lambda each: (each.whose is None, [-late for late in each.late], each.whose or "")))
