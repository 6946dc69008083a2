"""The options of the charts; the library draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from controller.format import is_epoch

INK: Final = "#94a3b8"
TEAL: Final = "#0d9488"
AMBER: Final = "#d97706"
VIOLET: Final = "#8b5cf6"
GRID: Final = "rgba(148, 163, 184, 0.22)"

SAWTOOTH_MARKS: Final = 120  # with more of them only the peaks are drawn
LINES: Final = 10  # of text, one above the other, are as high as a chart
Moment = tuple[int, int]  # when a mark was made, and its time


def _base(unit: str) -> dict[str, Any]:
    axis = {"axisLine": {"lineStyle": {"color": GRID}}, "axisLabel": {"color": INK, "hideOverlap": True}}
    return {
        "animation": False,
        "useUTC": True,
        "grid": {"left": 8, "right": 16, "top": 28, "bottom": 4, "containLabel": True},
        "tooltip": {"trigger": "axis"},
        "textStyle": {"fontFamily": "system-ui, sans-serif"},
        "xAxis": {"type": "time", **axis, "splitLine": {"show": False}},
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


def lag_options(moments: Sequence[Moment], now: int) -> dict[str, Any]:
    """The stream's lag behind the clock. It grows with the clock, and each mark lowers it."""
    points: list[list[float]] = []
    before: int | None = None
    for at, time in moments:
        if before is not None:
            points.append([at, (at - before) / 1000])
        if len(moments) <= SAWTOOTH_MARKS:
            points.append([at, (at - time) / 1000])
        before = time
    if before is not None:
        points.append([now, (now - before) / 1000])
    line = {
        "type": "line",
        "name": "lag, seconds",
        "showSymbol": False,
        "data": points,
        "lineStyle": {"color": AMBER, "width": 2},
        "itemStyle": {"color": AMBER},
        "areaStyle": {"color": AMBER, "opacity": 0.12},
    }
    options = _base("seconds")
    options["yAxis"]["min"] = 0
    return {**options, "series": [line]}


def time_options(moments: Sequence[Moment], now: int, read: Sequence[tuple[str, int]] = ()) -> dict[str, Any]:
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
    options = _base("")
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


def scaling_diagram(segments: Sequence[tuple[str, Sequence[str], bool]]) -> str:
    """The predecessors and successors of segments, as a Mermaid graph: (name, predecessors, finished)."""
    numbers = {name: number for number, (name, _, _) in enumerate(segments)}
    lines = ["graph LR"]
    for name, _, finished in segments:
        text = name.replace('"', "'")
        lines.append(f's{numbers[name]}["{text}"]:::{"done" if finished else "open"}')
    for name, predecessors, _ in segments:
        lines += [f"s{numbers[each]} --> s{numbers[name]}" for each in predecessors if each in numbers]
    lines.append("classDef done fill:#94a3b833,stroke:#94a3b8")
    lines.append("classDef open fill:#0d948833,stroke:#0d9488,stroke-width:2px")
    return "\n".join(lines)
