"""A clock that a test moves."""

from __future__ import annotations

from typing import Final

NOON: Final = 1_700_000_000_000  # an arbitrary start


class ManualClock:
    """Milliseconds that pass only when a test sets `now`. Like every clock here, it is called to read it.

    A controller uses it for both clocks of its host. Time passes when `now` goes forward; `wall_ahead_ms` is how far
    the host's wall clock was set ahead of that, or, below 0, behind.
    """

    def __init__(self, now: int = NOON) -> None:
        self.now = now
        self.wall_ahead_ms = 0
        self._seen = now
        self._passed = 0

    def __call__(self) -> int:
        return self.now

    def wall(self) -> int:
        """The host's wall clock."""
        return self.now + self.wall_ahead_ms

    def monotonic(self) -> int:
        """The time that has passed; it never goes back, even if `now` does."""
        self._passed += max(0, self.now - self._seen)
        self._seen = self.now
        return self._passed
