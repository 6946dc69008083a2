"""Reads times from Spark's progress reports, in milliseconds."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from spark_integration.offsets import END_OF_TIME_MS
from strandline.core.time_units import milliseconds

CYCLE_YEARS: Final = 400
CYCLE_MS: Final = 146_097 * 86_400_000  # of these years

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress


def epoch_ms(text: str) -> int:
    """Parses Spark's form of a time; returns epoch milliseconds."""
    cycles = 0
    if text.startswith("+"):  # a year of more than four digits, which no datetime has; the calendar repeats
        year, rest = text[1:].split("-", 1)
        cycles = int(year) // CYCLE_YEARS - 1
        text = f"{int(year) - cycles * CYCLE_YEARS:04}-{rest}"
    return milliseconds("a time of Spark", datetime.fromisoformat(text)) + cycles * CYCLE_MS


def watermark_of(progress: StreamingQueryProgress) -> int | None:
    """Returns the watermark of a batch; None while there is none (for Spark that is 1970)."""
    text = progress.eventTime.get("watermark")
    time = 0 if text is None else epoch_ms(text)
    if time == END_OF_TIME_MS - 1:  # less the delay that a mark row may have
        return END_OF_TIME_MS
    return time if time > 0 else None
