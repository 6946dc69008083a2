"""How the store does: how long flushes take, how often it fails, and since when."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from controller.limits import SLOW_FLUSH_MS, STORE_TELLING_MS
from controller.services.counts import Distribution
from controller.services.operator_log import tell
from controller.services.pacing import Pace

FLUSH_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
FLUSH_CALLS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)


class StoreHealth:
    """Follows the commits and reads of one store; what goes wrong is told, but not each time."""

    def __init__(self, stopwatch: Callable[[], float]) -> None:
        """`stopwatch` gives seconds, from anywhere on."""
        self.flush_seconds = Distribution(FLUSH_SECONDS)
        self.flush_calls = Distribution(FLUSH_CALLS)
        self.errors: Counter[str] = Counter()  # by what was tried
        self.up = True
        self._stopwatch = stopwatch
        self._failing_since = 0.0
        self._paces: dict[str, Pace] = {}  # by event

    def begin(self) -> float:
        """A flush begins; returns what to end it with."""
        return self._stopwatch()

    def committed(self, began: float, calls: int) -> None:
        now = self._stopwatch()
        seconds = now - began
        self.flush_seconds.add(seconds)
        self.flush_calls.add(calls)
        if not self.up:
            self.up = True
            away_ms = round((now - self._failing_since) * 1000)
            failures = self._paces.pop("store_failed")
            tell("store_recovered", logging.WARNING, away_ms=away_ms, untold=failures.omitted)
        if seconds * 1000 >= SLOW_FLUSH_MS:
            self._tell_sometimes("slow_flush", logging.WARNING, now, ms=round(seconds * 1000), calls=calls)

    def failed(self, operation: str, error: BaseException, calls: int = 0) -> None:
        """A commit or a read failed."""
        now = self._stopwatch()
        self.errors[operation] += 1
        if operation == "commit":
            if self.up:
                self._failing_since = now
            self.up = False
        event = "store_failed" if operation == "commit" else "store_read_failed"
        self._tell_sometimes(event, logging.ERROR, now, error, operation=operation, calls=calls)

    def _tell_sometimes(
        self, event: str, level: int, now: float, error: BaseException | None = None, **fields: object
    ) -> None:
        at = round(now * 1000)
        pace = self._paces.get(event)
        if pace is None:
            pace = self._paces[event] = Pace(1, STORE_TELLING_MS, at)
        untold = pace.let_in(at)
        if untold is not None:
            tell(event, level, error=error, **fields, untold=untold)
