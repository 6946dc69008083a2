"""The time that a page shows: 15 minutes to all that is kept, or from one moment to another. The address has it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, tzinfo
from typing import Final, TypeAlias

from controller.dashboard.limits import RANGE_LEAST_MS, SETTLED_MS
from controller.dashboard.tables import Address
from controller.operators.wording import ZONE

MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * _HOUR_MS
_STEPS_MS: Final = (
    *(100, 200, 500),
    *(1_000 * each for each in (1, 2, 5, 10, 15, 30)),
    *(MINUTE_MS * each for each in (1, 2, 5, 10, 15, 30)),
    *(_HOUR_MS * each for each in (1, 2, 3, 6, 12)),
    *(DAY_MS * each for each in (1, 2, 7, 14, 28)),
)
# By the word in the address: what people read, and how long it is; None: all that is kept.
RANGES: Final[dict[str, tuple[str, int | None]]] = {
    "15min": ("15 min", 15 * MINUTE_MS),
    "1h": ("1 h", _HOUR_MS),
    "6h": ("6 h", 6 * _HOUR_MS),
    "24h": ("24 h", 24 * _HOUR_MS),
    "7d": ("7 days", 7 * DAY_MS),
    "all": ("all that is kept", None),
}
Period: TypeAlias = tuple[int, int]  # from and to, in milliseconds since 1970


class Range:
    """What the address of a page chooses. A field that is no moment is refused in words, and the rest of the page is as
    without it."""

    def __init__(self, address: Address, now: int, first: str = "1h") -> None:
        """`first` is chosen where the address says nothing, or what is no range."""
        self.address, self.first = address, first
        given = address.get("range", first)
        self.word = given if given in RANGES else first
        self.texts = {each: address.get(each) for each in ("from", "to")}
        self.refusal, self.span = "", None
        zone = ZONE.get()
        if self.texts["from"] or self.texts["to"]:
            try:
                self.span = read_span(self.texts["from"], self.texts["to"] or written(now, zone), zone, now)
            except ValueError as error:
                self.refusal = str(error)
        self.key: str | Period  # equal as long as the choice is
        self.since: int | None  # None: as far back as there is anything
        if self.span is not None:
            self.texts = {name: written(at, zone) for name, at in zip(self.texts, self.span, strict=True)}
            self.key, self.since, self.until = self.span, self.span[0], min(now, self.span[1])
        else:
            size_ms = RANGES[self.word][1]
            self.key, self.since, self.until = self.word, None if size_ms is None else now - size_ms, now
        self.ends_now = self.until == now
        self.is_chosen = self.span is not None or address.get("range") in RANGES

    @property
    def words(self) -> list[tuple[str, str]]:
        return [(name, text) for name, (text, _) in RANGES.items()]

    def fields(self) -> list[tuple[str, str]]:
        return self.address.others("range", "from", "to")


def round_step(size: float, most: int) -> int:
    """The least step in units of people that divides a size into so few parts."""
    steps = (step for step in _STEPS_MS if size <= step * most)
    return next(steps, None) or 365 * DAY_MS * max(1, math.ceil(size / most / (365 * DAY_MS)))


def moments_between(since: int, now: int, most: int) -> list[int]:
    """At most so many moments after `since` and up to almost now, at equal distances. They are the same whenever they
    are asked for, as long as the distance is: what was drawn does not change when it is drawn again."""
    now -= SETTLED_MS
    width = max(1_000, round_step(now - since, most))
    return list(range(now - now % width, since, -width))[:most][::-1]


def read_span(since: str, until: str, zone: tzinfo, now: int) -> Period:
    """A range from a moment to a later one, which dates name; in this zone, where they name none. Raises ValueError
    with a sentence for the visitor."""
    begin, end = _read_moment(since, zone), _read_moment(until, zone)
    if not 0 <= begin < now:
        raise ValueError("from a moment that has been")
    if begin >= end:
        raise ValueError("from a moment before the other")
    return begin, max(end, begin + RANGE_LEAST_MS)


def _read_moment(text: str, zone: tzinfo) -> int:
    try:
        at = datetime.fromisoformat(text)
        at = at.astimezone(zone) if at.tzinfo is not None else at.replace(tzinfo=zone)  # it is shown in this zone
        return int(at.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError("a date and a time of day") from None


def written(moment: int, zone: tzinfo = UTC) -> str:
    """A moment as a field for a date and a time of day tells it: without seconds, where they are 0."""
    at = datetime.fromtimestamp(moment // 1000, zone).replace(tzinfo=None)
    return at.isoformat(timespec="auto" if at.second else "minutes")
