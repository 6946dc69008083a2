"""The table at the end of a run, as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline_demo.settings import DemoSettings
from strandline_demo.truth import Outcome

FOOT: Final = """\
Events missing: written to the log, and in no window although its window was closed.
Rows dropped is Spark's own count (numRowsDroppedByWatermark). Spark first counts the events of a task and
window together into one row, so one row stands for many events.
Delay of closing: from the end of a window to the moment at which its count came out."""


def render(settings: DemoSettings, exact: Outcome, plain: Outcome) -> str:
    """The table, and under it what its words mean."""
    rows = [
        ("", "exact watermark", f'withWatermark "{settings.delay_ms / 1000:g} seconds"'),
        *((name, _number(left), _number(right)) for name, left, right in _counts(exact, plain)),
        ("delay of closing, median", _seconds(exact.median_delay_ms), _seconds(plain.median_delay_ms)),
        ("delay of closing, worst", _seconds(exact.worst_delay_ms), _seconds(plain.worst_delay_ms)),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "─" * len(lines[0]))
    lines += ["", FOOT]
    if exact.open_at_end or plain.open_at_end:
        lines.append(
            "Left open: the stream ended before the watermark reached the window's end, so it is not counted as wrong."
        )
    return "\n".join(lines)


def _counts(exact: Outcome, plain: Outcome) -> list[tuple[str, int, int]]:
    return [
        ("events written", exact.events, plain.events),
        ("events missing", exact.missing, plain.missing),
        ("rows dropped", exact.rows_dropped, plain.rows_dropped),
        ("windows emitted", exact.emitted, plain.emitted),
        ("windows wrong", exact.wrong, plain.wrong),
        ("windows left open at the end", exact.open_at_end, plain.open_at_end),
    ]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *cells = row
    padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
    return "   ".join((name.ljust(widths[0]), *padded))


def _number(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def _seconds(delay_ms: int | None) -> str:
    return "none emitted" if delay_ms is None else f"{delay_ms / 1000:.1f} s"
