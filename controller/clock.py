"""The controller's clock, from the clock of its store or its host, and how long no caller could be heard."""

from __future__ import annotations

import logging
from typing import Final, Protocol, assert_never

from controller.records.operator_log import log_event
from strandline.core.clock import CLOCK_CONFIRM_MS, CLOCK_SLEW_PART, CLOCK_STEP_BOUND_MS, ClockState, SteadyClock
from strandline.core.served_time import Moment, Unserved

LOOP_STALL_MS: Final = 1_500  # if the event loop did not run for so long, that is logged
CLOCK_READ_MS: Final = 1_000  # how often the clock is compared with the host's
STORE_CLOCK_KEPT_MS: Final = 10_000  # for so long a reading of the store's clock is preferred to those that came slower
CLOCK_READING_MS: Final = 10  # the host's two clocks are read within this time, or read again


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


class Clock:
    """Milliseconds that never go back, from `floor` up: a `SteadyClock` on this host, or on that of the store, which it
    follows forward at once.

    A call of `now` shows that the event loop runs. While the clock is `watched`, `now` is called each second: a longer
    gap means that the process or its host was suspended. On a clock that is moved `by_hand`, nothing is due by itself.
    """

    def __init__(
        self,
        host: HostClock,
        floor: int | None = None,
        *,
        by_hand: bool = False,
        unserved: Unserved | None = None,
    ) -> None:
        self.by_hand = by_hand
        self.watched = False
        self.unserved: Final = unserved if unserved is not None else Unserved()
        self._host = host
        self._follows = isinstance(host, StoreClock)  # at once: all controllers of a store have its time
        wall, self._read_at = host.wall(), host.monotonic()
        self._now = wall if floor is None else max(floor, wall)
        self._steady = SteadyClock(self._now, self._read_at)
        self._compared_at = self._read_at
        self._logged_state = ClockState.STEADY
        self._compare(self._read_at)

    def now(self) -> int:
        monotonic = self._host.monotonic()
        now = self._steady.read(monotonic)
        if self._follows and (wall := self._host.wall()) > now:
            self._steady, now = SteadyClock(wall, monotonic), wall
        if self.watched and monotonic - self._read_at >= LOOP_STALL_MS:
            log_event("paused", logging.WARNING, ms=monotonic - self._read_at)
        self._read_at, self._now = monotonic, now
        if monotonic - self._compared_at >= CLOCK_READ_MS:
            self._compare(monotonic)
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

    @property
    def state(self) -> ClockState:
        return self._steady.state

    @property
    def host_ahead_ms(self) -> int:
        """By how much the host's clock was ahead of this one at the last comparison."""
        return self._steady.host_ahead_ms

    def _compare(self, begun: int) -> None:
        wall = self._host.wall()
        if self._host.monotonic() - begun > CLOCK_READING_MS:
            return  # the process was interrupted between the two readings, so they cannot be compared
        self._compared_at = begun
        step = self._steady.refresh(wall, begun)
        if step:
            self._now += step
            log_event("clock_followed", logging.WARNING, by_ms=step)
        if self.state is not self._logged_state:
            self._log_state()

    def _log_state(self) -> None:
        self._logged_state = self.state
        match self.state:
            case ClockState.STEADY:
                log_event("clock_steady", logging.WARNING, host_ahead_ms=self.host_ahead_ms)
            case ClockState.AHEAD:
                meets_in_ms = -self.host_ahead_ms * CLOCK_SLEW_PART
                log_event("clock_ahead", logging.WARNING, by_ms=-self.host_ahead_ms, meets_in_ms=meets_in_ms)
            case ClockState.BEHIND:
                follows_in_ms = CLOCK_CONFIRM_MS if self.host_ahead_ms <= CLOCK_STEP_BOUND_MS else None
                log_event("clock_behind", logging.WARNING, by_ms=self.host_ahead_ms, follows_in_ms=follows_in_ms)
            case _:
                assert_never(self.state)
