"""Parses times and durations of Spark's options: milliseconds, or text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from spark_integration.errors import InvalidOption
from strandline.core.time_units import START
from strandline.limits import TIME_BOUND_MS

_UNITS_MS: Final = {
    "ms": 1, "millisecond": 1, "s": 1_000, "second": 1_000, "m": 60_000, "min": 60_000, "minute": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000,
}  # fmt: skip
MICROSECOND: Final = timedelta(microseconds=1)
_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")


def duration_ms(name: str, value: str) -> int:
    """Parses "1500", "1500 ms", "5 minutes" or "1h"; returns milliseconds. Raises InvalidOption."""
    found = _DURATION.fullmatch(value.strip().lower())
    if found is not None:
        number, unit = int(found[1]), found[2]
        factor = _UNITS_MS.get(unit or "ms") or _UNITS_MS.get(unit.removesuffix("s"))
        if factor is not None and number * factor < TIME_BOUND_MS:
            return number * factor
    raise InvalidOption(name=name, value=value, wanted="milliseconds, or a number and a unit, as 5 minutes")


def time_ms(name: str, value: str, *, up: bool = False) -> int:
    """Parses a time as `time_us`; returns the millisecond at or before it or, with `up`, at or after it."""
    time = time_us(name, value)
    return -(-time // 1000) if up else time // 1000


def time_us(name: str, value: str) -> int:
    """Parses epoch milliseconds, or a time as 2026-03-01T12:00:00Z, by default in UTC; returns epoch microseconds.
    Raises InvalidOption."""
    text = value.strip()
    if re.fullmatch(r"-?\d+", text):
        time = int(text) * 1000
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidOption(
                name=name, value=value, wanted="epoch milliseconds, or a moment as 2026-03-01T12:00:00Z"
            ) from None
        time = ((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - START) // MICROSECOND
    if abs(time) >= TIME_BOUND_MS * 1000:
        raise InvalidOption(name=name, value=value, wanted=f"a time below 2^53 ms ({TIME_BOUND_MS})")
    return time
