"""The picture of a run: how far each watermark has come, and the events as they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strandline_demo.truth import LoggedEvent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_INCHES: Final = 11
HEIGHT_INCHES: Final = 6
DOTS_PER_INCH: Final = 130

EXACT_COLOUR: Final = "#0b6e4f"
PLAIN_COLOUR: Final = "#c1440e"
EVENT_COLOUR: Final = "#8a8a8a"
LOST_COLOUR: Final = "#d00000"
OUTAGE_COLOUR: Final = "#f2d492"


@dataclass(frozen=True, slots=True)
class Moment:
    """What a query's watermark was set to, and when; both in epoch milliseconds."""

    at_ms: int
    watermark_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that the picture shows. `outage` is empty where no writer was away; `dropped` are among `events`."""

    start_ms: int
    end_ms: int
    delay_ms: int
    exact: tuple[Moment, ...]
    plain: tuple[Moment, ...]
    outage: tuple[int, int] | None
    events: Sequence[LoggedEvent]
    dropped: Sequence[LoggedEvent]


def draw(scene: Scene, path: Path) -> None:
    """Writes the picture as a PNG. Raises OSError where the file cannot be written."""
    import matplotlib  # when the run is over, since loading it takes a second

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    seconds = (scene.end_ms - scene.start_ms) / 1000
    figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
    axes = figure.add_subplot()
    _outage(axes, scene)
    _events(axes, scene)
    axes.plot([0, seconds], [0, seconds], color="black", linewidth=1, linestyle=(0, (1, 2)))
    axes.annotate("the clock", (seconds * 0.9, seconds * 0.9), xytext=(-8, 4), textcoords="offset points", ha="right")
    for name, moments, colour in (
        ("exact watermark", scene.exact, EXACT_COLOUR),
        (f'withWatermark "{scene.delay_ms / 1000:g} seconds"', scene.plain, PLAIN_COLOUR),
    ):
        at, times = staircase(moments, scene.start_ms, scene.end_ms)
        axes.plot(at, times, color=colour, linewidth=2.4, label=name)
    axes.set_xlim(0, seconds)
    axes.set_ylim(0, seconds)
    axes.set_xlabel("the clock: seconds since the start")
    axes.set_ylabel("event time: seconds since the start")
    axes.set_title(
        "How far each watermark has come.\n"
        "An event that is written below a line is older than that watermark: once its window is closed, it is lost.",
        loc="left",
    )
    axes.grid(color="#ececec")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="upper left", frameon=True, framealpha=0.95, markerscale=2.5)
    figure.savefig(path, dpi=DOTS_PER_INCH, format="png")


def staircase(moments: Sequence[Moment], start_ms: int, end_ms: int) -> tuple[list[float], list[float]]:
    """A watermark's line, corner by corner: when, and where it stood, in seconds since the start.

    Between two moments a watermark stands still. Before its first moment there is none, and what is set after the
    end is not shown.
    """
    at: list[float] = []
    times: list[float] = []
    shown = [moment for moment in moments if start_ms <= moment.at_ms <= end_ms]
    for number, moment in enumerate(shown, start=1):
        until_ms = shown[number].at_ms if number < len(shown) else end_ms
        at += [(moment.at_ms - start_ms) / 1000, (until_ms - start_ms) / 1000]
        times += [(moment.watermark_ms - start_ms) / 1000] * 2
    return at, times


def _outage(axes: Axes, scene: Scene) -> None:
    if scene.outage is None:
        return
    left, right = ((at_ms - scene.start_ms) / 1000 for at_ms in scene.outage)
    axes.axvspan(left, right, color=OUTAGE_COLOUR, alpha=0.45, linewidth=0)
    axes.text(
        (left + right) / 2, 0.015, "one writer is offline,\nthen writes its backlog",
        transform=axes.get_xaxis_transform(), ha="center", va="bottom",
    )  # fmt: skip


def _events(axes: Axes, scene: Scene) -> None:
    lost = set(map(id, scene.dropped))
    kept = [event for event in scene.events if id(event) not in lost]
    for events, colour, size, name in (
        (kept, EVENT_COLOUR, 1.5, "an event, when it is written"),
        (scene.dropped, LOST_COLOUR, 9.0, f"an event lost by withWatermark ({len(scene.dropped):,})"),
    ):
        axes.scatter(
            [(event.appended_ms - scene.start_ms) / 1000 for event in events],
            [(event.time_ms - scene.start_ms) / 1000 for event in events],
            s=size, color=colour, linewidths=0, label=name, zorder=3 if events is scene.dropped else 1,
        )  # fmt: skip
