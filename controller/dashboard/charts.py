"""Charts as SVG. The part where lines are drawn stretches with the page; texts keep their size, at shares of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from controller.dashboard.limits import CHART_STRIPS
from controller.operators.wording import UNITS_MS, ZONE, Times, span
from strandline.core.time_units import is_epoch

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
# By the word in the address: what people read, and how long it is.
RANGES: Final = {
    "15min": ("15 min", 15 * MINUTE_MS),
    "1h": ("1 h", _HOUR_MS),
    "6h": ("6 h", 6 * _HOUR_MS),
    "24h": ("24 h", 24 * _HOUR_MS),
    "7d": ("7 days", 7 * DAY_MS),
}
RANGE: Final = "1h"  # where the address names none
SIZE: Final = 1_000  # of the part that stretches, both ways
SAWTOOTH_MARKS: Final = 120  # with more of them only the peaks are drawn
GAP: Final = 50  # times as far as anything below: what lies above such a gap is a bad clock, and not drawn to scale
GAP_LEAST_MS: Final = 10_000  # the least that lies below one
Point: TypeAlias = tuple[int, int]  # a moment, and a value then
MadeMark: TypeAlias = tuple[int, int]  # when a mark was made, and its time


class Tick(NamedTuple):
    share: str  # of the width from the left, or of the height from the top
    text: str


class Drawn(NamedTuple):
    path: str
    area: str


class Strip(NamedTuple):
    """A part of a chart that says its value when it is pointed at."""

    x: str
    width: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart as its template draws it. `caption` is for who cannot see it, `above` names what lies above its scale."""

    caption: str
    line: Drawn | None
    across: Sequence[Tick]
    upwards: Sequence[Tick]
    strips: Sequence[Strip] = ()
    above: str = ""


def sawtooth(moments: Sequence[MadeMark], sampled: bool, end: Point | None) -> list[Point]:
    """The lag behind the clock: it grows with the clock, and each mark lowers it. `sampled`: these are not all marks,
    but the time that the stream had at some moments. `end` is the moment and the lag at which the line ends."""
    points: list[Point] = []
    before: int | None = None
    for at, time in moments:
        if not sampled and before is not None:
            points.append((at, at - before))
        if sampled or len(moments) <= SAWTOOTH_MARKS:
            points.append((at, at - time))
        before = time
    return [*points, *([end] if end is not None and (not points or end[0] >= points[-1][0]) else [])]


