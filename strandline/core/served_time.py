"""Time in which nobody could be heard: one number of milliseconds that only grows.

    clock        0 ─────────────────────────────────────────────────────────────►
    nobody could be heard         ├── store away ──┤        ├─ process stopped ─┤
    served time  0 ───────────────┤                ├────────┤                   ├──►

Silence is judged by *served time*, the clock less this number: it stands still while nobody could be heard. Whoever
keeps silence keeps the served time at which it began. The controller says here when its commits begin and how they
end, and how long its process did not run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from strandline.limits import COMMIT_HANGS_MS


class Moment(NamedTuple):
    """A moment by the clock, and the served time then."""

    now: int
    served: int


@dataclass(slots=True)
class Unserved:
    """How long nobody could be heard, in all. Pure: every moment is an argument, by the controller's clock."""

    total_ms: int = 0  # without what is still going on
    _since: int | None = None  # when the commit under way began, or the first one that failed since one succeeded
    _failing: bool = False

    def served(self, now: int) -> int:
        """The served time at a moment."""
        return self.served_until(now) - self.total_ms

    def served_until(self, now: int) -> int:
        """Until when callers could be heard: now, or the start of the commits that fail or take too long."""
        return now if self._since is None or not self.is_away(now) else self._since

    def is_away(self, now: int) -> bool:
        """Whether the store is away now: commits fail, or one has been under way for too long."""
        return self._since is not None and (self._failing or now - self._since >= COMMIT_HANGS_MS)

    def begin(self, now: int) -> None:
        """A commit begins. After one that failed, it goes on from the start of that one."""
        if self._since is None:
            self._since = now

    def fail(self) -> None:
        """The commit under way failed."""
        self._failing = True

    def succeed(self, now: int) -> None:
        """The commit under way succeeded: if the store was away, it was so until now."""
        if self._since is not None and self.is_away(now):
            self.total_ms += max(0, now - self._since)
        self._since, self._failing = None, False

    def skip(self, passed_ms: int) -> None:
        """The clock has just moved by so much although nobody could be heard: the process did not run, or the clock
        was set. Served time is what it was."""
        self.total_ms += passed_ms
        if self._since is not None:
            self._since += passed_ms
