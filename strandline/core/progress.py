"""One reader's progress through its segments: what it may take next, what has been dealt with, what to report.

    log      0 ───────────┬─────────────────┬────────────────┬───────────► end
                          settled           offset           fetched
             dealt with   given, under way  in the buffer    not fetched yet

What was given is read, and bounds follow it. What lies below the oldest event that is under way is settled, and a
restart goes on from there. A log may have offsets without an event: they are passed with the event before them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from strandline.core.order import Bound, Head, Orderer, SegmentRef

SEGMENTS_PER_LOOK: Final = 8  # so many are looked at for each event, on average, however many there are


class Placed(Protocol):
    """An event that knows where in its segment it stands."""

    @property
    def offset(self) -> int: ...


Event = TypeVar("Event", bound=Placed)


@dataclass(slots=True)
class Cursor(Generic[Event]):
    """Where a reader stands in one segment. `known` is how far it went when last looked at, `final` where it ends, once
    that is known."""

    offset: int
    fetched: int
    known: int = 0
    final: int | None = None
    reported: tuple[int, int] | None = None  # what was read and what was settled
    buffer: deque[Event] = field(default_factory=deque)
    under_way: dict[int, None] = field(default_factory=dict)  # offsets, rising
    held: int | None = None  # not more than this is settled

    @property
    def settled(self) -> int:
        """Everything below it has been dealt with."""
        settled = next(iter(self.under_way), self.offset)
        return settled if self.held is None else min(settled, self.held)

    @property
    def finished(self) -> bool:
        """Whether all of a segment that has ended was read."""
        return self.final is not None and self.offset >= self.final

    @property
    def is_news(self) -> bool:
        """Whether it stands elsewhere than was reported last."""
        return self.reported != (self.offset, self.settled)

    @property
    def is_over(self) -> bool:
        """Whether all of it was read and settled, and the group knows that."""
        return self.finished and self.settled == self.offset and not self.is_news

    def pass_gap(self) -> None:
        if not self.buffer:
            self.offset = self.fetched


@dataclass(frozen=True, slots=True)
class News:
    """How far segments were read, and how far that is settled, by stream and segment."""

    positions: Mapping[str, Mapping[str, int]]
    settled: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Adopted:
    """The segments that have come to a reader, with where it goes on in each, and those that it has lost."""

    new: Mapping[SegmentRef, int]
    lost: tuple[SegmentRef, ...]


def no_order(segment: str, offset: int) -> int | None:
    """The bound for a reader that takes its segments in turn, whatever their time."""
    return 0


class Progress(Generic[Event]):
    """The segments that a reader owns. `bound` tells the order, for `"stream/segment"` and an offset."""

    def __init__(self, bound: Bound = no_order) -> None:
        self.cursors: dict[SegmentRef, Cursor[Event]] = {}
        self._bound = bound
        self._orderer = Orderer(bound)
        self._run: tuple[SegmentRef, int, int | None] | None = None

    # -- ownership -----------------------------------------------------------------------------------------------

    def adopt(self, owned: Mapping[str, Mapping[str, int]]) -> Adopted:
        """These segments are the reader's, from these offsets on, and no others; returns what is new and what is lost.

        In one that it keeps it goes on from where it is, unless it is told to go on further ahead.
        """
        told = {(stream, segment): offset for stream, position in owned.items() for segment, offset in position.items()}
        gone = [place for place in self.cursors if place not in told]
        lost = [place for place in gone if not self.cursors[place].is_over]
        self.drop(gone)
        new = {}
        for place, offset in told.items():
            cursor = self.cursors.get(place)
            if cursor is None or cursor.offset < offset:
                if cursor is not None:
                    lost.append(place)  # others have read on
                self.cursors[place] = Cursor(offset, offset, reported=(offset, offset))
                new[place] = offset
        return Adopted(new, tuple(lost))

    def begin(self, place: SegmentRef, offset: int, *, held: bool) -> None:
        """Goes on from further ahead in a segment that is new, since what lies before was dealt with elsewhere; or, if
        that is `held`, is kept elsewhere and not done with."""
        cursor = self.cursors[place] = Cursor(offset, offset, reported=self.cursors[place].reported)
        cursor.held = offset - 1 if held else None

    def drop(self, places: Iterable[SegmentRef]) -> None:
        """These segments are the reader's no more: what was fetched of them is forgotten."""
        for place in places:
            del self.cursors[place]
            self._orderer.forget("/".join(place))

    def loses(self, owned: Mapping[str, Mapping[str, int]]) -> bool:
        """Whether a segment that is not over for this reader, finished and reported, is none of these."""
        return any(
            segment not in owned.get(stream, {}) and not each.is_over
            for (stream, segment), each in self.cursors.items()
        )

    def room(self, share: int) -> int:
        """How many segments more the reader may take; finished ones do not count."""
        return max(0, share - len(self._unfinished()))

    def surplus(self, share: int) -> list[SegmentRef]:
        """What to give up so that not more than its share is left: rather what has the least fetched."""
        places = sorted(self._unfinished(), key=lambda place: (len(self.cursors[place].buffer), place))
        return places[: max(0, len(places) - share)]

    def _unfinished(self) -> list[SegmentRef]:
        return [place for place, cursor in self.cursors.items() if not cursor.finished]

    # -- events --------------------------------------------------------------------------------------------------

    def wanting(self) -> list[SegmentRef]:
        """The segments of which nothing is fetched, and which may have more."""
        return [place for place, cursor in self.cursors.items() if not cursor.buffer and cursor.fetched != cursor.final]

    @property
    def starved(self) -> bool:
        """Whether a segment of which nothing is fetched is known to have more: the order needs its next event."""
        return any(not each.buffer and each.fetched < each.known for each in self.cursors.values())

    def feed(self, place: SegmentRef, events: Iterable[Event], upto: int, known: int) -> None:
        """What a segment has from where fetching ended up to an offset, and how far it goes. Raises ValueError for what
        does not follow."""
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
        """A segment ends at this offset."""
        self.cursors[place].final = final

    def take(self) -> tuple[SegmentRef, Event] | None:
        """The next event, which is under way then. Of the segments with one fetched it is from the one whose next event
        is oldest by the bounds; null where nothing is fetched."""
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
        """The segment to take from. Of very many, one is taken from several times before all are looked at again."""
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
        left = len(ready) // SEGMENTS_PER_LOOK
        if left:
            self._run = place, left, self._at(place, cursor)
        return place, cursor

    def _at(self, place: SegmentRef, cursor: Cursor[Event]) -> int | None:
        """The bound of the next event."""
        return self._bound("/".join(place), cursor.buffer[0].offset)

    def done(self, place: SegmentRef, offset: int) -> None:
        """An event that was under way has been dealt with. Harmless where its segment was lost since."""
        cursor = self.cursors.get(place)
        if cursor is not None:
            cursor.under_way.pop(offset, None)

    def put_back(self, place: SegmentRef, event: Event) -> None:
        """The event that was taken last could not be handed out: it comes again."""
        cursor = self.cursors[place]
        del cursor.under_way[event.offset]
        cursor.buffer.appendleft(event)
        cursor.offset = event.offset

    # -- positions -----------------------------------------------------------------------------------------------

    def settle(self, place: SegmentRef, upto: int, *, held: bool = False) -> None:
        """All events below an offset have been dealt with. Harmless where the segment was lost since.

        `held`: they are kept, and not done with. The last of them stays unsettled, so that the segment has an owner,
        also once it is read to its end.
        """
        cursor = self.cursors.get(place)
        if cursor is not None:
            for offset in [each for each in cursor.under_way if each < upto]:
                del cursor.under_way[offset]
            cursor.held = upto - 1 if held else None

    def positions(self) -> dict[str, dict[str, int]]:
        """How far the reader has read, in all that it owns."""
        return _by_stream({place: each.offset for place, each in self.cursors.items()})

    def settled(self) -> dict[str, dict[str, int]]:
        """How far that was dealt with."""
        return _by_stream({place: each.settled for place, each in self.cursors.items()})

    def news(self) -> News:
        """Both, where they are not what was reported last."""
        return self.news_of(place for place, each in self.cursors.items() if each.is_news)

    def news_of(self, places: Iterable[SegmentRef]) -> News:
        cursors = {place: self.cursors[place] for place in places}
        return News(
            _by_stream({place: each.offset for place, each in cursors.items()}),
            _by_stream({place: each.settled for place, each in cursors.items()}),
        )

    def reported(self, news: News) -> None:
        """This was reported."""
        for stream, position in news.positions.items():
            for segment, offset in position.items():
                if (stream, segment) in self.cursors:
                    self.cursors[stream, segment].reported = offset, news.settled[stream][segment]

    @property
    def has_finished(self) -> bool:
        """Whether a segment was finished since the last report: its successors wait for hearing of it."""
        return any(
            each.finished and (each.reported is None or each.reported[0] != each.offset)
            for each in self.cursors.values()
        )


def _by_stream(offsets: Mapping[SegmentRef, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (stream, segment), offset in offsets.items():
        found.setdefault(stream, {})[segment] = offset
    return found
