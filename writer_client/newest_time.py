"""The greatest event time that a writer has appended, as long as it is certainly the greatest below a position."""

from __future__ import annotations

from collections.abc import Mapping


class NewestTime:
    """Counts appended events, and keeps their greatest given event times, by key.

    If the offsets of a position add up to this count, only this writer's events lie below it, and their greatest time
    is known. It is unknown if other writers write too, if the log had events before, or if a write gave no time.
    """

    __slots__ = ("_greatest", "appended")

    def __init__(self) -> None:
        self.appended = 0  # events; callers only read it
        self._greatest: dict[str, int] | None = None  # None before the first append

    @property
    def greatest(self) -> Mapping[str, int]:
        """The greatest given times of all appended events; empty if unknown."""
        return self._greatest or {}

    def add(self, count: int, newest: Mapping[str, int]) -> None:
        """Counts `count` appended events, with `newest` as the greatest times among them."""
        if not count:
            return
        self.appended += count
        if self._greatest is None:
            self._greatest = dict(newest)
        else:
            self._greatest = {key: max(time, newest[key]) for key, time in self._greatest.items() if key in newest}

    def add_all(self, other: NewestTime) -> None:
        """Adds the events that another instance has counted."""
        self.add(other.appended, other.greatest)

    def lost(self) -> None:
        """Makes the greatest times unknown from now on: an append may have failed."""
        self._greatest = {}

    def below(self, position: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the greatest event times below a position that covers all appended events; empty if unknown."""
        if not self._greatest or sum(position.values()) != self.appended:
            return {}
        return dict(self._greatest)
