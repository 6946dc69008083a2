"""The controller's clock: a source that may step back, made into one that does not."""

from __future__ import annotations

from collections.abc import Callable


class Clock:
    """Milliseconds that never go down, from `floor` up. Nothing is due by itself on one moved by hand."""

    def __init__(self, source: Callable[[], int], floor: int | None = None, *, by_hand: bool = False) -> None:
        self.by_hand = by_hand
        self._source = source
        self._last = source() if floor is None else floor

    def now(self) -> int:
        now = self._source()
        if now > self._last:
            self._last = now
        return self._last
