"""The picture of a run with Spark."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from strandline_demo.outcome import PLAIN, QueryOutcome
from strandline_demo.world import DemoSettings


def draw(settings: DemoSettings, start_ms: int, exact: QueryOutcome, plain: QueryOutcome, path: Path) -> None:
    """Writes the picture as a PNG: how far each watermark has come, and the events as they are written."""

    def seconds(moments_ms: Sequence[int]) -> list[float]:
        return [(moment_ms - start_ms) / 1000 for moment_ms in moments_ms]

    end_ms = max(appended_ms for _, appended_ms in exact.events)
    (end,) = seconds([end_ms])
    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.add_subplot()
    if settings.outage:
        left, right = settings.outage.start / 1000, settings.outage.stop / 1000
        axes.axvspan(left, right, color="#f2d492", alpha=0.45, linewidth=0)
        words, below = "one writer is offline,\nthen writes its backlog", axes.get_xaxis_transform()
        axes.text((left + right) / 2, 0.015, words, transform=below, ha="center", va="bottom")
    for shown, colour, size, order, name in (
        (exact.events, "#8a8a8a", 1.5, 1, "an event, when it is written"),
        (plain.missing, "#d00000", 9.0, 3, f"an event lost by withWatermark ({len(plain.missing):,})"),
    ):
        written, happened = (seconds([event[part] for event in shown]) for part in (1, 0))
        axes.scatter(written, happened, s=size, color=colour, linewidths=0, label=name, zorder=order)
    axes.plot([0, end], [0, end], color="black", linewidth=1, linestyle=(0, (1, 2)))
    axes.annotate("the clock", (end * 0.9, end * 0.9), xytext=(-8, 4), textcoords="offset points", ha="right")
    guess = PLAIN.format(settings.delay_ms / 1000)
    for run, colour, name in ((exact, "#0b6e4f", "exact watermark"), (plain, "#c1440e", guess)):
        # A watermark stands still from one batch to the next, and the last one to the end.
        moments = [(at_ms, time_ms) for at_ms, time_ms in run.watermarks if start_ms <= at_ms <= end_ms and time_ms]
        moments += [(end_ms, time_ms) for _, time_ms in moments[-1:]]
        at, stood = (seconds([moment[part] for moment in moments]) for part in (0, 1))
        axes.step(at, stood, where="post", color=colour, linewidth=2.4, label=name)
    axes.set(xlim=(0, end), xlabel="the clock: seconds since the start")
    axes.set(axisbelow=True, ylim=(0, end), ylabel="event time: seconds since the start")
    title = "How far each watermark has come.\nAn event that is written below a line is older than that watermark: "
    axes.set_title(f"{title}once its window is closed, it is lost.", loc="left")
    axes.grid(color="#ececec")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", frameon=True, framealpha=0.95, markerscale=2.5)
    figure.savefig(path, dpi=130, format="png")
