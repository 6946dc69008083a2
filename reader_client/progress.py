"""One reader's progress through its segments: its next event, what is settled, and what to report.

    log      0 ───────────┬─────────────────┬────────────────┬───────────► end
                          settled           offset           fetched
             dealt with   given, under way  in the buffer    not fetched yet

Events that were given out count as read, and bounds follow them. Everything below the oldest event under way is
settled, and a restart goes on from there. A log may have offsets without an event: the reader passes them together with
the event before them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from strandline.core.order import Bound, Head, Orderer, SegmentRef

SEGMENTS_PER_CHECK: Final = 8  # checked for each event, on average, for any number of segments


class Placed(Protocol):
    """An event that knows its offset."""

    @property
    def offset(self) -> int: ...


Event = TypeVar("Event", bound=Placed)


@dataclass(slots=True)
class Cursor(Generic[Event]):
    """A reader's place in one segment. `known` is the segment's end when it was last fetched, `final` its final offset,
    once that is known."""

    offset: int
    fetched: int
    reported: tuple[int, int]  # the read and the settled offset, as the group has them
    known: int = 0
    final: int | None = None
    buffer: deque[Event] = field(default_factory=deque)
    under_way: dict[int, None] = field(default_factory=dict)  # offsets, rising
    held: int | None = None  # a bound on what is settled

    @property
    def settled(self) -> int:
        """The offset below which every event has been dealt with."""
        settled = next(iter(self.under_way), self.offset)
        return settled if self.held is None else min(settled, self.held)

    @property
    def finished(self) -> bool:
        """Whether the segment has ended and was read to its end."""
        return self.final is not None and self.offset >= self.final

    @property
    def is_news(self) -> bool:
        """Whether it differs from the last report."""
        return self.reported != (self.offset, self.settled)

    @property
    def is_over(self) -> bool:
        """Whether the segment was read to its end and settled, and this was reported."""
        return self.finished and self.settled == self.offset and not self.is_news

    def pass_gap(self) -> None:
        if not self.buffer:
            self.offset = self.fetched


@dataclass(frozen=True, slots=True)
class News:
    """The read and the settled offsets, by stream and segment."""

    positions: Mapping[str, Mapping[str, int]]
    settled: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Adopted:
    """The segments that are new to a reader, with the offset at which it goes on, and those that it has lost."""

    new: Mapping[SegmentRef, int]
    lost: tuple[SegmentRef, ...]


def no_order(segment: str, offset: int) -> int | None:
    """The bound for a reader that takes its segments in turn, without regard to time."""
    return 0


class Progress(Generic[Event]):
    """The segments that a reader owns. `bound` gives the order, for `"stream/segment"` and an offset."""

    def __init__(self, bound: Bound = no_order) -> None:
        self.cursors: dict[SegmentRef, Cursor[Event]] = {}
        self._bound = bound
        self._orderer = Orderer(bound)
        self._run: tuple[SegmentRef, int, int | None] | None = None

    # -- ownership -----------------------------------------------------------------------------------------------

    def adopt(self, owned: Mapping[str, Mapping[str, int]]) -> Adopted:
        """Makes exactly these segments the reader's, from these offsets on; returns what is new and what is lost.

        In a segment that it keeps, the reader goes on from its own offset. If the given offset is not the one that it
        reported last, it lost the segment and got it back between two calls: then it goes on from the given one.
        """
        given = {
            (stream, segment): offset for stream, position in owned.items() for segment, offset in position.items()
        }
        gone = [place for place in self.cursors if place not in given]
        lost = [place for place in gone if not self.cursors[place].is_over]
        self.drop(gone)
        new = {}
        for place, offset in given.items():
            cursor = self.cursors.get(place)
            if cursor is None or cursor.reported[0] != offset:
                if cursor is not None:
                    lost.append(place)
                    self.drop([place])
                self.cursors[place] = Cursor(offset, offset, (offset, offset))
                new[place] = offset
        return Adopted(new, tuple(lost))

    def begin(self, place: SegmentRef, offset: int, *, held: bool) -> None:
        """Goes on further ahead in a new segment, because the events before `offset` were dealt with elsewhere; or, if
        `held`, are kept elsewhere and not settled yet."""
        cursor = self.cursors[place] = Cursor(offset, offset, self.cursors[place].reported)
        cursor.held = offset - 1 if held else None

    def drop(self, places: Iterable[SegmentRef]) -> None:
        """Gives up these segments, and forgets what was fetched from them."""
        for place in places:
            del self.cursors[place]
            self._orderer.forget("/".join(place))

    def loses(self, owned: Mapping[str, Mapping[str, int]]) -> bool:
        """Whether the reader loses a segment that is not over: `owned` does not have it, or not from where it was."""
        return any(
            owned.get(stream, {}).get(segment) != each.reported[0] and not each.is_over
            for (stream, segment), each in self.cursors.items()
        )

    def room(self, share: int) -> int:
        """How many more segments the reader may take; finished ones do not count."""
        return max(0, share - len(self._unfinished()))

    def surplus(self, share: int) -> list[SegmentRef]:
        """The segments to give up so that no more than `share` is left: first those with the fewest fetched events."""
        places = sorted(self._unfinished(), key=lambda place: (len(self.cursors[place].buffer), place))
        return places[: max(0, len(places) - share)]

    def _unfinished(self) -> list[SegmentRef]:
        return [place for place, cursor in self.cursors.items() if not cursor.finished]

    # -- events --------------------------------------------------------------------------------------------------

    def wanting(self) -> list[SegmentRef]:
        """The segments with no fetched event left that may have more."""
        return [place for place, cursor in self.cursors.items() if not cursor.buffer and cursor.fetched != cursor.final]

    @property
    def starved(self) -> bool:
        """Whether a segment with no fetched event is known to have more: the order needs its next event."""
        return any(not each.buffer and each.fetched < each.known for each in self.cursors.values())

    def feed(self, place: SegmentRef, events: Iterable[Event], upto: int, known: int) -> None:
        """Adds a segment's events from the fetched offset up to `upto`; `known` is the segment's end. Raises ValueError
        for an event outside of this range."""
        cursor = self.cursors[place]
        self._run = None
        for event in events:
            if not cursor.fetched <= event.offset < upto:
                raise ValueError(f"an event at {event.offset} is not in {cursor.fetched} … {upto} of {place}")
            cursor.buffer.append(event)
            cursor.fetched = event.offset + 1
        cursor.fetched = max(cursor.fetched, upto)
        cursor.known = known
        cursor.pass_gap()

    def end(self, place: SegmentRef, final: int) -> None:
        """Records that a segment ends at this offset."""
        self.cursors[place].final = final

    def take(self) -> tuple[SegmentRef, Event] | None:
        """Takes the next event, which is then under way: that of the segment with the least bound, among those with a
        fetched event. None if none is fetched."""
        found = self._next()
        if found is None:
            return None
        place, cursor = found
        event = cursor.buffer.popleft()
        cursor.under_way[event.offset] = None
        cursor.offset = event.offset + 1
        cursor.pass_gap()
        return place, event

    def _next(self) -> tuple[SegmentRef, Cursor[Event]] | None:
        """The segment to take from. Among very many segments, it stays the same for several events between checks."""
        if self._run is not None:
            place, left, bound = self._run
            cursor = self.cursors.get(place)
            if left and cursor is not None and cursor.buffer and self._at(place, cursor) == bound:
                self._run = place, left - 1, bound
                return place, cursor
            self._run = None
        ready = {"/".join(place): (place, cursor) for place, cursor in self.cursors.items() if cursor.buffer}
        if len(ready) > 1:
            name = self._orderer.next_segment(Head(name, each.buffer[0].offset) for name, (_, each) in ready.items())
        else:
            name = next(iter(ready), None)
        if name is None:
            return None
        place, cursor = ready[name]
        left = len(ready) // SEGMENTS_PER_CHECK
        if left:
            self._run = place, left, self._at(place, cursor)
        return place, cursor

    def _at(self, place: SegmentRef, cursor: Cursor[Event]) -> int | None:
        """The bound of the next event."""
        return self._bound("/".join(place), cursor.buffer[0].offset)

    def done(self, place: SegmentRef, offset: int) -> None:
        """Records that an event under way has been dealt with. Does nothing if its segment was lost since."""
        cursor = self.cursors.get(place)
        if cursor is not None:
            cursor.under_way.pop(offset, None)

    def put_back(self, place: SegmentRef, event: Event) -> None:
        """Puts back the event that was taken last, which could not be handed out: it comes again."""
        cursor = self.cursors[place]
        del cursor.under_way[event.offset]
        cursor.buffer.appendleft(event)
        cursor.offset = event.offset

    # -- positions -----------------------------------------------------------------------------------------------

    def settle(self, place: SegmentRef, upto: int, *, held: bool = False) -> None:
        """Records that all events below an offset have been dealt with. Does nothing if the segment was lost since.

        `held`: the events are kept, but not settled yet. The last of them stays unsettled, so that the segment keeps
        an owner even when it is read to its end.
        """
        cursor = self.cursors.get(place)
        if cursor is not None:
            for offset in [each for each in cursor.under_way if each < upto]:
                del cursor.under_way[offset]
            cursor.held = upto - 1 if held else None

    def positions(self) -> dict[str, dict[str, int]]:
        """The read offset of every owned segment."""
        return _by_stream({place: each.offset for place, each in self.cursors.items()})

    def settled(self) -> dict[str, dict[str, int]]:
        """The settled offset of every owned segment."""
        return _by_stream({place: each.settled for place, each in self.cursors.items()})

    def news(self) -> News:
        """Both offsets of the segments that differ from the last report."""
        return self.news_of(place for place, each in self.cursors.items() if each.is_news)

    def news_of(self, places: Iterable[SegmentRef]) -> News:
        cursors = {place: self.cursors[place] for place in places}
        return News(
            _by_stream({place: each.offset for place, each in cursors.items()}),
            _by_stream({place: each.settled for place, each in cursors.items()}),
        )

    def reported(self, news: News) -> None:
        """Records that this was reported."""
        for stream, position in news.positions.items():
            for segment, offset in position.items():
                if (stream, segment) in self.cursors:
                    self.cursors[stream, segment].reported = offset, news.settled[stream][segment]

    @property
    def has_finished(self) -> bool:
        """Whether a segment was finished since the last report: its successors wait for that report."""
        return any(each.finished and each.reported[0] != each.offset for each in self.cursors.values())


def _by_stream(offsets: Mapping[SegmentRef, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (stream, segment), offset in offsets.items():
        found.setdefault(stream, {})[segment] = offset
    return found
