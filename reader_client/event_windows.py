"""Windows over event time that a lower bound closes: tumbling, sliding and session windows, in plain Python.

    tumbling(10)     |────────|────────|────────|      each time lies in one window
    sliding(10, 5)   |────────|                        each time lies in size / every windows
                         |────────|
    session(3)       |─x─x──x───|      |─x───|         events less than a gap apart share a window

A window [start, end) closes when the lower bound reaches its end: none of its events follow then. So equal events and
bounds give equal windows, live or in a replay, for every order of the events.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import heappop, heappush
from typing import Any, Final, Generic, TypeAlias, TypeVar

from strandline.core.checks import check_time, check_whole
from strandline.core.plain import from_plain, to_plain
from strandline.core.time_units import Instant, as_datetime, milliseconds
from strandline.errors import InvalidConfig, QueueFull

WINDOW_EVENTS: Final = 1_000_000  # in open windows, by default

Event = TypeVar("Event")


@dataclass(frozen=True, slots=True, order=True)
class TimeSpan:
    """The times from `start` up to, not including, `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of one size, side by side; `offset_ms` shifts their starts.

    For example:

        Tumbling(60_000).spans(90_000)      # one window: 60 000 up to 120 000
    """

    size_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        check_whole("size_ms", self.size_ms, least=1)
        check_time("offset_ms", self.offset_ms)

    def spans(self, time: int) -> list[TimeSpan]:
        start = (time - self.offset_ms) // self.size_ms * self.size_ms + self.offset_ms
        return [TimeSpan(start, start + self.size_ms)]


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of one size, one every `every_ms`. If that is above the size, some times lie in no window.

    For example:

        Sliding(60_000, every_ms=30_000).spans(90_000)      # two windows
    """

    size_ms: int
    every_ms: int

    def __post_init__(self) -> None:
        check_whole("size_ms", self.size_ms, least=1)
        check_whole("every_ms", self.every_ms, least=1)
        if self.size_ms > self.every_ms * WINDOW_EVENTS:
            wanted = f"windows that overlap no more than {WINDOW_EVENTS} times"
            raise InvalidConfig(name="every_ms", value=self.every_ms, wanted=wanted)

    def spans(self, time: int) -> list[TimeSpan]:
        last = time // self.every_ms * self.every_ms
        return [TimeSpan(start, start + self.size_ms) for start in range(last, time - self.size_ms, -self.every_ms)]


@dataclass(frozen=True, slots=True)
class Session:
    """Windows of events less than `gap_ms` apart: a window ends `gap_ms` after its last event.

    For example:

        Session(30_000)      # a window ends half a minute after its last event
    """

    gap_ms: int

    def __post_init__(self) -> None:
        check_whole("gap_ms", self.gap_ms, least=1)

    def spans(self, time: int) -> list[TimeSpan]:
        return [TimeSpan(time, time + self.gap_ms)]


WindowKind: TypeAlias = Tumbling | Sliding | Session


@dataclass(frozen=True, slots=True)
class Closed(Generic[Event]):
    """A closed window, with its events in the order of arrival. `without` names the writers that marks up to its end
    left out, in order: it may lack their events."""

    start: int
    end: int
    key: Hashable
    events: tuple[Event, ...]
    without: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether it has every event, of every writer that kept its word."""
        return not self.without

    @property
    def start_at(self) -> datetime | None:
        """`start` as a datetime in UTC."""
        return as_datetime(self.start)

    @property
    def end_at(self) -> datetime | None:
        """`end` as a datetime in UTC."""
        return as_datetime(self.end)


Saved: TypeAlias = Mapping[str, Any]  # plain data for json
LeftOut: TypeAlias = Mapping[str, int | None]  # writers, and up to which time the events of each are there


@dataclass(frozen=True, slots=True)
class _Held(Generic[Event]):
    """An event in an open window, with its arrival number, its part, its identity if it has one, and the bound of its
    part when that was loaded or reopened: the event is in no window that was closed then."""

    arrival: int
    part: Hashable
    time: int
    identity: Hashable
    event: Event
    lower: int | None = None

    @property
    def name(self) -> Hashable:
        return ("arrival", self.arrival) if self.identity is None else ("identity", self.identity)


class EventWindows(Generic[Event]):
    """Puts events into windows, by key, and returns a window once no event older than its end follows.

        windows = EventWindows(Tumbling(10_000))
        windows.add(event_time, event)
        for window in windows.advance(watermark):
            window.start, window.events

    Windows come oldest end first. A lower bound below an earlier one (a reader group went back) closes no window and
    opens none again. `identity` names an event: an event that is read again counts once while its window is open.

    `save` returns the open windows as plain data, and `load` restores them. Both work by *part*, for instance the
    segment of an event: a caller that names the part of each event can hand a part over to another reader. In a loaded
    part the windows that were closed at `save` are closed, even if other parts are further: the part goes on from its
    own bound, and its windows close with the next bound. A session is handed over whole if its key stays in one part.

    Raises InvalidConfig, and QueueFull for an event beyond `capacity` in open windows. A refused call changes nothing.
    """

    __slots__ = (
        "_arrivals", "_capacity", "_decode", "_dropped", "_encode", "_held",
        "_kind", "_lower", "_open", "_order", "_parts",
    )  # fmt: skip

    def __init__(
        self,
        kind: WindowKind,
        *,
        capacity: int = WINDOW_EVENTS,
        encode: Callable[[Event], object] = to_plain,
        decode: Callable[[Any], Event] = from_plain,
    ) -> None:
        """`encode` turns an event into data for json, and `decode` turns that data into the event again."""
        given: object = kind
        if not isinstance(given, Tumbling | Sliding | Session):
            raise InvalidConfig(name="kind", value=given, wanted="Tumbling(…), Sliding(…) or Session(…)")
        self._kind = kind
        self._encode, self._decode = encode, decode
        self._capacity = check_whole("capacity", capacity, least=1)
        self._open: dict[Hashable, dict[TimeSpan, dict[Hashable, _Held[Event]]]] = {}
        self._order: list[tuple[int, int, int, Hashable]] = []  # end, start, arrival, key; some stale
        self._arrivals = 0
        self._held = 0
        self._lower: int | None = None
        self._parts: dict[Hashable, int | None] = {}  # the bounds of parts whose bound differs from `_lower`
        self._dropped: set[Hashable] = set()

    def __len__(self) -> int:
        """The number of events in open windows; an event in several windows counts once for each."""
        return self._held

    def add(
        self, time: Instant, event: Event, key: Hashable = None, *, identity: Hashable = None, part: Hashable = None
    ) -> bool:
        """Puts an event into its windows; returns False if all of them are closed: the event is late."""
        time = milliseconds("time", time)
        if part in self._dropped:
            return True  # another reader reads this part
        all_spans = self._kind.spans(time)
        lower = self._lower_of(part)
        if isinstance(self._kind, Session):
            spans = [span for span in all_spans if _is_open(self._merged(key, span), lower)]
        else:
            spans = [span for span in all_spans if _is_open(span, lower)]
        if not spans:
            return not all_spans
        held = _Held(self._arrivals + 1, part, time, identity, event)
        room = self._capacity - self._held
        if len(spans) > room and sum(not self._has(key, span, held.name) for span in spans) > room:
            raise QueueFull(capacity=self._capacity)
        self._arrivals += 1
        self._put(key, spans, held)
        return True

    def advance(self, lower: Instant | None, left_out: LeftOut | None = None) -> list[Closed[Event]]:
        """Closes and returns the windows that end at or before `lower`: no older event follows. None: no bound.

        `left_out`, such as that of a `WatermarkItem`, has the writers without which that is true, each with the time up
        to which its events are there nevertheless (None: none of them). Windows that end later are without it.
        """
        if lower is None:
            return []
        lower = milliseconds("lower", lower)
        if self._lower is not None and lower <= self._lower:
            return []
        self._lower = lower
        self._parts = {part: at for part, at in self._parts.items() if at is not None and at > lower}
        return self._close(lower, left_out or {})

    def would_close(self, lower: int | None) -> bool:
        """Whether windows may close at a lower bound; with None, at the end."""
        return bool(self._order) and (lower is None or self._order[0][0] <= lower)

    def finish(self) -> list[Closed[Event]]:
        """Closes and returns every open window: the stream has ended, so nothing that they lack can follow."""
        return self._close(None, {})

    # -- saving and loading ------------------------------------------------------------------------------------------

    def save(self) -> Saved:
        """All open windows, as plain data that json can write; for `load`.

        Store it together with the reader's position, in one step. Keys, identities and parts may consist of strings,
        bytes, numbers and tuples; events may also have lists, and dicts with strings as keys, unless `encode` was
        given. Raises InvalidConfig for anything else.
        """
        parts = {each.part for _, each in self._all_held()} | self._parts.keys()
        return self._saved(sorted(parts, key=repr), self._all_held())

    def save_parts(self, parts: Iterable[Hashable]) -> dict[Hashable, Saved]:
        """The same data for each of these parts alone."""
        held: dict[Hashable, list[tuple[Hashable, _Held[Event]]]] = {part: [] for part in parts}
        for key, each in self._all_held():
            if each.part in held:
                held[each.part].append((key, each))
        return {part: self._saved([part], found) for part, found in held.items()}

    def load(self, saved: Saved | None, parts: Iterable[Hashable] | None = None) -> None:
        """Restores saved windows: all of them, into a new object, or only these parts.

        None: nothing was saved, and no window is closed for these parts. The parts' present events are removed. Raises
        InvalidConfig for data that is not from `save`, and for windows of another kind: what was in those that are
        closed would be lacking in these. Raises QueueFull.
        """
        lower, lowers, events = (None, {}, []) if saved is None else _loaded(saved, self._decode)
        if saved is not None and (kind := saved.get("kind", repr(self._kind))) != repr(self._kind):
            wanted = f"{kind}, as the saved windows are: another kind needs a state and a reader group of its own"
            raise InvalidConfig(name="kind", value=self._kind, wanted=wanted)
        named = {*lowers, *[part for part, *_ in events]} if parts is None else parts
        bounds = {part: lowers.get(part, lower) for part in named}
        placed = [
            (key, _Held(arrival, part, time, identity, event, bounds[part] if own is None else own))
            for arrival, (part, time, key, identity, event, own) in enumerate(events, self._arrivals + 1)
            if part in bounds
        ]
        stay = sum(each.part not in bounds for window in self._windows() for each in window.values())
        if stay + sum(len(self._spans_of(held)) for _, held in placed) > self._capacity:
            raise QueueFull(capacity=self._capacity)
        if parts is None and self._lower is None:
            self._lower = lower
        for part, bound in bounds.items():
            self.drop(part)
            self._dropped.discard(part)
            if bound != self._lower:
                self._parts[part] = bound
        self._arrivals += len(events)
        for key, held in placed:
            self._put(key, self._spans_of(held), held)

    def reopen(self, part: Hashable, lower: int | None = None) -> None:
        """Counts windows as closed for this part up to `lower`, without it none: events come that another reader has
        not dealt with.

        Its present events stay out of the windows that are closed.
        """
        own = self._lower_of(part)
        for window in self._windows() if own is not None else ():
            for name, each in window.items():
                if each.part == part:
                    window[name] = replace(each, lower=own)
        self._parts[part] = lower

    def pass_over(self, part: Hashable) -> None:
        """Ignores events of this part, which belong to another reader, until the part is loaded."""
        self._dropped.add(part)

    def drop(self, part: Hashable) -> None:
        """Removes the events of this part, which another reader has, and ignores further ones."""
        self.pass_over(part)
        self._parts.pop(part, None)
        for key, spans in list(self._open.items()):
            for span, window in list(spans.items()):
                if all(each.part != part for each in window.values()):
                    continue
                del spans[span]
                self._held -= len(window)
                for each in sorted(window.values(), key=lambda each: each.arrival):
                    if each.part != part:
                        rest = self._kind.spans(each.time) if isinstance(self._kind, Session) else [span]
                        self._put(key, rest, each)
            if not spans:
                del self._open[key]

    def _windows(self) -> list[dict[Hashable, _Held[Event]]]:
        return [window for spans in self._open.values() for window in spans.values()]

    def _all_held(self) -> list[tuple[Hashable, _Held[Event]]]:
        """The events of open windows with their keys, once each, in the order of arrival."""
        held = {
            each.arrival: (key, each)
            for key, spans in self._open.items()
            for window in spans.values()
            for each in window.values()
        }
        return [held[arrival] for arrival in sorted(held)]

    def _saved(self, parts: Iterable[Hashable], held: Iterable[tuple[Hashable, _Held[Event]]]) -> Saved:
        return {
            "kind": repr(self._kind),
            "lower": self._lower,
            "lowers": [[to_plain(part), self._lower_of(part)] for part in parts],
            "events": [
                [
                    to_plain(each.part), each.time, to_plain(key), to_plain(each.identity), self._encode(each.event),
                    *self._own_bound(each),
                ]
                for key, each in held
            ],
        }  # fmt: skip

    def _own_bound(self, held: _Held[Event]) -> list[int]:
        """The bound of an event that came before its part was reopened."""
        lower = self._lower_of(held.part)
        return [] if held.lower is None or (lower is not None and lower >= held.lower) else [held.lower]

    def _spans_of(self, held: _Held[Event]) -> list[TimeSpan]:
        """The windows of a saved event that were open then."""
        spans = self._kind.spans(held.time)
        if isinstance(self._kind, Session):
            return spans  # an event of an open session may lie far before the bound
        return [span for span in spans if _is_open(span, held.lower)]

    # -- within ------------------------------------------------------------------------------------------------------

    def _lower_of(self, part: Hashable) -> int | None:
        return self._parts.get(part, self._lower)

    def _put(self, key: Hashable, spans: Iterable[TimeSpan], held: _Held[Event]) -> None:
        for span in spans:
            window = self._window(key, span, held.arrival)
            if held.name not in window:
                window[held.name] = held
                self._held += 1

    def _has(self, key: Hashable, span: TimeSpan, name: Hashable) -> bool:
        """Whether the window with this span has an event of this name."""
        spans = self._overlapping(key, span) if isinstance(self._kind, Session) else [span]
        return any(name in self._open.get(key, {}).get(each, ()) for each in spans)

    def _close(self, lower: int | None, left_out: LeftOut) -> list[Closed[Event]]:
        closed = []
        while self._order and (lower is None or self._order[0][0] <= lower):
            end, start, _, key = heappop(self._order)
            spans = self._open.get(key, {})
            window = spans.pop(TimeSpan(start, end), None)
            if window is None:
                continue  # it was merged into another, or dropped
            if not spans:
                del self._open[key]
            self._held -= len(window)
            events = tuple(each.event for each in sorted(window.values(), key=lambda each: each.arrival))
            without = sorted(name for name, there in left_out.items() if there is None or there < end)
            closed.append(Closed(start, end, key, events, tuple(without)))
        return closed

    def _merged(self, key: Hashable, span: TimeSpan) -> TimeSpan:
        """The session that results from merging this one with those that it overlaps."""
        for other in self._overlapping(key, span):
            span = TimeSpan(min(span.start, other.start), max(span.end, other.end))
        return span

    def _overlapping(self, key: Hashable, span: TimeSpan) -> list[TimeSpan]:
        return [other for other in self._open.get(key, {}) if other.start < span.end and span.start < other.end]

    def _window(self, key: Hashable, span: TimeSpan, arrival: int) -> dict[Hashable, _Held[Event]]:
        """The events of a window. Opens the window, or merges a session with those that it overlaps."""
        events: dict[Hashable, _Held[Event]] = {}
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
            heappush(self._order, (span.end, span.start, arrival, key))
        return spans[span]


def _is_open(span: TimeSpan, lower: int | None) -> bool:
    return lower is None or span.end > lower


def _loaded(
    saved: Saved, decode: Callable[[Any], Any]
) -> tuple[int | None, dict[Hashable, int | None], list[tuple[Hashable, int, Hashable, Hashable, Any, int | None]]]:
    """The common bound, the bounds of parts, and the events, the last field of which is a bound of their own."""
    try:
        lowers = {_named(part): _bound(at) for part, at in saved["lowers"]}
        events = [
            (_named(part), check_time("time", time), _named(key), _named(identity), decode(event), _bound(*own))
            for part, time, key, identity, event, *own in saved["events"]
        ]
        return _bound(saved["lower"]), lowers, events
    except (KeyError, TypeError, ValueError) as error:
        wanted = f"what save() of EventWindows gave: {error}"
        raise InvalidConfig(name="saved windows", value=str(saved)[:80], wanted=wanted) from None


def _bound(value: Any = None) -> int | None:  # from json
    return None if value is None else check_time("lower", value)


def _named(value: Any) -> Hashable:  # from json
    named: Hashable = from_plain(value)
    hash(named)  # raises a TypeError for a list or an object
    return named
