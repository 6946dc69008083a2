"""A clock that is moved by hand."""

from __future__ import annotations

from typing import Final

NOON: Final = 1_700_000_000_000  # some moment to begin at


class ManualClock:
    """Milliseconds that pass only when a test says so; call it to read it, as one does with any clock here."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now
