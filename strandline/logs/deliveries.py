"""Counts how far a producer's events are acknowledged, from delivery reports: for Kafka, or any client that has them.

    delivery = deliveries.sending()             before an event is sent
    delivery.acknowledged("0", offset=41)       with its report; or delivery.failed("why")

This module only counts: it calls no client, and does not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from strandline.logs import Event, Position

FAILED_EVENTS_STORED: Final = 100_000  # until they are reported; more are only counted


@dataclass(slots=True)
class _Round:
    """The events sent between two waits, and a position that was reached before those under way were sent."""

    under_way: int = 0
    after: Position = field(default_factory=dict)


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
        self._round = _Round()
        self._open = [self._round]  # the rounds with events under way, and always the newest
        self._failures = Failures()
        self._uncommitted: Position | None = None
        self.sent = 0  # events, in all

    def sending(self, event: Event | None = None) -> Delivery:
        """Counts an event as under way until its report comes."""
        with self._lock:
            if not self._round.under_way:
                self._round.after = dict(self._positions)
            self._round.under_way += 1
            self.sent += 1
            return Delivery(self, self._round, event)

    def positions(self) -> Position:
        """How far events are acknowledged and, in transactions, committed."""
        with self._lock:
            return dict(self._positions)

    def wait(self) -> Callable[[], bool]:
        """Returns a function that says whether every event sent before this call has its report."""
        with self._lock:
            waited_for = [each for each in self._open if each.under_way]
            self._round = _Round()
            self._open = [*waited_for, self._round]
        return lambda: all(not each.under_way for each in waited_for)

    def under_way(self) -> int:
        with self._lock:
            return sum(each.under_way for each in self._open)

    def take_failures(self) -> Failures:
        """The failures since the last call; from now on their events count as never sent."""
        with self._lock:
            taken, self._failures = self._failures, Failures()
            return taken

    def raise_to(self, position: Position) -> None:
        """Counts everything below a position as acknowledged."""
        with self._lock:
            _raise(self._positions, position)

    def forget(self) -> None:
        """Forgets how far events are acknowledged: they are no longer there, since the log was made anew."""
        with self._lock:
            self._positions.clear()
            for each in self._open:
                each.after.clear()

    # -- transactions ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begins a transaction: events acknowledged from now on count with the commit."""
        with self._lock:
            self._uncommitted = {}

    def commit(self) -> Position:
        """Counts the events of the transaction; returns the position behind them in each of their segments."""
        with self._lock:
            done, self._uncommitted = self._uncommitted or {}, None
            _raise(self._positions, done)
            return done

    def abort(self) -> None:
        """Forgets the transaction, with its failures and with what is under way."""
        with self._lock:
            self._uncommitted = None
            self._failures = Failures()
            self._round = _Round()
            self._open = [self._round]

    @property
    def in_transaction(self) -> bool:
        return self._uncommitted is not None

    # -- reports ---------------------------------------------------------------------------------------------

    def _settle(
        self, its_round: _Round, reached: Position, failure: tuple[str, Event | None, str | None] | None
    ) -> None:
        with self._lock:
            for segment, offset in reached.items():
                if offset <= its_round.after.get(segment, 0):
                    self._go_back(segment)
            _raise(self._positions if self._uncommitted is None else self._uncommitted, reached)
            if failure is not None:
                self._failures.add(*failure)
            its_round.under_way -= 1
            if not its_round.under_way and its_round is not self._round:
                self._open = [each for each in self._open if each is not its_round]

    def _go_back(self, segment: str) -> None:
        del self._positions[segment]
        for each in self._open:
            each.after.pop(segment, None)


class Delivery:
    """One event under way. Only its first report counts."""

    __slots__ = ("_deliveries", "_event", "_round")

    def __init__(self, deliveries: Deliveries, its_round: _Round, event: Event | None) -> None:
        self._deliveries: Deliveries | None = deliveries
        self._round = its_round
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
            deliveries._settle(self._round, reached, failure)


def _raise(position: Position, to: Position) -> None:
    for segment, offset in to.items():
        if offset > position.get(segment, 0):
            position[segment] = offset
