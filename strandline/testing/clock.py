"""A clock that is moved by hand."""

from __future__ import annotations

from typing import Final

NOON: Final = 1_700_000_000_000  # some moment to begin at


class ManualClock:
    """Milliseconds that pass only when a test says so; call it to read it, as one does with any clock here.

    A controller takes it for both clocks of its host. `now` going forward is time that passes; `wall_ahead_ms` says how
    far somebody has set the host's wall clock ahead of that, below 0: behind.
    """

    def __init__(self, now: int = NOON) -> None:
        self.now = now
        self.wall_ahead_ms = 0
        self._seen = now
        self._passed = 0

    def __call__(self) -> int:
        return self.now

    def wall(self) -> int:
        """The time of day, as the host shows it."""
        return self.now + self.wall_ahead_ms

    def monotonic(self) -> int:
        """How much time has passed; it never goes back, wherever `now` is set."""
        self._passed += max(0, self.now - self._seen)
        self._seen = self.now
        return self._passed
