"""Durations as people write them, such as `15 min`, and back."""

from __future__ import annotations

import re
from typing import Final

from controller.dashboard.limits import DURATION_CHARACTERS

UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1_000, "ms": 1}
_NAMES: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}
_PART: Final = re.compile(r"(\d+)(?:\.(\d{1,3}))?\s*([a-z]+)\s*", re.ASCII)


def duration_text(milliseconds: int | None) -> str:
    """A duration in its largest units, without rounding; empty for None."""
    if milliseconds is None:
        return ""
    parts, rest = [], milliseconds
    for unit, size in UNITS_MS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"


def read_duration(text: str) -> int:
    """The milliseconds of a duration such as `15 min`, `1 h 30 min` or `1.5 h`. Raises ValueError with a sentence for
    whoever wrote it."""
    given = text.strip().lower()
    if given == "0":
        return 0
    if re.fullmatch(r"[\d.]+", given, re.ASCII):
        raise ValueError(f"{given[:DURATION_CHARACTERS]} of which unit? Write 15 min, 30 s or 500 ms")
    place, total = 0, 0
    while given and place < len(given) <= DURATION_CHARACTERS:
        part = _PART.match(given, place)
        unit = _NAMES.get(part[3]) if part is not None else None
        if part is None or unit is None:
            break
        size = UNITS_MS[unit]
        thousandths = int((part[2] or "").ljust(3, "0"))
        if size * thousandths % 1000:
            raise ValueError("not a whole number of milliseconds")
        total += int(part[1]) * size + size * thousandths // 1000
        place = part.end()
    if not given or place < len(given):
        raise ValueError("not a duration: write 15 min, 1 h 30 min, 30 s or 500 ms")
    return total
