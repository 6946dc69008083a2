"""Times as people have them: as a `datetime`, or as a number that may not be in milliseconds.

A number is only guessed about, for warnings: it may mean anything, so nothing is converted by that.

A number that somebody takes from a clock of these decades is

    10^9 to 10^11       in seconds         as milliseconds: the years 1970 to 1973
    10^14 to 10^17      in microseconds    as milliseconds: the year 5138 and later
    beyond              in nanoseconds
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from enum import StrEnum
from math import floor
from typing import Final, TypeAlias

from strandline.core.checks import check_time
from strandline.errors import InvalidConfig

Number: TypeAlias = int | float | Decimal
Instant: TypeAlias = int | datetime  # whole milliseconds since 1970, or a datetime with a time zone
START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_EXACT: Final = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)  # the program's own may round

EPOCH_FIRST_MS: Final = 946_684_800_000  # the beginning of 2000
EPOCH_END_MS: Final = 4_102_444_800_000  # the beginning of 2100

SECONDS_FROM: Final = 10**9
SECONDS_END: Final = 10**11
MICROSECONDS_FROM: Final = 10**14
NANOSECONDS_FROM: Final = 10**17


def is_epoch(time: int) -> bool:
    """Whether a time looks like epoch milliseconds."""
    return EPOCH_FIRST_MS <= time < EPOCH_END_MS


class Unit(StrEnum):
    """A unit of times, as the option `--unit` of commands names it."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"

    @property
    def word(self) -> str:
        return self.name.lower()

    def milliseconds(self, number: Number) -> int:
        """The number in milliseconds, rounded down. Raises OverflowError for one that is not finite, or far
        too great for a time.

        Marks and the ends of windows are whole milliseconds T, and time >= T is the same as floor(time) >= T: so
        rounding down makes no event late and moves none into another window, as to the nearest or up would. A float is
        taken as the decimal that it is written as: 1.001 * 1000 is 1000.9999999999999, a millisecond too old.
        """
        digits = _DIGITS[self]
        if isinstance(number, int):
            return int(number * 10**digits if digits >= 0 else number // 10**-digits)
        exact = number if isinstance(number, Decimal) else Decimal(repr(float(number)))
        if not exact.is_finite() or exact.adjusted() > _DIGITS_BOUND:  # a longer one would take very long
            raise OverflowError(f"{number} is no time")
        return floor(exact.scaleb(digits, _EXACT))


_DIGITS_BOUND: Final = 400  # of a float at most 309
_DIGITS: Final = {Unit.SECONDS: 3, Unit.MILLISECONDS: 0, Unit.MICROSECONDS: -3, Unit.NANOSECONDS: -6}


def unit_of(least: int, greatest: int | None = None) -> Unit | None:
    """The unit that a time looks like, or all times from `least` to `greatest`; None if that may be milliseconds."""
    if SECONDS_FROM <= (least if greatest is None else greatest) < SECONDS_END:
        return Unit.SECONDS
    if least > NANOSECONDS_FROM:
        return Unit.NANOSECONDS
    return Unit.MICROSECONDS if least > MICROSECONDS_FROM else None


def milliseconds(name: str, time: Instant, *, up: bool = False) -> int:
    """The time in milliseconds: a number as it is, a datetime converted, to the millisecond at or before it or, with
    `up`, at or after it. `up` is for an end: a time that is waited for, or the newest of events. Without it, reading
    begins no later than asked, and a bound claims no more than was asked. Raises InvalidConfig for a datetime without a
    time zone, which may mean several times, and for what is neither, such as a text."""
    if not isinstance(time, datetime):
        given: object = time
        if isinstance(given, str | float | Decimal):
            way = "datetime.fromisoformat(text)" if isinstance(given, str) else "int(seconds * 1000)"
            wanted = f"a whole number of milliseconds, or a datetime with a time zone; {way} makes one"
            raise InvalidConfig(name=name, value=given, wanted=wanted)
        return check_time(name, time)
    if time.utcoffset() is None:
        wanted = "milliseconds, or a datetime with a time zone, such as datetime.now(UTC)"
        raise InvalidConfig(name=name, value=time.isoformat(), wanted=wanted)
    since = time - START
    return -(-since // _MILLISECOND) if up else since // _MILLISECOND


def as_datetime(time_ms: int | None) -> datetime | None:
    """The time as a datetime in UTC. None for none, and for one that no datetime can have, outside of the years 1 to
    9999."""
    if time_ms is None:
        return None
    try:
        return START + time_ms * _MILLISECOND
    except OverflowError:
        return None


def text_of(time: int) -> str:
    """A time in milliseconds as people read it."""
    moment = as_datetime(time)
    return str(time) if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
