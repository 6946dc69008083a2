"""From ingestion time to event time, where events are written within a bounded time after they happen."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.core.checks import check_time, check_whole
from strandline.limits import TIME_BOUND_MS


@dataclass(frozen=True, slots=True)
class EventTimeLag:
    """Takes the greatest delay between an event and its being written off an ingestion watermark.

    With five minutes, an ingestion watermark of 12:00 says that nothing that happened before 11:55 follows.
    That is as true as the bound is: an event that took longer is late.

    Raises InvalidConfig where the lag is not a whole number from 0 up.
    """

    max_event_time_lag_ms: int

    def __post_init__(self) -> None:
        check_whole("max_event_time_lag_ms", self.max_event_time_lag_ms, least=0)

    def apply(self, watermark: int | None) -> int | None:
        """The event-time watermark; None while there is none. It stops at the least time there is."""
        if watermark is None:
            return None
        return max(check_time("watermark", watermark) - self.max_event_time_lag_ms, 1 - TIME_BOUND_MS)
