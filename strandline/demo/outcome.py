"""The outcome of a run: the counts of both queries and those of the log, as a table and as a picture."""

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from matplotlib.figure import Figure

from strandline.demo.world import WINDOW_MS, DemoSettings
from strandline.logs.sqlite_reader import SqliteLogReader

ROWS: Final = (
    *("", "events written", "events missing", "rows dropped", "windows emitted", "windows wrong"),
    *("windows left open at the end", "delay of closing, median", "delay of closing, worst"),
)
PLAIN: Final = 'withWatermark "{:g} seconds"'
FOOT: Final = """
Events missing: written to the log, and in no window although its window was closed.
Rows dropped is Spark's own count (numRowsDroppedByWatermark). Spark first counts the events of a task and
window together into one row, so one row stands for many events.
Delay of closing: from the end of a window to the moment at which its count came out.
Left open: the stream ended before the watermark reached the window's end, so it is not counted as wrong."""

# All times are in epoch milliseconds.
Events: TypeAlias = Sequence[tuple[int, int]]  # in the log: the time of each, and when it was appended
EmittedWindows: TypeAlias = Sequence[tuple[int, int, int]]  # of a query: start, count, and when its sink had it
Watermarks: TypeAlias = Sequence[tuple[int, int]]  # of a query: when a batch began, and its watermark, 0 for none


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """The counts of a query, compared with the log.

    A window was due once the last watermark had passed its end. `missing` events are in the log, and not in
    their window, although it was due or emitted. `wrong` windows lack events or have too many, or were emitted twice.
    Windows that were neither due nor emitted are `left_open`. `rows_dropped` is Spark's own count.
    """

    events: Events
    windows: EmittedWindows
    watermarks: Watermarks
    rows_dropped: int
    missing: Events
    wrong: int
    left_open: int


def read_log(path: Path) -> Events:
    """Every event in the log."""
    with SqliteLogReader(path) as log:
        rows = [row for segment, end in log.end_offsets().items() for row in log.rows(segment, 0, end)]
    return [(json.loads(row.value or b"")["time"], row.appended_at) for row in rows]


def compare(events: Events, windows: EmittedWindows, watermarks: Watermarks, rows_dropped: int) -> QueryOutcome:
    """Compares every window that was due or emitted with the log.

    If events of a window are missing, they are those that were appended last: a query reads events in the order of
    their appends, and a closed window drops later ones.
    """
    truth = Counter(time_ms // WINDOW_MS * WINDOW_MS for time_ms, _ in events)
    emitted = Counter(start for start, _, _ in windows)
    last_ms = max((watermark_ms for _, watermark_ms in watermarks), default=0)
    compared = {start for start in truth if start + WINDOW_MS <= last_ms} | emitted.keys()
    lacking = Counter({start: truth[start] for start in compared})
    for start, count, _ in windows:
        lacking[start] -= count
    wrong = sum(lacking[start] != 0 or emitted[start] > 1 for start in compared)
    missing = []
    for time_ms, appended_ms in sorted(events, key=lambda event: event[1], reverse=True):
        if lacking[start := time_ms // WINDOW_MS * WINDOW_MS] > 0:
            lacking[start] -= 1
            missing.append((time_ms, appended_ms))
    return QueryOutcome(
        events, windows, watermarks, rows_dropped, missing, wrong, left_open=len(truth.keys() - compared)
    )


def table(settings: DemoSettings, exact: QueryOutcome, plain: QueryOutcome) -> str:
    """The table of both queries, followed by the meaning of its words."""
    columns: list[Sequence[str]] = [ROWS]
    for name, run in (("exact watermark", exact), (PLAIN.format(settings.delay_ms / 1000), plain)):
        delays = [at_ms - start - WINDOW_MS for start, _, at_ms in run.windows]
        shown = [f"{of(delays) / 1000:.1f} s" if delays else "none emitted" for of in (statistics.median, max)]
        counts = (len(run.events), len(run.missing), run.rows_dropped, len(run.windows), run.wrong, run.left_open)
        columns.append([name, *(f"{count:,}".replace(",", " ") for count in counts), *shown])
    widths = [max(map(len, column)) for column in columns]
    rows = zip(*columns, strict=True)
    lines = ["   ".join([name.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]) for name, *cells in rows]
    return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:], FOOT])


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
