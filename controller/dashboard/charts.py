"""Charts as SVG. The part where lines are drawn stretches with the page; texts keep their size, at shares of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from controller.dashboard.limits import CHART_STRIPS
from controller.dashboard.ranges import DAY_MS, MINUTE_MS, round_step
from controller.operators.wording import UNITS_MS, ZONE, Times, span
from strandline.core.time_units import is_epoch

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
    name: str
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

    since: int
    until: int
    caption: str
    lines: Sequence[Drawn]
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


def lag_chart(name: str, lines: Iterable[tuple[str, Sequence[Point]]], since: int, until: int) -> Chart:
    """The lags of streams: (name, (moment, lag))."""
    lines = [(stream, points) for stream, points in lines if points]
    top, above = _scale(lines)
    step = round_step(top, 4)
    high = max(step, -(-top // step) * step)
    upwards = [Tick(_share(1 - value / high), _units(value)) for value in range(0, int(high) + 1, step)]
    drawn = [_line(stream, points, since, until, 0, high) for stream, points in lines]
    strips = _strips(lines[0][1], since, until, span) if len(lines) == 1 else []
    ends = ", ".join(f"{stream} {span(points[-1][1])}" for stream, points in lines)
    caption = f"{name}: {ends} at the end, at most {span(max(p for _, ps in lines for _, p in ps))}" if lines else name
    return Chart(since, until, caption, drawn, _across(since, until), upwards, strips, above)


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
    drawn = [_line(name, steps, since, until, first, last, area=False)] if steps else []
    shown = Times().show
    caption = f"event time of {name}: {shown(times[0])} to {shown(times[-1])}" if times else f"event time of {name}"
    return Chart(since, until, caption, drawn, _across(since, until), upwards, _strips(points, since, until, shown))


def curve(points: Sequence[Point], since: int, until: int) -> str:
    """A lag as a small area, as high as its peak."""
    if len(points) < 2:
        return ""
    return _line("", points, since, until, 0, max(1, *(value for _, value in points))).area


def _line(
    name: str, points: Sequence[Point], since: int, until: int, low: float, high: float, *, area: bool = True
) -> Drawn:
    wide, tall = max(1, until - since), high - low
    places = [
        (SIZE * (at - since) / wide, SIZE * (1 - (min(max(value, low), high) - low) / tall)) for at, value in points
    ]
    path = "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in places)
    return Drawn(name, path, f"{path}L{places[-1][0]:.0f} {SIZE}L{places[0][0]:.0f} {SIZE}Z" if area else "")


def _scale(lines: Sequence[tuple[str, Sequence[Point]]]) -> tuple[int, str]:
    """The top of the scale, and what lies above it: lags that a bad clock makes do not flatten all others."""
    values = sorted({value for _, points in lines for _, value in points})
    top = values[-1] if values else 0
    for below, above in pairwise(values):
        if above > GAP * max(below, GAP_LEAST_MS):
            top = below
            break
    peaks = [(name, max(value for _, value in points)) for name, points in lines]
    named = [f"{name} ({span(peak)})" for name, peak in peaks if peak > max(top, GAP_LEAST_MS)]
    return max(1_000, top if top > 0 else 0), f"Above the scale: {', '.join(named)}." if named else ""


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
