"""Windows over event time that close by a lower bound: tumbling, sliding and session windows, in plain Python.

    tumbling(10)     |────────|────────|────────|      each time lies in one window
    sliding(10, 5)   |────────|                        … in size / every of them
                         |────────|
    session(3)       |─x─x──x───|      |─x───|         events less than a gap apart lie together

A window [start, end) closes when the lower bound reaches its end: nothing that belongs in it follows then. So equal
events and bounds give equal windows, live or in a replay, in whatever order the events came.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, TypeAlias, TypeVar

from strandline.checks import check_time, check_whole
from strandline.errors import InvalidConfig, QueueFull
from strandline.limits import WINDOW_EVENTS

Event = TypeVar("Event")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The times from `start` up to, not including, `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of one size, side by side; `offset_ms` shifts where they begin."""

    size_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        check_whole("size_ms", self.size_ms, least=1)
        check_time("offset_ms", self.offset_ms)

    def spans(self, time: int) -> list[Span]:
        start = (time - self.offset_ms) // self.size_ms * self.size_ms + self.offset_ms
        return [Span(start, start + self.size_ms)]


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of one size that begin every `every_ms`. Where that is above the size, some times lie in none."""

    size_ms: int
    every_ms: int

    def __post_init__(self) -> None:
        check_whole("size_ms", self.size_ms, least=1)
        check_whole("every_ms", self.every_ms, least=1)
        if self.size_ms > self.every_ms * WINDOW_EVENTS:
            wanted = f"windows that overlap no more than {WINDOW_EVENTS} times"
            raise InvalidConfig(name="every_ms", value=self.every_ms, wanted=wanted)

    def spans(self, time: int) -> list[Span]:
        last = time // self.every_ms * self.every_ms
        return [Span(start, start + self.size_ms) for start in range(last, time - self.size_ms, -self.every_ms)]


@dataclass(frozen=True, slots=True)
class Session:
    """Windows as long as events keep coming: they end `gap_ms` after their last one."""

    gap_ms: int

    def __post_init__(self) -> None:
        check_whole("gap_ms", self.gap_ms, least=1)

    def spans(self, time: int) -> list[Span]:
        return [Span(time, time + self.gap_ms)]


Kind: TypeAlias = Tumbling | Sliding | Session


@dataclass(frozen=True, slots=True)
class Closed(Generic[Event]):
    """A window that is over, with its events in the order in which they came."""

    start: int
    end: int
    key: Hashable
    events: tuple[Event, ...]


class EventWindows(Generic[Event]):
    """Puts events into windows, by key, and gives a window back once nothing older than its end follows.

    Windows come oldest end first. Given a lower bound below an earlier one (a reader group went back), nothing closes
    and nothing opens again. `identity` names an event: one that is read again counts once while its window is open.

    Raises InvalidConfig, and QueueFull for an event that would be one more than `capacity` in open windows. A refused
    call changes nothing.
    """

    __slots__ = ("_arrivals", "_capacity", "_held", "_kind", "_lower", "_open", "_order")

    def __init__(self, kind: Kind, *, capacity: int = WINDOW_EVENTS) -> None:
        self._kind = kind
        self._capacity = check_whole("capacity", capacity, least=1)
        self._open: dict[Hashable, dict[Span, dict[Hashable, tuple[int, Event]]]] = {}
        self._order: list[tuple[int, int, int, Hashable]] = []  # end, start, arrival, key; some are gone by merging
        self._arrivals = 0
        self._held = 0
        self._lower: int | None = None

    def __len__(self) -> int:
        """The events in open windows; one that lies in several counts in each."""
        return self._held

    def add(self, time: int, event: Event, key: Hashable = None, *, identity: Hashable = None) -> bool:
        """Puts an event where it belongs; False where every window it belongs in is closed: it is late."""
        check_time("time", time)
        all_spans = self._kind.spans(time)
        if isinstance(self._kind, Session):
            spans = [span for span in all_spans if self._is_open(self._merged(key, span))]
        else:
            spans = [span for span in all_spans if self._is_open(span)]
        if not spans:
            return not all_spans
        if self._held + len(spans) > self._capacity:
            raise QueueFull(capacity=self._capacity)
        self._arrivals += 1
        name = ("arrival", self._arrivals) if identity is None else ("identity", identity)
        for span in spans:
            window = self._window(key, span)
            if name not in window:
                window[name] = self._arrivals, event
                self._held += 1
        return True

    def advance(self, lower: int | None) -> list[Closed[Event]]:
        """Nothing older than `lower` follows: the windows that end there or before. None is no bound yet."""
        if lower is None or (self._lower is not None and lower <= self._lower):
            return []
        self._lower = check_time("lower", lower)
        return self._close(lower)

    def finish(self) -> list[Closed[Event]]:
        """The stream has ended: every window that is open."""
        return self._close(None)

    def _close(self, lower: int | None) -> list[Closed[Event]]:
        closed = []
        while self._order and (lower is None or self._order[0][0] <= lower):
            end, start, _, key = heappop(self._order)
            spans = self._open.get(key, {})
            window = spans.pop(Span(start, end), None)
            if window is None:
                continue  # it was merged into another
            if not spans:
                del self._open[key]
            self._held -= len(window)
            events = tuple(event for _, event in sorted(window.values(), key=lambda each: each[0]))
            closed.append(Closed(start, end, key, events))
        return closed

    def _is_open(self, span: Span) -> bool:
        return self._lower is None or span.end > self._lower

    def _merged(self, key: Hashable, span: Span) -> Span:
        """The session that this one would be a part of."""
        for other in self._overlapping(key, span):
            span = Span(min(span.start, other.start), max(span.end, other.end))
        return span

    def _overlapping(self, key: Hashable, span: Span) -> list[Span]:
        return [other for other in self._open.get(key, {}) if other.start < span.end and span.start < other.end]

    def _window(self, key: Hashable, span: Span) -> dict[Hashable, tuple[int, Event]]:
        """The events of a window, which is opened, or, a session, merged with those that it overlaps."""
        events: dict[Hashable, tuple[int, Event]] = {}
        if isinstance(self._kind, Session):
            others = self._overlapping(key, span)
            span = self._merged(key, span)
            for other in others:
                if other == span:
                    continue
                taken = self._open[key].pop(other)
                self._held -= len(taken.keys() & events.keys())
                events = taken | events
        spans = self._open.setdefault(key, {})
        if span not in spans:
            spans[span] = events
            heappush(self._order, (span.end, span.start, self._arrivals, key))
        return spans[span]
