"""The options of the charts; the library draws them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC
from typing import Any, Final

from nicegui import events, ui

from controller.format import ZONE, is_epoch

INK: Final = "#94a3b8"
TEAL: Final = "#0d9488"
AMBER: Final = "#d97706"
VIOLET: Final = "#8b5cf6"
LINE_COLOURS: Final = (AMBER, TEAL, VIOLET, "#dc2626", "#2563eb", "#65a30d", "#db2777", "#64748b")
GRID: Final = "rgba(148, 163, 184, 0.22)"

SAWTOOTH_MARKS: Final = 120  # with more of them only the peaks are drawn
LINES: Final = 10  # of text, one above the other, are as high as a chart
Moment = tuple[int, int]  # when a mark was made, and its time


# A chart has one brush, which is always in the hand: what is dragged over is what is shown next. `rendered` comes again
# and again.
_TAKE_BRUSH: Final = """() => {
  const chart = getElement(%d)?.chart;
  if (!chart || chart.hasBrush) return;
  chart.hasBrush = true;
  const brushOption = { brushType: "lineX", brushMode: "single" };
  chart.dispatchAction({ type: "takeGlobalCursor", key: "brush", brushOption });
}"""
_TOLD_SPAN: Final = """(event) => {
  getElement(%d).chart.dispatchAction({ type: "brush", areas: [] });
  const span = event.areas[0]?.coordRange;
  if (span) emit(span);
}"""


def zoomable(chart: ui.echart, zoom: Callable[[float, float], Awaitable[None]]) -> ui.echart:
    """Lets a visitor drag over a part of a chart; `zoom` gets the two moments."""

    async def dragged(event: events.GenericEventArguments) -> None:
        since, until = event.args
        await zoom(float(since), float(until))

    chart.on("chart:rendered", js_handler=_TAKE_BRUSH % chart.id)
    chart.on("chart:brushEnd", dragged, js_handler=_TOLD_SPAN % chart.id)
    return chart


def _base(unit: str, since: int | None = None, until: int | None = None) -> dict[str, Any]:
    axis = {"axisLine": {"lineStyle": {"color": GRID}}, "axisLabel": {"color": INK, "hideOverlap": True}}
    return {
        "animation": False,
        "useUTC": ZONE.get() is UTC,
        "grid": {"left": 8, "right": 16, "top": 28, "bottom": 4, "containLabel": True},
        "tooltip": {"trigger": "axis"},
        "textStyle": {"fontFamily": "system-ui, sans-serif"},
        "xAxis": {"type": "time", **axis, "splitLine": {"show": False}, "min": since, "max": until},
        "brush": {"xAxisIndex": 0, "brushType": "lineX", "throttleType": "debounce"},
        "toolbox": {"show": False},
        "yAxis": {
            "type": "value",
            "name": unit,
            "scale": True,
            "splitNumber": 4,
            "nameTextStyle": {"color": INK, "align": "left"},
            **axis,
            "splitLine": {"lineStyle": {"color": GRID}},
        },
    }


def lag_options(
    moments: Sequence[Moment], now: int, *, since: int | None = None, until: int | None = None, sampled: bool = False
) -> dict[str, Any]:
    """The stream's lag behind the clock. It grows with the clock, and each mark lowers it. `sampled`: these are not all
    marks, but the time that the stream had at some moments."""
    if sampled:
        points = [[at, (at - time) / 1000] for at, time in moments]
        points += [[now, (now - moments[-1][1]) / 1000]] if moments else []
        return _lag_line(points, since, until)
    points = []
    before: int | None = None
    for at, time in moments:
        if before is not None:
            points.append([at, (at - before) / 1000])
        if len(moments) <= SAWTOOTH_MARKS:
            points.append([at, (at - time) / 1000])
        before = time
    if before is not None:
        points.append([now, (now - before) / 1000])
    return _lag_line(points, since, until)


def _lag_line(points: list[list[float]], since: int | None, until: int | None) -> dict[str, Any]:
    line = {
        "type": "line",
        "name": "lag, seconds",
        "showSymbol": False,
        "data": points,
        "lineStyle": {"color": AMBER, "width": 2},
        "itemStyle": {"color": AMBER},
        "areaStyle": {"color": AMBER, "opacity": 0.12},
    }
    options = _base("seconds", since, until)
    options["yAxis"]["min"] = 0
    return {**options, "series": [line]}


def lags_options(
    lines: Sequence[tuple[str, Sequence[tuple[int, int]]]], since: int, until: int | None = None
) -> dict[str, Any]:
    """The lags of several streams: (name, (moment, lag))."""
    options = _base("seconds", since, until)
    options["yAxis"]["min"] = 0
    options["legend"] = {"type": "scroll", "top": 0, "right": 0, "left": 140, "textStyle": {"color": INK}}
    options["color"] = list(LINE_COLOURS)
    series = [
        {"type": "line", "name": name, "showSymbol": False, "data": [[at, lag / 1000] for at, lag in points]}
        for name, points in lines
    ]
    return {**options, "series": series}


def time_options(
    moments: Sequence[Moment],
    now: int,
    read: Sequence[tuple[str, int]] = (),
    *,
    since: int | None = None,
    until: int | None = None,
) -> dict[str, Any]:
    """The stream's time by its marks, and lines for groups: (group, lower bound)."""
    points = [[at, time] for at, time in moments]
    if moments:
        points.append([now, moments[-1][1]])
    dates = bool(moments) and is_epoch(moments[-1][1])
    line = {
        "type": "line",
        "name": "event time",
        "step": "end",
        "showSymbol": False,
        "data": points,
        "lineStyle": {"color": TEAL, "width": 2},
        "itemStyle": {"color": TEAL},
    }
    if read:
        line["markLine"] = {
            "silent": True,
            "symbol": "none",
            "data": [{"name": groups, "yAxis": lower} for groups, lower in _apart(read, moments)],
            "lineStyle": {"color": VIOLET, "type": "dashed"},
            "label": {"formatter": "read by {b}", "position": "insideStartBottom", "color": VIOLET},
        }
    options = _base("", since, until)
    if dates:
        options["yAxis"]["type"] = "time"
    return {**options, "series": [line]}


def _apart(read: Sequence[tuple[str, int]], moments: Sequence[Moment]) -> list[tuple[str, int]]:
    """Groups whose labels would overlap share one label, at the group that is furthest behind."""
    room = (moments[-1][1] - moments[0][1]) / LINES if moments else 0
    found: list[tuple[str, int]] = []
    for group, lower in sorted(read, key=lambda each: each[1]):
        if found and lower - found[-1][1] <= room:
            found[-1] = (f"{found[-1][0]}, {group}", found[-1][1])
        else:
            found.append((group, lower))
    return found
