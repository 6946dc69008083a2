"""Names, each due at a number: a moment, or the time of a mark. A heap, in which a name has one entry that counts."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush


class Agenda:
    """Which names are due. Putting and taking cost the logarithm of how many there are."""

    __slots__ = ("_at", "_heap")

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []  # entries that do not agree with `_at` count for nothing

    def __contains__(self, name: str) -> bool:
        return name in self._at

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)

    @property
    def entries(self) -> int:
        """How many entries the heap has: at most some four times as many as there are names."""
        return len(self._heap)

    def put(self, name: str, at: int) -> None:
        """Makes a name due at a number, whatever it was due at before."""
        if self._at.get(name) == at:
            return
        self._at[name] = at
        heappush(self._heap, (at, name))
        if len(self._heap) > 64 + 4 * len(self._at):
            self._heap = [(at, name) for name, at in self._at.items()]
            heapify(self._heap)

    def drop(self, name: str) -> None:
        """Takes a name out, if it is there."""
        self._at.pop(name, None)

    def clear(self) -> None:
        self._at.clear()
        self._heap.clear()

    def first(self) -> tuple[int, str] | None:
        """The number and the name that come first; of equal numbers the first name."""
        while self._heap:
            at, name = self._heap[0]
            if self._at.get(name) == at:
                return at, name
            heappop(self._heap)
        return None

    def due(self, until: int, *, most: int | None = None) -> list[str]:
        """Takes out the names that are due at or before a number, at most so many; in that order, of equal numbers by
        name."""
        names: list[str] = []
        if not self._heap or self._heap[0][0] > until:  # most calls end here, and every note makes one
            return names
        while len(names) != most and (first := self.first()) is not None and first[0] <= until:
            heappop(self._heap)
            del self._at[first[1]]
            names.append(first[1])
        return names
