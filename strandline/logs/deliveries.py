"""How far what a producer sent is acknowledged, from its delivery reports: for Kafka, or any client that has some.

    delivery = deliveries.sending()             before an event is sent
    delivery.acknowledged("0", offset=41)       as its report says; or delivery.failed("why")

Everything here is counting: no client is called, and nothing is waited for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from strandline.limits import FAILED_EVENTS_KEPT
from strandline.logs import Event, Position


@dataclass(slots=True)
class _Round:
    """What was sent between two waits."""

    under_way: int = 0


@dataclass(slots=True)
class Failures:
    """What was not acknowledged: how much, why the first of it, and the segments that may have it all the same.

    `events` are those that are known, at most FAILED_EVENTS_KEPT of them.
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
        if event is not None and len(self.events) < FAILED_EVENTS_KEPT:
            self.events.append(event)
        if segment is not None:
            self.segments.add(segment)


class Deliveries:
    """The deliveries of one producer to one stream. Threads may share it.

    Positions are the greatest acknowledged offset of each segment, plus one: whatever is still under way will get
    a greater one, and what failed has none.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._positions: Position = {}
        self._round = _Round()
        self._open = [self._round]  # rounds of which something is under way; the newest is always among them
        self._failures = Failures()
        self._uncommitted: Position | None = None

    def sending(self, event: Event | None = None) -> Delivery:
        """Counts an event as under way, until its report comes."""
        with self._lock:
            self._round.under_way += 1
            return Delivery(self, self._round, event)

    def positions(self) -> Position:
        """How far it is acknowledged, and committed where there are transactions."""
        with self._lock:
            return dict(self._positions)

    def wait(self) -> Callable[[], bool]:
        """What tells whether all that was sent before this call has its report."""
        with self._lock:
            waited_for = [each for each in self._open if each.under_way]
            self._round = _Round()
            self._open = [*waited_for, self._round]
        return lambda: all(not each.under_way for each in waited_for)

    def under_way(self) -> int:
        with self._lock:
            return sum(each.under_way for each in self._open)

    def take_failures(self) -> Failures:
        """What failed since the last call; from now on it counts as never sent."""
        with self._lock:
            taken, self._failures = self._failures, Failures()
            return taken

    def raise_to(self, position: Position) -> None:
        """Counts what lies below as acknowledged."""
        with self._lock:
            _raise(self._positions, position)

    # -- transactions ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """What is acknowledged from now on counts with the commit."""
        with self._lock:
            self._uncommitted = {}

    def commit(self) -> Position:
        """Counts it; returns the position behind it in each of its segments."""
        with self._lock:
            done, self._uncommitted = self._uncommitted or {}, None
            _raise(self._positions, done)
            return done

    def abort(self) -> None:
        """Forgets it, with what failed of it."""
        with self._lock:
            self._uncommitted = None
            self._failures = Failures()

    @property
    def in_transaction(self) -> bool:
        return self._uncommitted is not None

    # -- reports ---------------------------------------------------------------------------------------------

    def _settle(
        self, its_round: _Round, reached: Position, failure: tuple[str, Event | None, str | None] | None
    ) -> None:
        with self._lock:
            _raise(self._positions if self._uncommitted is None else self._uncommitted, reached)
            if failure is not None:
                self._failures.add(*failure)
            its_round.under_way -= 1
            if not its_round.under_way and its_round is not self._round:
                self._open = [each for each in self._open if each is not its_round]


class Delivery:
    """One event on its way. Its first report counts, and no other."""

    __slots__ = ("_deliveries", "_event", "_round")

    def __init__(self, deliveries: Deliveries, its_round: _Round, event: Event | None) -> None:
        self._deliveries: Deliveries | None = deliveries
        self._round = its_round
        self._event = event

    def acknowledged(self, segment: str, offset: int) -> None:
        """The log has it, at this offset."""
        self._end({segment: offset + 1}, None)

    def failed(self, reason: str, segment: str | None = None) -> None:
        """It was not acknowledged; a segment is named where it was sent there, and may have arrived."""
        self._end({}, (reason, self._event, segment))

    def withdrawn(self) -> None:
        """It was not sent after all, and who wanted to send it knows."""
        self._end({}, None)

    def _end(self, reached: Position, failure: tuple[str, Event | None, str | None] | None) -> None:
        deliveries, self._deliveries = self._deliveries, None
        if deliveries is not None:
            deliveries._settle(self._round, reached, failure)


def _raise(position: Position, to: Position) -> None:
    for segment, offset in to.items():
        if offset > position.get(segment, 0):
            position[segment] = offset
