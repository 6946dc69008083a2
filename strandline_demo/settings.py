"""The knobs of the demo, and what they may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline_demo.errors import InvalidKnob

# Defaults
RATE_DEFAULT: Final = 200
SKEW_DEFAULT_MS: Final = 3_000
OUTAGE_DEFAULT_MS: Final = 10_000
DURATION_DEFAULT_MS: Final = 30_000
DELAY_DEFAULT_MS: Final = 5_000
PORT_DEFAULT: Final = 8433

# Bounds
RATE_GREATEST: Final = 5_000  # a second and writer: the log takes more, two cores beside Spark hardly
SKEW_GREATEST_MS: Final = 60_000
DELAY_GREATEST_MS: Final = 60_000
DURATION_LEAST_MS: Final = 12_000
DURATION_GREATEST_MS: Final = 600_000
AROUND_OUTAGE_MS: Final = 6_000  # what must be left of the duration, to see a time before and after
SEED_BOUND: Final = 2**31

WINDOW_MS: Final = 2_000
WRITER_TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """What the run is to be like. `rate` is in events a second and writer. Raises InvalidKnob."""

    rate: int = RATE_DEFAULT
    skew_ms: int = SKEW_DEFAULT_MS
    outage_ms: int = OUTAGE_DEFAULT_MS
    duration_ms: int = DURATION_DEFAULT_MS
    delay_ms: int = DELAY_DEFAULT_MS
    seed: int = 1

    def __post_init__(self) -> None:
        _within("rate", self.rate, 1, RATE_GREATEST)
        _within("skew", self.skew_ms, 0, SKEW_GREATEST_MS, seconds=True)
        _within("delay", self.delay_ms, 0, DELAY_GREATEST_MS, seconds=True)
        _within("duration", self.duration_ms, DURATION_LEAST_MS, DURATION_GREATEST_MS, seconds=True)
        _within("seed", self.seed, 0, SEED_BOUND - 1)
        # Shorter than the duration by so much, or there is nothing to compare it with.
        _within("outage", self.outage_ms, 0, self.duration_ms - AROUND_OUTAGE_MS, seconds=True)

    @property
    def outage_from_ms(self) -> int:
        """When the offline writer goes, after the start: a little before the middle of what is left."""
        return _whole_seconds((self.duration_ms - self.outage_ms) * 2 // 5)

    @property
    def outage_until_ms(self) -> int:
        return self.outage_from_ms + self.outage_ms

    @property
    def rest_from_ms(self) -> int:
        """When the idle writer falls silent."""
        return _whole_seconds(self.duration_ms // 5)

    @property
    def rest_until_ms(self) -> int:
        return _whole_seconds(self.duration_ms * 7 // 10)

    @property
    def writer_timeout_ms(self) -> int:
        """Longer than the outage: here an offline writer is waited for, not given up."""
        return WRITER_TIMEOUT_MS + self.outage_ms


def _within(knob: str, value: int, least: int, greatest: int, *, seconds: bool = False) -> None:
    if least <= value <= greatest:
        return
    if seconds:
        wanted = f"from {least / 1000:g} to {greatest / 1000:g} seconds"
        raise InvalidKnob(knob=knob, value=f"{value / 1000:g}", wanted=wanted)
    raise InvalidKnob(knob=knob, value=value, wanted=f"a whole number from {least} to {greatest}")


def _whole_seconds(time_ms: int) -> int:
    return time_ms // 1000 * 1000
