"""Guesses that times are not in milliseconds, for warnings: a time may mean anything, so nothing is converted by it.

A number that somebody takes from a clock of these decades is

    10^9 to 10^11       in seconds         as milliseconds: the years 1970 to 1973
    10^14 to 10^17      in microseconds    as milliseconds: the year 5138 and later
    beyond              in nanoseconds
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

SECONDS_FROM: Final = 10**9
SECONDS_END: Final = 10**11
MICROSECONDS_FROM: Final = 10**14
NANOSECONDS_FROM: Final = 10**17


class Unit(StrEnum):
    """A unit of a time that is not milliseconds, as the option `--unit` of commands names it."""

    SECONDS = "s"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"

    @property
    def word(self) -> str:
        return self.name.lower()


def unit_of(least: int, greatest: int | None = None) -> Unit | None:
    """The unit that a time looks like, or all times from `least` to `greatest`; None if that may be milliseconds."""
    if SECONDS_FROM <= (least if greatest is None else greatest) < SECONDS_END:
        return Unit.SECONDS
    if least > NANOSECONDS_FROM:
        return Unit.NANOSECONDS
    return Unit.MICROSECONDS if least > MICROSECONDS_FROM else None
