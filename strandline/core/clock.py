"""A clock that goes by the host's monotonic clock, follows the host's wall clock within bounds, and never goes back.

    the wall clock is            this clock
    ─────────────────            ──────────
    ahead by less than a step    goes faster by an eighth until it is there
    ahead by a step or more      goes on as it did; follows once that has lasted for CLOCK_CONFIRM_MS, but no step of
                                 more than CLOCK_STEP_BOUND_MS: a clock that is begun again does
    behind                       goes slower until both meet, by an eighth, and by a half where it is less than a step:
                                 it never stands still

So intervals pass whatever the wall clock does, and one that is wrong for a moment changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from strandline.limits import (
    CLOCK_CONFIRM_MS,
    CLOCK_NEAR_SLEW_PART,
    CLOCK_SLEW_PART,
    CLOCK_STEP_BOUND_MS,
    CLOCK_STEP_MS,
)


class ClockState(StrEnum):
    """How this clock stands to the host's."""

    STEADY = "steady"
    AHEAD = "ahead"  # the host's clock was set back, and this one goes slower until both meet
    BEHIND = "behind"  # the host's clock was set forward, and this one does not follow yet


@dataclass(slots=True)
class _Jump:
    by_ms: int
    since: int  # by the monotonic clock


class SteadyClock:
    """Milliseconds. Pure: what the host's clocks show is an argument. The monotonic one must never go back."""

    def __init__(self, start: int, monotonic: int) -> None:
        """Begins at `start`, wherever the wall clock is."""
        self.host_ahead_ms = 0  # by how much the wall clock was ahead at the last look
        self._last = start
        self._base = start
        self._from = monotonic
        self._to_slew_ms = 0
        self._jump: _Jump | None = None

    @property
    def state(self) -> ClockState:
        if self.host_ahead_ms >= CLOCK_STEP_MS:
            return ClockState.BEHIND
        return ClockState.AHEAD if self.host_ahead_ms <= -CLOCK_STEP_MS else ClockState.STEADY

    def read(self, monotonic: int) -> int:
        """What this clock shows."""
        passed = monotonic - self._from
        part = CLOCK_NEAR_SLEW_PART if -CLOCK_STEP_MS < self._to_slew_ms < 0 else CLOCK_SLEW_PART
        most = passed // part
        now = self._base + passed + max(-most, min(most, self._to_slew_ms))
        if now > self._last:
            self._last = now
        return self._last

    def look(self, wall: int, monotonic: int) -> int:
        """Compares itself with the wall clock, to be done about each second; returns by how much it has stepped."""
        now = self.read(monotonic)
        ahead = wall - now
        step = 0
        if ahead < CLOCK_STEP_MS:
            self._jump = None
        elif self._jump is None or abs(ahead - self._jump.by_ms) >= CLOCK_STEP_MS:
            self._jump = _Jump(ahead, monotonic)
        elif ahead <= CLOCK_STEP_BOUND_MS and monotonic - self._jump.since >= CLOCK_CONFIRM_MS:
            step, self._jump = ahead, None
        self.host_ahead_ms = ahead - step
        self._base, self._from = now + step, monotonic
        self._to_slew_ms = self.host_ahead_ms if self.host_ahead_ms < CLOCK_STEP_MS else 0
        return step
