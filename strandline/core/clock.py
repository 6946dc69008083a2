"""A clock that runs on the host's monotonic clock, follows the host's wall clock within bounds, and never goes back.

    the wall clock is            this clock
    ─────────────────            ──────────
    ahead by less than a step    runs faster by an eighth until both agree
    ahead by a step or more      keeps its rate; follows after CLOCK_CONFIRM_MS, but never a step of more than
                                 CLOCK_STEP_BOUND_MS: only a restarted clock does
    behind                       runs slower until both agree: by an eighth, or by a half if behind by less than a
                                 step; it never stands still

So time always passes, whatever the wall clock does, and a jump that is undone soon changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

CLOCK_STEP_MS: Final = 5_000  # a larger difference to the host's clock is a step; a smaller one is followed at once
CLOCK_CONFIRM_MS: Final = 60_000  # a step forward is followed after it has lasted this long
CLOCK_STEP_BOUND_MS: Final = 86_400_000  # a longer step forward is followed only by the next controller
CLOCK_SLEW_PART: Final = 8  # to follow, the clock runs faster or slower by an eighth
CLOCK_NEAR_SLEW_PART: Final = 2  # or slower by a half, if the host's clock is less than a step behind


class ClockState(StrEnum):
    """This clock compared with the host's."""

    STEADY = "steady"
    AHEAD = "ahead"  # the host's clock was set back; this clock runs slower until both agree
    BEHIND = "behind"  # the host's clock was set forward; this clock does not follow yet


@dataclass(slots=True)
class _Jump:
    by_ms: int
    since: int  # by the monotonic clock


class SteadyClock:
    """A clock in milliseconds. Pure: the readings of the host's clocks are arguments. The monotonic clock must never
    go back."""

    def __init__(self, start: int, monotonic: int) -> None:
        """Begins at `start`, whatever the wall clock shows."""
        self.host_ahead_ms = 0  # by how much the wall clock was ahead at the last comparison
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
        """The time of this clock."""
        passed = monotonic - self._from
        now = self._base + passed
        if self._to_slew_ms:
            part = CLOCK_NEAR_SLEW_PART if -CLOCK_STEP_MS < self._to_slew_ms < 0 else CLOCK_SLEW_PART
            most = passed // part
            now += max(-most, min(most, self._to_slew_ms))
        if now > self._last:
            self._last = now
        return self._last

    def refresh(self, wall: int, monotonic: int) -> int:
        """Compares this clock with the wall clock; returns its step. Call it about once a second."""
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
