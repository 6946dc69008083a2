"""The time that a page shows: 15 minutes to all that is kept, or from one moment to another. The address has it."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final, TypeAlias

from controller.dashboard.limits import RANGE_LEAST_MS, SETTLED_MS
from controller.dashboard.tables import Address
from controller.wording import ZONE

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
# By the word in the address: what people read, and how long it is; None: all that is kept.
RANGES: Final[dict[str, tuple[str, int | None]]] = {
    "15min": ("15 min", 15 * _MINUTE_MS),
    "1h": ("1 h", _HOUR_MS),
    "6h": ("6 h", 6 * _HOUR_MS),
    "24h": ("24 h", 24 * _HOUR_MS),
    "7d": ("7 days", 7 * 24 * _HOUR_MS),
    "all": ("all that is kept", None),
}
# Between two moments at which something is looked at.
_WIDTHS_MS: Final = tuple(
    1_000 * each
    for each in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 604_800)
)
Period: TypeAlias = tuple[int, int]  # from and to, in milliseconds since 1970


class Range:
    """What the address of a page chooses. A field that is no moment is refused in words, and the rest of the page is as
    without it."""

    def __init__(self, address: Address, now: int, first: str = "1h") -> None:
        """`first` is chosen where the address says nothing, or what is no range."""
        self.address, self._now, self.first = address, now, first
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
        if self.span is not None:
            self.texts = {name: written(at, zone) for name, at in zip(self.texts, self.span, strict=True)}

    @property
    def key(self) -> str | Period:
        """It is equal as long as the choice is."""
        return self.word if self.span is None else self.span

    @property
    def words(self) -> list[tuple[str, str]]:
        return [(name, text) for name, (text, _) in RANGES.items()]

    @property
    def is_chosen(self) -> bool:
        """Whether the address says which."""
        return self.span is not None or self.address.get("range") in RANGES

    @property
    def is_all(self) -> bool:
        """Whether all that is kept is shown."""
        return self.span is None and RANGES[self.word][1] is None

    def since(self) -> int | None:
        """From when on; None: as far back as there is anything."""
        if self.span is not None:
            return self.span[0]
        span_ms = RANGES[self.word][1]
        return None if span_ms is None else self._now - span_ms

    def until(self) -> int:
        return self._now if self.span is None else min(self._now, self.span[1])

    @property
    def ends_now(self) -> bool:
        return self.until() == self._now

    def fields(self) -> list[tuple[str, str]]:
        return self.address.others("range", "from", "to")


def moments_between(since: int, now: int, most: int) -> list[int]:
    """At most so many moments after `since` and up to almost now, at equal distances. They are the same whenever they
    are asked for, as long as the distance is: what was drawn does not change when it is drawn again."""
    now -= SETTLED_MS
    fitting = (width for width in _WIDTHS_MS if (now - since) // width <= most)
    width = next(fitting, None) or -(-(now - since) // most)
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
