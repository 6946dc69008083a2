"""Warnings in the log of the program that uses a client, at a pace: a fault that goes on for hours gives one line a
minute."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

WAIT_LOGGED_AFTER_MS: Final = 2_000  # a client that waits for longer logs for whom
WARNINGS_PAUSE_MS: Final = 60_000  # between two lines of one kind
WARNING_LINES: Final = 20  # of all clients of a process, in that time


class Room:
    """Room for the lines of all clients of a process: WARNING_LINES at once, and so many again in WARNINGS_PAUSE_MS."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = 0.0
        self.refill()

    def refill(self) -> None:
        """Makes room as at the beginning."""
        self._room = float(WARNING_LINES)

    def take(self, now: float) -> bool:
        """Takes room for one line, if there is any."""
        with self._lock:
            refilled = max(0.0, now - self._since) * 1000 / WARNINGS_PAUSE_MS * WARNING_LINES
            self._room, self._since = min(float(WARNING_LINES), self._room + refilled), now
            if self._room < 1:
                return False
            self._room -= 1
            return True


OF_THE_PROCESS: Final = Room()


class PacedLog:
    """Logs each kind of warning at once, and then at most once in WARNINGS_PAUSE_MS."""

    def __init__(self, logger: str, now: Callable[[], float] = monotonic, room: Room = OF_THE_PROCESS) -> None:
        self._log = logging.getLogger(logger)
        self._now = now
        self._room = room
        self._kinds: dict[str, tuple[float | None, int]] = {}  # the last line, and how many were left out

    def is_due(self, kind: str) -> bool:
        """Whether the last warning of this kind is long enough ago; for a caller that counts meanwhile."""
        at, _ = self._kinds.get(kind, (None, 0))
        return at is None or (self._now() - at) * 1000 >= WARNINGS_PAUSE_MS

    def warn(self, kind: str, text: str) -> bool:
        """Logs a warning, and how many of its kind were left out since the last line. Returns whether it did."""
        now = self._now()
        at, left_out = self._kinds.get(kind, (None, 0))
        if not self.is_due(kind) or not self._room.take(now):
            self._kinds[kind] = (at, left_out + 1)
            return False
        self._kinds[kind] = (now, 0)
        self._log.warning("%s%s", text, f" ({left_out} more such warnings were left out)" if left_out else "")
        return True

    def close(self, text: str) -> None:
        """Logs at once that what a logged warning was about is over."""
        self._log.warning("%s", text)


class Waiting:
    """Tells whom a client waits for: after WAIT_LOGGED_AFTER_MS, and then once in WARNINGS_PAUSE_MS."""

    def __init__(self, log: PacedLog, now: Callable[[], float] = monotonic) -> None:
        self._log = log
        self._now = now
        self._since: float | None = None
        self.told = False

    def begins(self) -> None:
        """Records that the client waits from now on; else it does from the first failure on."""
        self._since = self._now()

    def goes_on(self, text: str) -> None:
        """Records that an attempt has failed; `text` says whom the client waits for, and why."""
        now = self._now()
        if self._since is None:
            self._since = now
        waited_ms = (now - self._since) * 1000
        if waited_ms >= WAIT_LOGGED_AFTER_MS:
            self.told = self._log.warn("waiting", f"{text} (for {waited_ms / 1000:.0f} s)") or self.told

    def ends(self, text: str) -> None:
        """Records that the wait is over; `text` says so if the wait was `told`."""
        if self._since is not None and self.told:
            self._log.close(f"{text} after {self._now() - self._since:.0f} s")
        self._since, self.told = None, False
