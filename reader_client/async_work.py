"""Orders the results of asynchronous work on events, and the watermarks between these events.

The caller runs the work. It calls `submit` when work on an event begins, `behind` for a signal between events, such as
a watermark, and `complete` for a result. `behind` and `complete` return what may go downstream now. Two promises:

- No overtaking: an event that came before a signal never comes out after it.
- No unnecessary latency: a signal comes out as soon as no event before it is under way.

    in         e1  e2  W(10)  e3  W(20)      the results arrive as e3, e1, e2
    ordered    e3: -              e1: e1           e2: e2 W(10) e3 W(20)
    unordered  e3: e3             e1: e1           e2: e2 W(20)

This module has no tasks and no loops.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from strandline.core.checks import check_whole
from strandline.errors import QueueFull, UnknownTicket

Item = TypeVar("Item")
Result = TypeVar("Result")
Signal = TypeVar("Signal")


@dataclass(frozen=True, slots=True)
class Ticket:
    """Names one submitted item of one queue."""

    number: int


@dataclass(frozen=True, slots=True)
class Completed(Generic[Item, Result]):
    """An item and its result."""

    item: Item
    result: Result


class _Signals(dict[Hashable, Signal]):
    """The newest signal of each subject, in the order in which they came."""

    def put(self, subject: Hashable, signal: Signal) -> None:
        self.pop(subject, None)
        self[subject] = signal


class _Place(Generic[Item, Result, Signal]):
    """One item, with the signals that came right after it."""

    __slots__ = ("completed", "item", "signals")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.completed: Completed[Item, Result] | None = None
        self.signals: _Signals[Signal] = _Signals()


class Work(Generic[Item, Result, Signal]):
    """Ordered, results come out in the order of submission, with the signals at their places: an early result waits for
    those before it, and uses capacity until it comes out. Unordered, they come out as they arrive, and a signal waits
    for every item before it.

    `capacity` bounds the items that were submitted and have not come out. Between two items there is at most one signal
    of each subject, the newest, so the signals are bounded too, and are never refused for lack of room.

    Raises InvalidConfig, QueueFull for a `submit` to a full queue, and UnknownTicket for a `complete` of an item that
    is not under way. A refused call changes nothing.
    """

    __slots__ = ("_capacity", "_next_number", "_ordered", "_places", "_under_way")

    def __init__(self, capacity: int, *, ordered: bool) -> None:
        self._capacity, self._ordered = check_whole("capacity", capacity, least=1), ordered
        self._next_number = 0
        self._places: deque[_Place[Item, Result, Signal]] = deque()  # of those that have not come out
        self._under_way: dict[int, _Place[Item, Result, Signal]] = {}

    @property
    def full(self) -> bool:
        """Whether the next `submit` would be refused."""
        return len(self) >= self._capacity

    def __len__(self) -> int:
        """The items that were submitted and have not come out."""
        return len(self._places)

    def submit(self, item: Item) -> Ticket:
        """Records that work on the item begins; pass the ticket to `complete`."""
        if self.full:
            raise QueueFull(capacity=self._capacity)
        ticket = Ticket(self._next_number)
        self._next_number += 1
        place: _Place[Item, Result, Signal] = _Place(item)
        self._under_way[ticket.number] = place
        self._places.append(place)
        return ticket

    def behind(self, subject: Hashable, signal: Signal) -> list[Completed[Item, Result] | Signal]:
        """Puts a signal behind the items submitted so far. It comes out at once if none of them is left."""
        if not self._places:
            return [signal]
        self._places[-1].signals.put(subject, signal)
        return []

    def complete(self, ticket: Ticket, result: Result) -> list[Completed[Item, Result] | Signal]:
        """Records the item's result; returns what may go downstream now, in order."""
        place = self._under_way.pop(ticket.number, None)
        if place is None:
            raise UnknownTicket(number=ticket.number)
        place.completed = Completed(place.item, result)
        if not self._ordered and place is not self._places[0]:
            at = self._places.index(place)
            del self._places[at]
            for subject, signal in place.signals.items():  # they wait for the items before as well
                self._places[at - 1].signals.put(subject, signal)
            return [place.completed]
        outputs: list[Completed[Item, Result] | Signal] = []
        while self._places and (completed := self._places[0].completed) is not None:
            outputs += [completed, *self._places.popleft().signals.values()]
        return outputs
