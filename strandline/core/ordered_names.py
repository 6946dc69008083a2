"""Names in the order of a number each, such as writers by their times."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final, TypeAlias

NameEntry: TypeAlias = tuple[int, str]

PART: Final = 256  # entries; a part with more than twice as many is divided


class OrderedNames:
    """Entries of a number and a name, by number and then by name, in parts of a few hundred each.

    Adding and removing cost about the same at any time and for any number of names: nothing is put off and then done at
    once, as it would be in a heap with stale entries.
    """

    __slots__ = ("_lasts", "_part", "_parts")

    def __init__(self, part: int = PART) -> None:
        self._part = part
        self._parts: list[list[NameEntry]] = []
        self._lasts: list[NameEntry] = []  # the last entry of each part

    def add(self, entry: NameEntry) -> None:
        lasts = self._lasts
        if not lasts:
            self._parts.append([entry])
            lasts.append(entry)
            return
        if entry > lasts[-1]:
            at = len(lasts) - 1
            part = self._parts[at]
            part.append(entry)
            lasts[at] = entry
        else:
            at = bisect_left(lasts, entry)
            part = self._parts[at]
            insort(part, entry)
        if len(part) > 2 * self._part:
            self._parts.insert(at + 1, part[self._part :])
            del part[self._part :]
            lasts.insert(at, part[-1])

    def remove(self, entry: NameEntry) -> None:
        """Removes an entry that was added."""
        at = bisect_left(self._lasts, entry)
        part = self._parts[at]
        del part[bisect_left(part, entry)]
        if not part:
            del self._parts[at], self._lasts[at]
        elif entry == self._lasts[at]:
            self._lasts[at] = part[-1]

    def first(self) -> NameEntry | None:
        """The entry with the least number, ties by name."""
        return self._parts[0][0] if self._parts else None

    def first_without(self, name: str) -> NameEntry | None:
        """The same, leaving one name out."""
        return next((entry for part in self._parts for entry in part if entry[1] != name), None)
