"""The controller's clock, and how long no caller could be heard.

Its source is the clock of PostgreSQL's host, or with SQLite of the controller's.

    the source                 the controller's clock
    ──────────                 ──────────────────────
    goes on, or leaps ahead    shows what the source shows
    is set back                goes on at half the pace of the monotonic clock, until both meet

So it never goes back and never stands still: timeouts pass whatever the source does. A leap is a gap in which nobody
served, and so nobody's silence.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Final, Protocol

from controller.operator_log import log_event
from controller.storage.heads import Service
from strandline.core.served_time import Moment, Unserved

LOOP_STALL_MS: Final = 1_500  # if the event loop did not run for so long, that is logged
STORE_CLOCK_KEPT_MS: Final = 10_000  # for so long a reading of the store's clock is preferred to those that came slower
CLOCK_STEP_MS: Final = 5_000  # a difference of so much between the clock and its source is logged


class ClockState(StrEnum):
    """The controller's clock compared with its source."""

    STEADY = "steady"
    AHEAD = "ahead"  # the source was set back by `CLOCK_STEP_MS` or more, and they have not met yet


class HostClock(Protocol):
    """The clocks of a host, in milliseconds."""

    def wall(self) -> int:
        """The time since 1970. An operator may set it, forward or back."""

    def monotonic(self) -> int:
        """The time from any starting point. It never goes back, and goes on while the host is suspended."""


class StoreClock:
    """The clock of a store that several controllers serve, between two moments at which it was read.

    A reading is late by the way of its answer, which may be long where a process was stopped meanwhile. So the one that
    came fastest counts, and from time to time the fastest of those since.
    """

    def __init__(self, host: HostClock) -> None:
        self.monotonic = host.monotonic
        self._ahead_ms = host.wall() - host.monotonic()
        self._kept_until = host.monotonic()
        self._since_ms: int | None = None

    def wall(self) -> int:
        return self.monotonic() + self._ahead_ms

    def follow(self, now: int) -> None:
        """The store's clock has shown `now` a moment ago."""
        monotonic = self.monotonic()
        ahead_ms = now - monotonic
        self._since_ms = ahead_ms if self._since_ms is None else max(self._since_ms, ahead_ms)
        if monotonic >= self._kept_until:
            self._ahead_ms, self._since_ms = self._since_ms, None
            self._kept_until = monotonic + STORE_CLOCK_KEPT_MS
        elif ahead_ms > self._ahead_ms:
            self._ahead_ms = ahead_ms


class StoreTime:
    """What the store says of time: its clock, if several controllers serve it, and for how long nobody served it."""

    def __init__(self, service: Service, clock: StoreClock | None, *, by_hand: bool = False) -> None:
        self.unserved = Unserved()
        self._clock = clock
        self._by_hand = by_hand
        self.follow(service)

    def follow(self, found: Service) -> None:
        """The store has shown this a moment ago."""
        self.unserved.total_ms = found.unserved_ms
        if not self._by_hand:
            self.unserved.until = found.served_until
        if self._clock is not None and found.now is not None:
            self._clock.follow(found.now)


class Clock:
    """Milliseconds that never go back, from `floor` up.

    A call of `now` shows that the event loop runs. While the clock is `watched`, `now` is called each second: a longer
    gap means that the process or its host was suspended. On a clock that is moved `by_hand`, nothing is due by itself.
    """

    def __init__(
        self,
        source: HostClock,
        floor: int | None = None,
        *,
        by_hand: bool = False,
        unserved: Unserved | None = None,
    ) -> None:
        self.by_hand = by_hand
        self.watched = False
        self.unserved: Final = unserved if unserved is not None else Unserved()
        self.state = ClockState.STEADY
        self.host_ahead_ms = 0  # by how much the source was ahead at the last reading: 0, or below if it was set back
        self._source = source
        self._read_at = self._met_at = source.monotonic()
        wall = source.wall()
        self._now = self._met = wall if floor is None else max(floor, wall)  # what both showed when they last met
        self.now()

    def now(self) -> int:
        monotonic, wall = self._source.monotonic(), self._source.wall()
        passed = monotonic - self._read_at
        if self.watched and passed >= LOOP_STALL_MS:
            log_event("paused", logging.WARNING, ms=passed)
        leap = wall - self._now - passed
        if leap >= CLOCK_STEP_MS:
            log_event("clock_followed", logging.WARNING, by_ms=leap)
        slow = self._met + (monotonic - self._met_at) // 2
        if wall >= slow:
            self._met, self._met_at = wall, monotonic
        self.host_ahead_ms = ahead = min(0, wall - slow)
        if self.state is ClockState.STEADY and ahead <= -CLOCK_STEP_MS:
            self.state = ClockState.AHEAD
            log_event("clock_ahead", logging.WARNING, by_ms=-ahead, meets_in_ms=-2 * ahead)
        elif self.state is ClockState.AHEAD and ahead == 0:
            self.state = ClockState.STEADY
            log_event("clock_steady", logging.WARNING)
        self._read_at, self._now = monotonic, max(wall, slow)
        return self._now

    def moment(self) -> Moment:
        """The time, and the served time, which measures silence."""
        now = self.now()
        return Moment(now, self.unserved.served(now))

    @property
    def unserved_ms(self) -> int:
        """For how long, up to now, no caller could be heard."""
        now, served = self.moment()
        return now - served