def lag_chart(name: str, points: Sequence[Point], since: int, until: int) -> Chart:
    """The lag of a stream: (moment, lag)."""
    top, peak = _scale(points)
    step = round_step(top, 4)
    high = max(step, -(-top // step) * step)
    upwards = [Tick(_share(1 - value / high), _units(value)) for value in range(0, int(high) + 1, step)]
    line = _line(points, since, until, 0, high) if points else None
    caption = f"lag of {name}"
    if points:
        caption += f": {span(points[-1][1])} at the end, at most {span(max(value for _, value in points))}"
    above = f"Above the scale: {span(peak)}." if peak > max(top, GAP_LEAST_MS) else ""
    return Chart(caption, line, _across(since, until), upwards, _strips(points, since, until, span), above)


def time_chart(name: str, moments: Sequence[MadeMark], end: int, since: int, until: int) -> Chart:
    """The stream's time by its marks, as steps up to `end`."""
    points = [*moments, (end, moments[-1][1])] if moments and end > moments[-1][0] else list(moments)
    times = [time for _, time in points]
    low, high = (min(times), max(times)) if times else (0, 1)
    dated = is_epoch(high)
    step = max(1_000, round_step(high - low, 4)) if dated else _decimal_step(high - low)
    first, last = low // step * step, max(-(-high // step) * step, low // step * step + step)
    steps: list[Point] = []
    for (at, time), (later, _) in pairwise([*points, *points[-1:]]):
        steps += [(at, time), (later, time)]
    upwards = [
        Tick(_share((last - value) / (last - first)), _clock(value, step, until) if dated else f"{value:,}")
        for value in range(first, last + 1, step)
    ]
    line = _line(steps, since, until, first, last, area=False) if steps else None
    shown = Times().show
    caption = f"event time of {name}: {shown(times[0])} to {shown(times[-1])}" if times else f"event time of {name}"
    return Chart(caption, line, _across(since, until), upwards, _strips(points, since, until, shown))


def _line(points: Sequence[Point], since: int, until: int, low: float, high: float, *, area: bool = True) -> Drawn:
    wide, tall = max(1, until - since), high - low
    places = [
        (SIZE * (at - since) / wide, SIZE * (1 - (min(max(value, low), high) - low) / tall)) for at, value in points
    ]
    path = "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in places)
    return Drawn(path, f"{path}L{places[-1][0]:.0f} {SIZE}L{places[0][0]:.0f} {SIZE}Z" if area else "")


def _scale(points: Sequence[Point]) -> tuple[int, int]:
    """The top of the scale, and the greatest lag: those that a bad clock makes lie above the scale, and do not flatten
    all others."""
    values = sorted({value for _, value in points})
    top = peak = values[-1] if values else 0
    for below, above in pairwise(values):
        if above > GAP * max(below, GAP_LEAST_MS):
            top = below
            break
    return max(1_000, top), peak


def _strips(points: Sequence[Point], since: int, until: int, shown: Callable[[int], str]) -> list[Strip]:
    """What is said of the points when they are pointed at; of many points those that are furthest."""
    inside = [each for each in points if since <= each[0] <= until]
    if not inside:
        return []
    chunk = -(-len(inside) // CHART_STRIPS)
    parts = [inside[place : place + chunk] for place in range(0, len(inside), chunk)]
    wide = max(1, until - since)
    begins = [(part[0][0] - since) / wide for part in parts] + [1.0]
    found = []
    for part, (begin, end) in zip(parts, pairwise(begins), strict=True):
        at, value = max(part, key=lambda each: each[1])
        found.append(Strip(_share(begin), _share(max(0.0, end - begin)), f"{_clock(at, 1_000)}: {shown(value)}"))
    return found


def round_step(size: float, most: int) -> int:
    """The least step in units of people that divides a size into so few parts."""
    steps = (step for step in _STEPS_MS if size <= step * most)
    return next(steps, None) or 365 * DAY_MS * max(1, math.ceil(size / most / (365 * DAY_MS)))


def _across(since: int, until: int) -> list[Tick]:
    """Moments of the clock in the visitor's zone, at most seven."""
    step = round_step(until - since, 6)
    offset = datetime.fromtimestamp(until // 1000, ZONE.get()).utcoffset() or timedelta()
    shift = offset // timedelta(milliseconds=1)
    first = -(-(since + shift) // step) * step - shift
    wide = max(1, until - since)
    return [Tick(_share((at - since) / wide), _clock(at, step)) for at in range(first, until + 1, step)]


def _clock(at: int, step: int, now: int | None = None) -> str:
    """A moment as an axis says it: the time of day, or the date at the beginning of a day, with the year if it is not
    that of `now`."""
    when = datetime.fromtimestamp(at // 1000, ZONE.get())
    year = when.year if now is None else datetime.fromtimestamp(now // 1000, ZONE.get()).year
    if step >= DAY_MS or when.year != year or (when.hour, when.minute, when.second) == (0, 0, 0):
        return f"{when:%d %b %Y}" if step > 28 * DAY_MS or when.year != year else f"{when:%d %b}"
    return f"{when:%H:%M}" if step >= MINUTE_MS else f"{when:%H:%M:%S}"


def _decimal_step(size: float) -> int:
    """The least round step that divides times that are no dates into four parts."""
    least = max(1.0, size / 4)
    power = 10 ** math.floor(math.log10(least))
    return int(next(power * each for each in (1, 2, 5, 10) if power * each >= least))


def _units(milliseconds: float) -> str:
    """A lag in the largest unit that it has one of, as an axis says it."""
    unit, size = next((each for each in UNITS_MS.items() if milliseconds >= each[1]), ("s", 1_000))
    return f"{round(milliseconds / size, 1):g} {unit}"


def _share(share: float) -> str:
    return f"{100 * share:.2f}%"
