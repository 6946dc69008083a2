"""The time that a page shows: 15 minutes to all that is kept. It is part of the page's address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from nicegui import ui

from controller.dashboard.limits import SETTLED_MS
from controller.dashboard.tables import keep
from controller.dashboard.zones import shown_in_zone

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


def moments_between(since: int, now: int, most: int) -> list[int]:
    """At most so many moments after `since` and up to almost now, at equal distances. They are the same whenever they
    are asked for, as long as the distance is: what was drawn does not change when it is drawn again."""
    now -= SETTLED_MS
    fitting = (width for width in _WIDTHS_MS if (now - since) // width <= most)
    width = next(fitting, None) or -(-(now - since) // most)
    return list(range(now - now % width, since, -width))[:most][::-1]


class RangePicker:
    """Lets a visitor choose how far back a page looks."""

    def __init__(self, first: str, changed: Callable[[], Awaitable[None]]) -> None:
        """`first` is chosen where the address says nothing, or what is no range."""
        self._client = ui.context.client
        self._first, self._changed = first, changed
        given = self._client.request.query_params.get("range", first)
        chosen = given if given in RANGES else first
        words = {name: text for name, (text, _) in RANGES.items()}
        self._select = ui.select(words, value=chosen, label="Time range").props("dense outlined")
        self._select.style("min-width: 150px")
        self._select.on_value_change(self._turn)

    @property
    def chosen(self) -> str:
        """The word for it."""
        return str(self._select.value)

    @property
    def span_ms(self) -> int | None:
        """How far back; None: as far as there is anything."""
        return RANGES[self._select.value][1]

    def since(self, now: int) -> int | None:
        return None if self.span_ms is None else now - self.span_ms

    async def _turn(self, event: Any) -> None:
        keep(self._client, {"range": event.value if event.value != self._first else None})
        with shown_in_zone(self._client.request):
            await self._changed()
