"""When a writer notes its clock by itself, and when it goes idle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from writer_client.automatic_notes import AutomaticTime

TRANSACTION_CHECK_MS: Final = 100  # between looks whether a transaction has ended, or an idle writer's work


class Clockwork:
    """Its moments, as the machine's `now` has them."""

    def __init__(self, automatic: AutomaticTime | None, idle_after_ms: int | None) -> None:
        self.automatic = automatic
        self.idle_after_ms = idle_after_ms
        self.started = self.leaving = False
        self.writing = 0
        self.written = False  # or registered, since the clock was noted last
        self.missed = False  # the clock was not noted because a transaction was open
        self.note_at = 0.0
        self._repeat_at = 0.0
        self._active_at = 0.0  # the last write or manual note
        self._before_write: int | Exception = 0  # the clock when the write under way began

    @property
    def has_own_clock(self) -> bool:
        return self.automatic is not None and self.automatic.domain == "event"

    @property
    def due(self) -> float:
        """When the clock is to be noted next."""
        return self.note_at if self.started else math.inf

    @property
    def idle_at(self) -> float | None:
        """When a registered writer goes idle."""
        return None if self.idle_after_ms is None else self._active_at + self.idle_after_ms / 1000

    def start(self, now: float) -> None:
        self.started, self.note_at = True, now
        self.active(now)

    def active(self, now: float) -> None:
        """The writer writes or notes manually: the wait for going idle begins."""
        self._active_at = now

    def write_begins(self, now: float, read: Callable[[], int]) -> None:
        """A write begins; `read` reads the clock."""
        self.active(now)
        if not self.writing and self.has_own_clock:
            self._before_write = reading(read)  # if it fails, the next automatic note reports it
        self.writing += 1

    def write_ended(self, now: float) -> None:
        self.writing -= 1
        self.written = True
        self.active(now)

    def next_period(self, now: float) -> None:
        period_s = self._period_s
        self.note_at += period_s
        if self.note_at <= now:  # it is behind
            self.note_at = now + period_s

    def miss(self, now: float) -> None:
        """No later time is true yet: it looks again soon, since a transaction may end without the writer."""
        self.missed = True
        self.note_at = now + min(self._period_s, TRANSACTION_CHECK_MS / 1000)

    def repeats(self, now: float) -> bool:
        """Whether it is time to repeat the last note, so that the writer is not silent meanwhile."""
        if now < self._repeat_at:
            return False
        self._repeat_at = now + self._period_s
        return True

    def true_time(self, read: int | Exception | None) -> int | Exception | None:
        """The time to note, where the clock shows `read`. While a write is under way, it is that of its beginning: by
        now it may be too late for the events of the write."""
        now = self._before_write if self.writing else read
        if isinstance(now, int):
            self.written = self.writing > 0
        return now

    @property
    def _period_s(self) -> float:
        assert self.automatic is not None
        return self.automatic.period_ms / 1000


def reading(read: Callable[[], int]) -> int | Exception:
    try:
        return read()
    except Exception as error:  # of the application's clock
        return error
