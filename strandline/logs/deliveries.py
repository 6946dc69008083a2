"""Counts how far a producer's events are acknowledged, from delivery reports: for Kafka, or any client that has them.

    delivery = deliveries.sending()             before an event is sent
    delivery.acknowledged("0", offset=41)       with its report; or delivery.failed("why")

This module only counts: it calls no client, and does not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from strandline.logs import Event, Position

FAILED_EVENTS_STORED: Final = 100_000  # until they are reported; more are only counted


@dataclass(slots=True)
class Failures:
    """The events that were not acknowledged: their number, the reason of the first, and the segments in which they may
    be nevertheless.

    `events` are the known ones, at most FAILED_EVENTS_STORED.
    """

    count: int = 0
    reason: str = ""
    events: list[Event] = field(default_factory=list)
    segments: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, reason: str, event: Event | None, segment: str | None) -> None:
        self.reason = self.reason or reason
        self.count += 1
        if event is not None and len(self.events) < FAILED_EVENTS_STORED:
            self.events.append(event)
        if segment is not None:
            self.segments.add(segment)


class Deliveries:
    """The deliveries of one producer to one stream. Threads may share it.

    A position is the greatest acknowledged offset of each segment, plus one: an event under way will get a greater
    offset, and a failed event has none. Only a log that was made anew, or has lost events, gives an event a smaller
    offset than those that were acknowledged before it was sent. Then the position goes back with it, and the controller
    refuses the notes of a writer that has noted more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._positions: Position = {}
        self._reached: dict[str, int] = {}  # by segment: how many events had been sent when its position was reached
        self._under_way: dict[int, None] = {}  # the numbers of events, in the order in which they were sent
        self._failures = Failures()
        self._uncommitted: Position | None = None
        self.sent = 0  # events, in all
        self.doubtful: dict[str, float] = {}  # segments that may have failed events, and until when

    def sending(self, event: Event | None = None) -> Delivery:
        """Counts an event as under way until its report comes."""
        with self._lock:
            self.sent += 1
            self._under_way[self.sent] = None
            return Delivery(self, self.sent, event)

    def positions(self) -> Position:
        """How far events are acknowledged and, in transactions, committed."""
        with self._lock:
            return dict(self._positions)

    def wait(self) -> Callable[[], bool]:
        """Returns a function that says whether every event sent before this call has its report."""
        last = self.sent

        def is_over() -> bool:
            with self._lock:
                return next(iter(self._under_way), last + 1) > last

        return is_over

    def under_way(self) -> int:
        return len(self._under_way)

    def take_failures(self, hidden_until: float | None = None) -> Failures:
        """The failures since the last call; from now on their events count as never sent. With a time until which they
        may be hidden, the segments in which they may be are `doubtful`."""
        with self._lock:
            taken, self._failures = self._failures, Failures()
            if hidden_until is not None:
                self.doubtful |= dict.fromkeys(taken.segments, hidden_until)
            return taken

    def raise_to(self, position: Position, doubtful: Mapping[str, float]) -> None:
        """Counts everything below a position as acknowledged, and these segments, unless they became so again, as no
        longer doubtful."""
        with self._lock:
            self._raise(position)
            self.doubtful = {name: until for name, until in self.doubtful.items() if doubtful.get(name) != until}

    def forget(self) -> None:
        """Forgets how far events are acknowledged: they are no longer there, since the log was made anew."""
        with self._lock:
            self._positions.clear()

    # -- transactions ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begins a transaction: events acknowledged from now on count with the commit."""
        with self._lock:
            self._uncommitted = {}

    def commit(self) -> Position:
        """Counts the events of the transaction; returns the position behind them in each of their segments."""
        with self._lock:
            done, self._uncommitted = self._uncommitted or {}, None
            self._raise(done)
            return done

    def abort(self) -> None:
        """Forgets the transaction, with its failures and with what is under way."""
        with self._lock:
            self._uncommitted = None
            self._failures = Failures()
            self._under_way.clear()

    @property
    def in_transaction(self) -> bool:
        return self._uncommitted is not None

    # -- reports ---------------------------------------------------------------------------------------------

    def _settle(self, number: int, reached: Position, failure: tuple[str, Event | None, str | None] | None) -> None:
        with self._lock:
            for segment, offset in reached.items():
                if offset <= self._positions.get(segment, 0) and number > self._reached[segment]:
                    del self._positions[segment]  # the log was made anew
            if self._uncommitted is None:
                self._raise(reached)
            else:
                self._uncommitted |= {name: max(end, self._uncommitted.get(name, 0)) for name, end in reached.items()}
            if failure is not None:
                self._failures.add(*failure)
            self._under_way.pop(number, None)

    def _raise(self, position: Position) -> None:
        for segment, offset in position.items():
            if offset > self._positions.get(segment, 0):
                self._positions[segment], self._reached[segment] = offset, self.sent


class Delivery:
    """One event under way. Only its first report counts."""

    __slots__ = ("_deliveries", "_event", "_number")

    def __init__(self, deliveries: Deliveries, number: int, event: Event | None) -> None:
        self._deliveries: Deliveries | None = deliveries
        self._number = number
        self._event = event

    def acknowledged(self, segment: str, offset: int) -> None:
        """Records that the log has the event, at this offset."""
        self._end({segment: offset + 1}, None)

    def failed(self, reason: str, segment: str | None = None) -> None:
        """Records that the event was not acknowledged. Name the segment if the event was sent there and may have
        arrived."""
        self._end({}, (reason, self._event, segment))

    def withdrawn(self) -> None:
        """Records that the event was not sent after all, and that its sender knows."""
        self._end({}, None)

    def _end(self, reached: Position, failure: tuple[str, Event | None, str | None] | None) -> None:
        deliveries, self._deliveries = self._deliveries, None
        if deliveries is not None:
            deliveries._settle(self._number, reached, failure)
