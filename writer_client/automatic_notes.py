"""Noting time by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from strandline.core.checks import check_whole
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
        check_whole("period_ms", self.period_ms, least=1)
        check_whole("lag_ms", self.lag_ms, least=0)
        if self.domain not in ("event", "ingestion"):
            raise InvalidConfig(name="domain", value=self.domain, wanted='"event" or "ingestion"')
