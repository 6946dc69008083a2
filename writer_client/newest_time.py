"""The greatest event time that a writer has appended, for as long as it can be known to be the greatest of all."""

from __future__ import annotations

from collections.abc import Mapping


class NewestTime:
    """Counts what was appended, and keeps the greatest event times that were given with it, by key.

    A position of which the offsets add up to what this writer appended holds nothing else: then the greatest event
    time below it is known. Where others write too, or the log had events before, or a write came without its time,
    nothing is said.
    """

    __slots__ = ("_appended", "_greatest")

    def __init__(self) -> None:
        self._appended = 0
        self._greatest: dict[str, int] | None = None  # null before anything was appended

    @property
    def appended(self) -> int:
        return self._appended

    def add(self, count: int, newest: Mapping[str, int]) -> None:
        """So many events were appended, none of them newer than this."""
        if not count:
            return
        self._appended += count
        if self._greatest is None:
            self._greatest = dict(newest)
        else:
            self._greatest = {key: max(time, newest[key]) for key, time in self._greatest.items() if key in newest}

    def add_all(self, other: NewestTime) -> None:
        """What another one has counted was appended."""
        self.add(other.appended, other._greatest or {})

    def lost(self) -> None:
        """What was counted may not have been appended: from now on nothing is known."""
        self._greatest = {}

    def below(self, position: Mapping[str, int]) -> Mapping[str, int]:
        """The greatest event times below a position that covers all that was appended; empty where not known."""
        if not self._greatest or sum(position.values()) != self._appended:
            return {}
        return dict(self._greatest)
