"""Limits how many events of one kind are recorded: a burst, and then one for each interval. Counts the others."""

from __future__ import annotations


class RateLimit:
    """A token bucket."""

    __slots__ = ("_burst", "_filled_at", "_refill_ms", "_room", "omitted")

    def __init__(self, burst: int, refill_ms: int) -> None:
        """Lets `burst` in at once, and then one for each `refill_ms`."""
        self.omitted = 0  # since the last event that was let in
        self._burst = self._room = burst
        self._refill_ms = refill_ms
        self._filled_at = 0  # set once an event comes: until then there is room for all

    def allow(self, now: int) -> int | None:
        """How many events were left out before this one; None if this one is left out too."""
        filled = max(0, now - self._filled_at) // self._refill_ms
        self._room = min(self._burst, self._room + filled)
        self._filled_at = now if self._room == self._burst else self._filled_at + filled * self._refill_ms
        if not self._room:
            self.omitted += 1
            return None
        self._room -= 1
        omitted, self.omitted = self.omitted, 0
        return omitted
