"""Noting time by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from strandline.core.checks import check_whole
from strandline.core.note import check_position
from strandline.errors import InvalidConfig
from strandline.logs import Log, Position
from writer_client.errors import NoLog
from writer_client.limits import NOTE_LAG_DEFAULT_MS, NOTE_PERIOD_DEFAULT_MS


def system_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticTime:
    """A note every `period_ms`, also when nothing is written.

    In a stream of the `event` domain it says the application's clock less `lag_ms`: how old an event may be, by that
    clock, when it is given to `write`; 0 where it is stamped under the same lock. In the `ingestion` domain it says the
    controller's clock, which the writer asks for before it reads its position; clock and lag play no part.

    `position` is for a writer without a log. It is called in another thread after the clock is read, may wait, and
    returns the position below which all lies that this writer has written by then, as `note_time` takes it. While it
    raises, nothing is noted.
    """

    period_ms: int = NOTE_PERIOD_DEFAULT_MS
    domain: Literal["event", "ingestion"] = "event"
    lag_ms: int = NOTE_LAG_DEFAULT_MS
    clock: Callable[[], int] = system_clock_ms
    position: Callable[[], Mapping[str, int]] | None = None

    def __post_init__(self) -> None:
        check_whole("period_ms", self.period_ms, least=1)
        check_whole("lag_ms", self.lag_ms, least=0)
        if self.domain not in ("event", "ingestion"):
            raise InvalidConfig(name="domain", value=self.domain, wanted='"event" or "ingestion"')


class TellsPositions(Protocol):
    """What tells a writer its position: a log, most of the time."""

    def flush(self) -> Position: ...


class ToldPositions:
    """Tells the positions of a writer without a log, as the application does."""

    def __init__(self, position: Callable[[], Mapping[str, int]]) -> None:
        self._position = position

    def flush(self) -> Position:
        position = dict(self._position())
        check_position(position)
        return position


def automatic_of(
    given: AutomaticTime | bool, writer: str, log: Log | None, idle_after_ms: int | None
) -> AutomaticTime | None:
    """What a writer does by itself, from what it was made with. Raises NoLog and InvalidConfig for what cannot be."""
    if idle_after_ms is not None:
        check_whole("idle_after_ms", idle_after_ms, least=1)
    automatic = AutomaticTime() if given is True else given or None
    if automatic is None:
        return None
    if automatic.position is not None and log is not None:
        raise InvalidConfig(name="position", value="given", wanted="the writer has a log, which tells its positions")
    if automatic.position is None and log is None:
        raise NoLog(writer=writer, call="automatically_note_time")
    if log is None and idle_after_ms is not None:
        raise InvalidConfig(
            name="idle_after_ms",
            value=idle_after_ms,
            wanted="without a log the writer cannot know when something is written",
        )
    return automatic
