"""A priority queue of names, each due at a number: a moment, or the time of a mark. Each name has one valid entry."""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush
from typing import Final

NEVER: Final = math.inf


class Agenda:
    """Names by the number at which they are due. `put` and `due` cost O(log names) for each name."""

    __slots__ = ("_heap", "at", "next_at")

    def __init__(self) -> None:
        self.at: dict[str, int] = {}  # by name
        self.next_at: float = NEVER  # nothing is due before it; callers only read it, as they do `at`
        self._heap: list[tuple[int, str]] = []  # entries that differ from `at` are stale

    def put(self, name: str, at: int) -> None:
        """Makes a name due at a number, and replaces the number that it had."""
        if self.at.get(name) == at:
            return
        self.at[name] = at
        heappush(self._heap, (at, name))
        if at < self.next_at:
            self.next_at = at
        if len(self._heap) > 64 + 4 * len(self.at):
            self._heap = [(at, name) for name, at in self.at.items()]
            heapify(self._heap)

    def drop(self, name: str) -> None:
        """Removes a name if it is present."""
        self.at.pop(name, None)

    def clear(self) -> None:
        self.at.clear()
        self._heap.clear()
        self.next_at = NEVER

    def first(self) -> tuple[int, str] | None:
        """The least number and its name, ties by name."""
        while self._heap:
            at, name = self._heap[0]
            if self.at.get(name) == at:
                return at, name
            heappop(self._heap)
        return None

    def due(self, until: int, *, most: int | None = None) -> list[str]:
        """Removes and returns the names due at or before `until`, at most `most`, by number and then by name."""
        names: list[str] = []
        while len(names) != most and (first := self.first()) is not None and first[0] <= until:
            heappop(self._heap)
            del self.at[first[1]]
            names.append(first[1])
        self.next_at = self._heap[0][0] if self._heap else NEVER
        return names
