"""Orders the results of asynchronous work on events, and the watermarks between these events.

The caller runs the work. It calls `submit` when work on an event begins, `watermark` for a watermark between
events, and `complete` for a result. `watermark` and `complete` return what may go downstream now. Two promises:

- No overtaking: an event that came before a watermark never comes out after it.
- No unnecessary latency: a watermark comes out as soon as no event before it is under way.

    in         e1  e2  W(10)  e3  W(20)      the results arrive as e3, e1, e2
    ordered    e3: -              e1: e1           e2: e2 W(10) e3 W(20)
    unordered  e3: e3             e1: e1           e2: e2 W(20)

This module has no tasks and no loops.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from strandline.core.checks import check_time, check_whole
from strandline.core.coalesce import KEYS_PER_COALESCER, Watermark
from strandline.core.note import check_key
from strandline.errors import QueueFull, TooMany, UnknownTicket, WatermarkWentBack

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Ticket:
    """Names one submitted item of one queue."""

    number: int


@dataclass(frozen=True, slots=True)
class Completed(Generic[Item, Result]):
    """An item and its result."""

    item: Item
    result: Result


class Work(ABC, Generic[Item, Result]):
    """What the ordered and the unordered queue have in common: a capacity, tickets, and rising watermarks.

    `capacity` bounds the items that were submitted and have not come out. Between two items there is at most
    one watermark of each key, so the watermarks are bounded too, and are never refused for lack of room.

    Raises InvalidConfig, QueueFull for a `submit` to a full queue, UnknownTicket for a `complete` of an item that
    is not under way, WatermarkWentBack for a watermark that is not above the last one of its key, and TooMany
    beyond KEYS_PER_COALESCER keys. A refused call changes nothing.
    """

    __slots__ = ("_capacity", "_last", "_next_number")

    def __init__(self, capacity: int) -> None:
        self._capacity = check_whole("capacity", capacity, least=1)
        self._next_number = 0
        self._last: dict[str, int] = {}

    @property
    def capacity(self) -> int:
        return self._capacity

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
    def watermark(self, key: str, value: int) -> list[Completed[Item, Result] | Watermark]:
        """Records a watermark behind the items submitted so far. It comes out at once if none of them is left."""

    @abstractmethod
    def complete(self, ticket: Ticket, result: Result) -> list[Completed[Item, Result] | Watermark]:
        """Records the item's result; returns what may go downstream now, in order."""

    def _take_number(self) -> int:
        if self.full:
            raise QueueFull(capacity=self._capacity)
        number = self._next_number
        self._next_number += 1
        return number

    def _take_watermark(self, key: str, value: int) -> None:
        check_time("value", value)
        previous = self._last.get(check_key(key))
        if previous is None and len(self._last) >= KEYS_PER_COALESCER:
            raise TooMany(what="time keys", count=len(self._last) + 1, limit=KEYS_PER_COALESCER)
        if previous is not None and value <= previous:
            raise WatermarkWentBack(input=type(self).__name__, key=key, value=value, previous=previous)
        self._last[key] = value


class _QueuedItem(Generic[Item, Result]):
    """One item in the ordered queue, with the newest watermark of each key that came right after it."""

    __slots__ = ("completed", "item", "watermarks")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.completed: Completed[Item, Result] | None = None
        self.watermarks: dict[str, int] = {}


class OrderedWork(Work[Item, Result]):
    """Results come out in the order of submission, with the watermarks at their places.

    A watermark replaces an earlier one of the same key if no item lies between them. An early result waits
    for those before it, and uses capacity until it comes out.
    """

    __slots__ = ("_places", "_under_way")

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._places: deque[_QueuedItem[Item, Result]] = deque()
        self._under_way: dict[int, _QueuedItem[Item, Result]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def submit(self, item: Item) -> Ticket:
        number = self._take_number()
        place: _QueuedItem[Item, Result] = _QueuedItem(item)
        self._places.append(place)
        self._under_way[number] = place
        return Ticket(number)

    def watermark(self, key: str, value: int) -> list[Completed[Item, Result] | Watermark]:
        self._take_watermark(key, value)
        if not self._places:
            return [Watermark(key, value)]
        self._places[-1].watermarks[key] = value
        return []

    def complete(self, ticket: Ticket, result: Result) -> list[Completed[Item, Result] | Watermark]:
        place = self._under_way.pop(ticket.number, None)
        if place is None:
            raise UnknownTicket(number=ticket.number)
        place.completed = Completed(place.item, result)
        outputs: list[Completed[Item, Result] | Watermark] = []
        while self._places and (completed := self._places[0].completed) is not None:
            outputs.append(completed)
            outputs.extend(_as_watermarks(self._places.popleft().watermarks))
        return outputs


class _Stretch:
    """The items between two watermarks: the number under way, and the watermarks that wait for them."""

    __slots__ = ("pending", "watermarks")

    def __init__(self) -> None:
        self.pending = 0
        self.watermarks: dict[str, int] = {}


class UnorderedWork(Work[Item, Result]):
    """Results come out as they arrive; a watermark waits for every item before it.

    A stretch counts the items between two watermarks of any keys. When the oldest stretches have no item left,
    their watermarks come out, up to the first stretch with an item under way. If several of one key would come
    out together, only the newest does.
    """

    __slots__ = ("_stretches", "_under_way")

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        # The first stretch has an item under way, or is the only one and empty.
        self._stretches: deque[_Stretch] = deque([_Stretch()])
        self._under_way: dict[int, tuple[Item, _Stretch]] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def submit(self, item: Item) -> Ticket:
        number = self._take_number()
        if self._stretches[-1].watermarks:
            self._stretches.append(_Stretch())
        stretch = self._stretches[-1]
        stretch.pending += 1
        self._under_way[number] = (item, stretch)
        return Ticket(number)

    def watermark(self, key: str, value: int) -> list[Completed[Item, Result] | Watermark]:
        self._take_watermark(key, value)
        if not self._under_way:
            return [Watermark(key, value)]
        self._stretches[-1].watermarks[key] = value
        return []

    def complete(self, ticket: Ticket, result: Result) -> list[Completed[Item, Result] | Watermark]:
        if ticket.number not in self._under_way:
            raise UnknownTicket(number=ticket.number)
        item, stretch = self._under_way.pop(ticket.number)
        stretch.pending -= 1
        ready: dict[str, int] = {}
        while self._stretches and not self._stretches[0].pending:
            ready.update(self._stretches.popleft().watermarks)
        if not self._stretches:
            self._stretches.append(_Stretch())
        self._merge_empty()
        return [Completed(item, result), *_as_watermarks(ready)]

    def _merge_empty(self) -> None:
        """Bounds the number of stretches while one item stays under way and later items come and go.

        Watermarks after an empty stretch wait for the same items as those after the stretch before it.
        """
        if len(self._stretches) <= 2 * (len(self._under_way) + 1):
            return
        kept: deque[_Stretch] = deque()
        for stretch in self._stretches:
            if kept and not stretch.pending:
                kept[-1].watermarks.update(stretch.watermarks)
            else:
                kept.append(stretch)
        self._stretches = kept


def _as_watermarks(values: dict[str, int]) -> list[Watermark]:
    return [Watermark(key, value) for key, value in values.items()]
