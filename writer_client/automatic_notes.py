"""Automatic notes, by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from strandline.core.checks import check_whole
from strandline.core.note import check_position, check_time
from strandline.core.time_units import Instant, milliseconds
from strandline.errors import InvalidConfig
from strandline.logs import Log, Position
from writer_client.errors import NoLog

NOTE_PERIOD_DEFAULT_MS: Final = 5_000  # between two automatic notes
NOTE_LAG_DEFAULT_MS: Final = 1_000  # how old an event may be when it is written: automatic notes are this far behind


NOT_READ: Final = RuntimeError("the clock was not read yet")  # in place of a time


def system_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticTime:
    """Notes the clock every `period_ms`, even when nothing is written.

    In the `event` domain a note has the time of `clock` less `lag_ms`. `lag_ms` is how old an event may be, by that
    clock, when it is passed to `write`: 0 if it gets its time under the same lock. In the `ingestion` domain a note has
    the controller's clock, which the writer requests before it reads its position; `clock` and `lag_ms` are not used.

    `oldest` is for a program that holds events back, in a buffer or while it is offline. It returns the time of the
    oldest event that the program has and that was not yet passed to `write`, or to a producer: no later time is noted.
    None: nothing is held back. Take an event out of the buffer after the call that writes it, or after `commit`.
    `lag_ms` is then how old an event may be when it comes into the buffer. `oldest` runs after the clock is read,
    in the thread that sends the notes of all writers, so it must not take long. It may take a lock that the program
    holds around its calls.

    `position` is for a writer without a log. It returns a position above everything that this writer has written, in
    the form that `note_time` takes. It runs in another thread after the clock is read, and may wait. While it raises,
    the writer notes nothing.
    """

    period_ms: int = NOTE_PERIOD_DEFAULT_MS
    domain: Literal["event", "ingestion"] = "event"
    lag_ms: int = NOTE_LAG_DEFAULT_MS
    clock: Callable[[], int] = system_clock_ms
    oldest: Callable[[], Instant | None] | None = None
    position: Callable[[], Mapping[str, int]] | None = None

    def __post_init__(self) -> None:
        check_whole("period_ms", self.period_ms, least=1)
        check_whole("lag_ms", self.lag_ms, least=0)
        if self.domain not in ("event", "ingestion"):
            raise InvalidConfig(name="domain", value=self.domain, wanted='"event" or "ingestion"')
        for name in ("clock", "oldest", "position"):
            if (given := getattr(self, name)) is not None and not callable(given):
                raise InvalidConfig(name=name, value=given, wanted="a function without arguments")
        if self.domain == "ingestion" and self.oldest is not None:
            wanted = "left out: in the ingestion domain an event has the time when it is written"
            raise InvalidConfig(name="oldest", value="given", wanted=wanted)

    def now(self) -> int:
        """The time to note in the `event` domain. Raises what `clock` and `oldest` raise, and InvalidNote or
        InvalidConfig for what is no time."""
        now = self.clock() - self.lag_ms  # first: what comes into the buffer from here on is not older
        held = None if self.oldest is None else self.oldest()
        if held is not None:
            now = min(now, milliseconds("oldest", held))
        check_time("the clock's time", now)
        return now


class PositionSource(Protocol):
    """Provides a writer's position: usually a log."""

    def flush(self) -> Position: ...


class GivenPositions:
    """Provides the positions of a writer without a log, from the application's function."""

    def __init__(self, position: Callable[[], Mapping[str, int]]) -> None:
        self._position = position

    def flush(self) -> Position:
        position = dict(self._position())
        check_position(position)
        return position


def automatic_of(
    given: AutomaticTime | bool, writer: str, log: Log | None, idle_after_ms: int | None
) -> AutomaticTime | None:
    """Checks the options of automatic work, and returns the automatic notes if there are any. Raises NoLog and
    InvalidConfig for options that contradict each other."""
    if idle_after_ms is not None:
        check_whole("idle_after_ms", idle_after_ms, least=1)
        if getattr(log, "is_written_beside", False):
            raise InvalidConfig(
                name="idle_after_ms",
                value=idle_after_ms,
                wanted="left out with a producer of your own: there is no sign of when that sends",
            )
    automatic = AutomaticTime() if given is True else given or None
    if automatic is None:
        return None
    if not isinstance(automatic, AutomaticTime):
        wanted = "true, false, or an AutomaticTime, as AutomaticTime(period_ms=1_000)"
        raise InvalidConfig(name="automatically_note_time", value=automatic, wanted=wanted)
    if automatic.oldest is not None and idle_after_ms is not None:
        wanted = "left out with oldest: time passes an idle writer, and what it holds back would be late"
        raise InvalidConfig(name="idle_after_ms", value=idle_after_ms, wanted=wanted)
    if automatic.position is not None and log is not None:
        raise InvalidConfig(name="position", value="given", wanted="the writer has a log, which provides its positions")
    if automatic.position is None and log is None:
        raise NoLog(writer=writer, call="automatically_note_time")
    if log is None and idle_after_ms is not None:
        raise InvalidConfig(
            name="idle_after_ms",
            value=idle_after_ms,
            wanted="without a log there is no sign of when something is written",
        )
    return automatic
