"""The health of the store: how long commits take, and what fails and why."""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from controller.operator_log import RateLimit, log_event
from controller.storage.diagnosis import Cause, diagnose
from strandline.errors import StoreCorrupt

STORE_LOG_MS: Final = 10_000  # between two lines about the same failure of the store

READY_WRITE_MS: Final = 3_000  # a commit this recent shows that the store can be written; else one is tried
SLOW_FLUSH_MS: Final = 1_000  # a commit that takes so long is logged

FLUSH_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
FLUSH_CALLS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)


@dataclass(frozen=True, slots=True)
class Outage:
    """What is wrong, and since which time of the stopwatch."""

    cause: Cause
    reason: str
    since: float


class Distribution:
    """How many values lie at or below each bound, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class StoreHealth:
    """Follows the commits and reads of one store. Logs failures, at a limited rate."""

    def __init__(self, stopwatch: Callable[[], float] = time.perf_counter) -> None:
        """`stopwatch` returns seconds from any starting point."""
        self.flush_seconds = Distribution(FLUSH_SECONDS)
        self.flush_calls = Distribution(FLUSH_CALLS)
        self.errors: Counter[tuple[str, Cause]] = Counter()  # by operation and cause
        self.outage: Outage | None = None  # since the last commit failed
        self.damage: Outage | None = None  # the database reported damage, which does not pass by itself
        self.under_way_since: float | None = None  # the start of the commit under way
        self._stopwatch = stopwatch
        self._committed_at: float | None = None
        self._outage_logged = False
        # By event and cause.
        self._paces: defaultdict[tuple[str, object], RateLimit] = defaultdict(partial(RateLimit, 1, STORE_LOG_MS))

    @property
    def up(self) -> bool:
        """Whether the last commit succeeded."""
        return self.outage is None

    def begin(self) -> float:
        """Marks the start of a commit; returns the time to pass to `committed` or `failed`."""
        self.under_way_since = self._stopwatch()
        return self.under_way_since

    def age_s(self, since: float) -> float:
        """The seconds since a time of the stopwatch."""
        return self._stopwatch() - since

    @property
    def write_age_s(self) -> float | None:
        """The seconds since the last successful commit, None before the first."""
        return None if self._committed_at is None else self.age_s(self._committed_at)

    @property
    def takes_writes(self) -> bool:
        """Whether the last commit succeeded, and recently."""
        age = self.write_age_s
        return self.up and age is not None and age * 1000 < READY_WRITE_MS

    def wrote(self) -> None:
        """Records a successful write outside of the commits."""
        self._committed_at = self._stopwatch()

    def committed(self, began: float, calls: int) -> None:
        now = self._stopwatch()
        seconds = now - began
        self.flush_seconds.add(seconds)
        self.flush_calls.add(calls)
        self._committed_at, self.under_way_since = now, None
        if self.outage is not None:
            away_ms, cause = round((now - self.outage.since) * 1000), self.outage.cause
            self.outage = None
            if self._outage_logged:
                self._outage_logged = False
                log_event("store_recovered", logging.WARNING, away_ms=away_ms, cause=str(cause))
        if seconds * 1000 >= SLOW_FLUSH_MS:
            self._log_rarely("slow_flush", logging.WARNING, now, ms=round(seconds * 1000), calls=calls)

    def failed(self, operation: str, error: BaseException, calls: int = 0, began: float | None = None) -> None:
        """Records a failed commit, read or other write. `began` is the stopwatch's time at its start.

        A row that cannot be read is the trouble of its own stream or group: the controller stays ready.
        """
        now, found = self._stopwatch(), diagnose(error)
        self.errors[operation, found.cause] += 1
        if isinstance(error, StoreCorrupt):
            self._log_rarely("store_corrupt", logging.ERROR, now, **error.values)
            return
        if operation == "commit":
            self.under_way_since = None
            since = self.outage.since if self.outage is not None else now if began is None else began
            self.outage = Outage(found.cause, found.reason, since)
        if found.cause is Cause.DAMAGED and self.damage is None:
            self.damage = Outage(found.cause, found.reason, now)
            log_event("store_damaged", logging.ERROR, operation=operation, reason=found.reason)
        event = "store_read_failed" if operation == "read" else "store_failed"
        fields = {"operation": operation, "cause": str(found.cause), "reason": found.reason, "calls": calls}
        is_known = found.cause is not Cause.OTHER  # then the place in the code says nothing to whoever is on call
        logged = self._log_rarely(event, logging.ERROR, now, error, traceback=not is_known, **fields)
        self._outage_logged = self._outage_logged or (logged and operation == "commit")

    def _log_rarely(
        self,
        event: str,
        level: int,
        now: float,
        error: BaseException | None = None,
        *,
        traceback: bool = True,
        **fields: object,
    ) -> bool:
        """Logs an event at a limited rate, with a limit of its own for each `cause`; returns whether it did."""
        suppressed = self._paces[event, fields.get("cause")].allow(round(now * 1000))
        if suppressed is not None:
            log_event(event, level, error=error, traceback=traceback, **fields, suppressed=suppressed)
        return suppressed is not None
