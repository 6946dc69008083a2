"""The time that a page shows: 15 minutes to all that is kept. It is part of the page's address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

from nicegui import ui

from controller.dashboard.limits import RANGE_LEAST_MS, SETTLED_MS
from controller.dashboard.tables import keep
from controller.dashboard.zones import shown_in_zone, zone_of

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
_CHOSEN: Final = "chosen"  # from a moment to another

# Between two moments at which something is looked at.
_WIDTHS_MS: Final = tuple(
    1_000 * each
    for each in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 604_800)
)


def moments_between(since: int, now: int, most: int) -> list[int]:
    """At most so many moments after `since` and up to almost now, at equal distances. They are the same whenever they
    are asked for, as long as the distance is: what was drawn does not change when it is drawn again."""
    now -= SETTLED_MS
    fitting = (width for width in _WIDTHS_MS if (now - since) // width <= most)
    width = next(fitting, None) or -(-(now - since) // most)
    return list(range(now - now % width, since, -width))[:most][::-1]


Span = tuple[int, int]  # from and to, in milliseconds since 1970


def read_span(since: str, until: str, zone: tzinfo, now: int) -> Span:
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
        return int((at if at.tzinfo is not None else at.replace(tzinfo=zone)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError("a date and a time of day") from None


def written(moment: int, zone: tzinfo) -> str:
    """A moment as a field for a date and a time of day tells it: without seconds, where they are 0."""
    at = datetime.fromtimestamp(moment // 1000, zone).replace(tzinfo=None)
    return at.isoformat(timespec="auto" if at.second else "minutes")


class RangePicker:
    """Lets a visitor choose how far back a page looks, or from when to when."""

    def __init__(self, first: str, changed: Callable[[], Awaitable[None]], clock: Callable[[], int]) -> None:
        """`first` is chosen where the address says nothing, or what is no range."""
        self._client = ui.context.client
        self._zone = zone_of(self._client.request)
        self._first, self._changed, self._clock = first, changed, clock
        query = self._client.request.query_params
        given, self._span = query.get("range", first), None
        if "from" in query or "to" in query:
            with suppress(ValueError):
                self._span = read_span(query.get("from", ""), query.get("to", ""), UTC, clock())
        words = {name: text for name, (text, _) in RANGES.items()} | {_CHOSEN: "from … to …"}
        self._word = given if given in RANGES else first
        with ui.row().classes("items-start").style("gap: 8px"):
            self._select = ui.select(words, value=self._shown_word(), label="Time range").props("dense outlined")
            self._select.style("min-width: 150px")
            texts = zip(("From", "To"), self._texts(), strict=True)
            self._fields = [_moment_field(label, text, self._typed) for label, text in texts]
        self._select.on_value_change(self._turn)

    @property
    def chosen(self) -> object:
        """What was chosen: it is equal as long as the choice is the same."""
        return self._word if self._span is None else self._span

    @property
    def is_all(self) -> bool:
        """Whether all that is kept is shown."""
        return self._span is None and RANGES[self._word][1] is None

    def since(self, now: int) -> int | None:
        """From when on; None: as far back as there is anything."""
        if self._span is not None:
            return self._span[0]
        span_ms = RANGES[self._word][1]
        return None if span_ms is None else now - span_ms

    def until(self, now: int) -> int:
        return now if self._span is None else min(now, self._span[1])

    def moments(self, since: int, now: int, most: int) -> list[int]:
        """The moments at which the past is looked at, see `moments_between`."""
        return moments_between(since, min(now, self.until(now) + SETTLED_MS), most)

    async def zoom(self, since: float, until: float) -> None:
        """Shows what lies between two moments."""
        now = self._clock()
        begin = int(max(0, min(since, now - RANGE_LEAST_MS))) // 1000 * 1000
        end = int(max(min(until, now), begin + RANGE_LEAST_MS)) // 1000 * 1000
        await self._choose(self._word, (begin, end))

    async def _typed(self) -> None:
        """Takes what the fields say, once the first one is complete; the other one may be empty, for now."""
        since, until = (str(each.value or "") for each in self._fields)
        if not since:
            return
        now = self._clock()
        try:
            span = read_span(since, until or written(now, self._zone), self._zone, now)
        except ValueError as error:
            self._fields[0].error = str(error)
        else:
            await self._choose(self._word, span)

    async def _turn(self, event: Any) -> None:
        if event.value in RANGES:
            await self._choose(event.value, None)

    async def _choose(self, word: str, span: Span | None) -> None:
        if (word, span) == (self._word, self._span):
            return
        self._word, self._span = word, span
        self._show()
        begin, end = ("", "") if span is None else (f"{written(each, UTC)}Z" for each in span)
        shown = word if word != self._first and span is None else None
        keep(self._client, {"range": shown, "from": begin or None, "to": end or None})
        with shown_in_zone(self._client.request):
            await self._changed()

    def _show(self) -> None:
        """Sets what the choice has changed. What a visitor typed stays: in the browser it may be longer by now."""
        self._select.set_value(self._shown_word())
        for field, text in zip(self._fields, self._texts(), strict=True):
            field.error = None
            field.set_value(text)

    def _shown_word(self) -> str:
        return self._word if self._span is None else _CHOSEN

    def _texts(self) -> tuple[str, str]:
        """What the two fields show."""
        if self._span is None:
            return "", ""
        since, until = self._span
        return written(since, self._zone), written(until, self._zone)


def _moment_field(label: str, value: str, typed: Callable[[], Awaitable[None]]) -> ui.input:
    field = ui.input(label, value=value, on_change=typed)
    return field.props("type=datetime-local step=1 dense outlined stack-label no-error-icon debounce=500")
