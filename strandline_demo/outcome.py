"""The outcome of a run with Spark: the counts of both queries and those of the log, as a table."""

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from strandline.logs.sqlite_reader import SqliteLogReader
from strandline_demo.world import WINDOW_MS, DemoSettings

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


def window_of(time_ms: int) -> int:
    """The start of the window in which a time lies."""
    return time_ms // WINDOW_MS * WINDOW_MS


def count_text(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def aligned(rows: Sequence[Sequence[str]], gap: str) -> list[str]:
    """Lines of a table: the first column is words, the others are numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [gap.join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]


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
    truth = Counter(window_of(time_ms) for time_ms, _ in events)
    emitted = Counter(start for start, _, _ in windows)
    last_ms = max((watermark_ms for _, watermark_ms in watermarks), default=0)
    compared = {start for start in truth if start + WINDOW_MS <= last_ms} | emitted.keys()
    lacking = Counter({start: truth[start] for start in compared})
    for start, count, _ in windows:
        lacking[start] -= count
    wrong = sum(lacking[start] != 0 or emitted[start] > 1 for start in compared)
    missing = []
    for time_ms, appended_ms in sorted(events, key=lambda event: event[1], reverse=True):
        if lacking[start := window_of(time_ms)] > 0:
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
        columns.append([name, *map(count_text, counts), *shown])
    lines = aligned(list(zip(*columns, strict=True)), "   ")
    return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:], FOOT])
