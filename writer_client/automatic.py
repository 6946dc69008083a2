"""Noting time by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from strandline.errors import InvalidConfig
from writer_client.limits import NOTE_LAG_DEFAULT_MS, NOTE_PERIOD_DEFAULT_MS


def system_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticTime:
    """A note every `period_ms`, also when nothing is written.

    In a stream of the `event` domain it says the application's clock less `lag_ms`: how old an event may be, by that
    clock, when it is given to `write`; 0 where it is stamped under the same lock. In the `ingestion` domain it says the
    controller's clock, which the writer asks for before it reads its position; clock and lag play no part.
    """

    period_ms: int = NOTE_PERIOD_DEFAULT_MS
    domain: Literal["event", "ingestion"] = "event"
    lag_ms: int = NOTE_LAG_DEFAULT_MS
    clock: Callable[[], int] = system_clock_ms

    def __post_init__(self) -> None:
        if type(self.period_ms) is not int or self.period_ms < 1:
            raise InvalidConfig(name="period_ms", value=self.period_ms, wanted="a whole number from 1 up")
        if type(self.lag_ms) is not int or self.lag_ms < 0:
            raise InvalidConfig(name="lag_ms", value=self.lag_ms, wanted="a whole number from 0 up")
        if self.domain not in ("event", "ingestion"):
            raise InvalidConfig(name="domain", value=self.domain, wanted='"event" or "ingestion"')
