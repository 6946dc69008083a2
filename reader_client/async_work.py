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

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Mapping
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


class Work(ABC, Generic[Item, Result, Signal]):
    """What the ordered and the unordered queue have in common: a capacity, and tickets.

    `capacity` bounds the items that were submitted and have not come out. Between two items there is at most one signal
    of each subject, the newest, so the signals are bounded too, and are never refused for lack of room.

    Raises InvalidConfig, QueueFull for a `submit` to a full queue, and UnknownTicket for a `complete` of an item that
    is not under way. A refused call changes nothing.
    """

    __slots__ = ("_capacity", "_next_number")

    def __init__(self, capacity: int) -> None:
        self._capacity = check_whole("capacity", capacity, least=1)
        self._next_number = 0

    @property
    def full(self) -> bool:
        """Whether the next `submit` would be refused."""
        return len(self) >= self._capacity

    @abstractmethod
    def __len__(self) -> int:
        """The items that were submitted and have not come out."""

    @abstractmethod
    def submit(self, item: Item) -> Ticket:
        """Records that work on the item begins; pass the ticket to `complete`."""

    @abstractmethod
    def behind(self, subject: Hashable, signal: Signal) -> list[Completed[Item, Result] | Signal]:
        """Puts a signal behind the items submitted so far. It comes out at once if none of them is left."""

    @abstractmethod
    def complete(self, ticket: Ticket, result: Result) -> list[Completed[Item, Result] | Signal]:
        """Records the item's result; returns what may go downstream now, in order."""

    def _take_number(self) -> int:
        if self.full:
            raise QueueFull(capacity=self._capacity)
        number = self._next_number
        self._next_number += 1
        return number


class _Signals(dict[Hashable, Signal]):
    """The newest signal of each subject, in the order in which they came."""

    def put(self, subject: Hashable, signal: Signal) -> None:
        self.pop(subject, None)
        self[subject] = signal

    def put_all(self, later: Mapping[Hashable, Signal]) -> None:
        for subject, signal in later.items():
            self.put(subject, signal)


class _QueuedItem(Generic[Item, Result, Signal]):
    """One item in the ordered queue, with the signals that came right after it."""

    __slots__ = ("completed", "item", "signals")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.completed: Completed[Item, Result] | None = None
        self.signals: _Signals[Signal] = _Signals()


class OrderedWork(Work[Item, Result, Signal]):
    """Results come out in the order of submission, with the signals at their places.

    A signal replaces an earlier one of the same subject if no item lies between them. An early result waits
    for those before it, and uses capacity until it comes out.
    """

    __slots__ = ("_places", "_under_way")

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._places: deque[_QueuedItem[Item, Result, Signal]] = deque()
        self._under_way: dict[int, _QueuedItem[Item, Result, Signal]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def submit(self, item: Item) -> Ticket:
        number = self._take_number()
        place: _QueuedItem[Item, Result, Signal] = _QueuedItem(item)
        self._places.append(place)
        self._under_way[number] = place
        return Ticket(number)

    def behind(self, subject: Hashable, signal: Signal) -> list[Completed[Item, Result] | Signal]:
        if not self._places:
            return [signal]
        self._places[-1].signals.put(subject, signal)
        return []

    def complete(self, ticket: Ticket, result: Result) -> list[Completed[Item, Result] | Signal]:
        place = self._under_way.pop(ticket.number, None)
        if place is None:
            raise UnknownTicket(number=ticket.number)
        place.completed = Completed(place.item, result)
        outputs: list[Completed[Item, Result] | Signal] = []
        while self._places and (completed := self._places[0].completed) is not None:
            outputs.append(completed)
            outputs.extend(self._places.popleft().signals.values())
        return outputs


class _Stretch(Generic[Signal]):
    """The items between two signals: the number under way, and the signals that wait for them."""

    __slots__ = ("pending", "signals")

    def __init__(self) -> None:
        self.pending = 0
        self.signals: _Signals[Signal] = _Signals()


class UnorderedWork(Work[Item, Result, Signal]):
    """Results come out as they arrive; a signal waits for every item before it.

    A stretch counts the items between two signals of any subjects. When the oldest stretches have no item left,
    their signals come out, up to the first stretch with an item under way. If several of one subject would come
    out together, only the newest does.
    """

    __slots__ = ("_stretches", "_under_way")

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        # The first stretch has an item under way, or is the only one and empty.
        self._stretches: deque[_Stretch[Signal]] = deque([_Stretch()])
        self._under_way: dict[int, tuple[Item, _Stretch[Signal]]] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def submit(self, item: Item) -> Ticket:
        number = self._take_number()
        if self._stretches[-1].signals:
            self._stretches.append(_Stretch())
        stretch = self._stretches[-1]
        stretch.pending += 1
        self._under_way[number] = (item, stretch)
        return Ticket(number)

    def behind(self, subject: Hashable, signal: Signal) -> list[Completed[Item, Result] | Signal]:
        if not self._under_way:
            return [signal]
        self._stretches[-1].signals.put(subject, signal)
        return []

    def complete(self, ticket: Ticket, result: Result) -> list[Completed[Item, Result] | Signal]:
        if ticket.number not in self._under_way:
            raise UnknownTicket(number=ticket.number)
        item, stretch = self._under_way.pop(ticket.number)
        stretch.pending -= 1
        ready: _Signals[Signal] = _Signals()
        while self._stretches and not self._stretches[0].pending:
            ready.put_all(self._stretches.popleft().signals)
        if not self._stretches:
            self._stretches.append(_Stretch())
        self._merge_empty()
        return [Completed(item, result), *ready.values()]

    def _merge_empty(self) -> None:
        """Bounds the number of stretches while one item stays under way and later items come and go.

        Signals after an empty stretch wait for the same items as those after the stretch before it.
        """
        if len(self._stretches) <= 2 * (len(self._under_way) + 1):
            return
        merged: deque[_Stretch[Signal]] = deque()
        for stretch in self._stretches:
            if merged and not stretch.pending:
                merged[-1].signals.put_all(stretch.signals)
            else:
                merged.append(stretch)
        self._stretches = merged
