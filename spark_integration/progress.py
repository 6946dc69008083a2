"""Reads times from Spark's progress reports, in milliseconds."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from spark_integration.offsets import END_OF_TIME_MS
from strandline.core.time_units import milliseconds

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress


def epoch_ms(text: str) -> int:
    """Parses Spark's form of a time; returns epoch milliseconds. A year of more than four digits is the end of time."""
    if text.startswith("+"):
        return END_OF_TIME_MS
    return milliseconds("a time of Spark", datetime.fromisoformat(text))


def watermark_of(progress: StreamingQueryProgress) -> int | None:
    """Returns the watermark of a batch; None while there is none (for Spark that is 1970)."""
    text = progress.eventTime.get("watermark")
    time = 0 if text is None else epoch_ms(text)
    return time if time > 0 else None
