"""The pause before a failed attempt is repeated."""

from __future__ import annotations

DOUBLINGS = 32  # further failures make no pause longer: every bound is below that


def backoff_ms(failures: int, *, first_ms: float, bound_ms: float, random: float = 1.0) -> float:
    """How long to pause after so many failures in a row, 1 or more: twice as long each time, up to the bound.

    `random`, from 0 to 1, spreads the pause over its upper half: callers that failed together do not return together,
    and no pause is near 0.
    """
    return spread_ms(min(first_ms * (1 << min(failures - 1, DOUBLINGS)), bound_ms), random)


def spread_ms(whole_ms: float, random: float) -> float:
    """A pause from half to the whole of this, by `random`, from 0 to 1."""
    return whole_ms * (0.5 + 0.5 * random)
