"""Turns ingestion time into event time, for events that are written within a bounded time after they happen."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.core.checks import check_time, check_whole
from strandline.limits import TIME_BOUND_MS


@dataclass(frozen=True, slots=True)
class EventTimeLag:
    """Subtracts the greatest delay between an event and its write from an ingestion watermark.

    With five minutes, an ingestion watermark of 12:00 means that no event older than 11:55 follows. This holds
    as far as the bound does: an event with a longer delay is late.

    Raises InvalidConfig if the lag is not a whole number from 0 up.
    """

    max_event_time_lag_ms: int

    def __post_init__(self) -> None:
        check_whole("max_event_time_lag_ms", self.max_event_time_lag_ms, least=0)

    def apply(self, watermark: int | None) -> int | None:
        """The event-time watermark; None while there is none."""
        return None if watermark is None else self.at(watermark)

    def at(self, mark: int) -> int:
        """The event-time watermark by a mark. It is never below the least valid time."""
        return max(check_time("watermark", mark) - self.max_event_time_lag_ms, 1 - TIME_BOUND_MS)
