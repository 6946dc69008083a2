"""The bounds of the dashboard, the unit last."""

from typing import Final

REFRESH_S: Final = 1.0
PAGE_ROWS: Final = 25
CHART_POINTS: Final = 240
CHART_SPAN_MS: Final = 3_600_000

SEGMENTS_DRAWN: Final = 60
JOURNAL_SHOWN: Final = 60
NOTES_SHOWN: Final = 30
NAMED_WRITERS: Final = 5  # in one cell
ATTENTION_STREAMS: Final = 4  # shown large, above the table
