"""Queues of those that wait, with one check of all of them now and then instead of a timer for each.

All members of one queue may wait equally long. So the first is the next to be overdue, and a check costs time only for
those that are overdue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Waiting = TypeVar("Waiting")


class WaitQueue(Generic[Waiting]):
    """Those that wait for the same thing, in the order in which they began to wait."""

    __slots__ = ("_since", "limit_s")

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._since: dict[Waiting, float] = {}

    def enter(self, one: Waiting, now: float) -> None:
        """Begins to wait, or begins again. `now` never steps back."""
        self._since.pop(one, None)
        self._since[one] = now

    def leave(self, one: Waiting) -> None:
        """Ends the wait, if there is one."""
        self._since.pop(one, None)

    def overdue(self, now: float) -> Iterator[Waiting]:
        """Removes and yields those that have waited too long. Each may enter again at once."""
        while (first := self.first()) is not None and now - first[1] > self.limit_s:
            del self._since[first[0]]
            yield first[0]

    def first(self) -> tuple[Waiting, float] | None:
        """The one that has waited longest, and since when."""
        return next(iter(self._since.items()), None)

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, one: Waiting) -> bool:
        return one in self._since


def longest(queues: Iterable[WaitQueue[Waiting]], now: float, least_s: float) -> Waiting | None:
    """The one in several queues that has waited longest, if that is at least `least_s`."""
    firsts = [first for queue in queues if (first := queue.first()) is not None]
    one, since = min(firsts, key=lambda first: first[1], default=(None, now))
    return one if now - since >= least_s else None
