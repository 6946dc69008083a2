"""Served time: the clock minus the time in which the controller could hear no caller.

    clock        0 ─────────────────────────────────────────────────────────────►
    unserved time                 ├── store away ──┤        ├─ process stopped ─┤
    served time  0 ───────────────┤                ├────────┤                   ├──►

Silence is measured in served time, which stands still while the controller could hear no caller. A silent writer or
reader keeps the served time at which it was last heard. The controller reports here when its commits begin and how they
end, and how long its process did not run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

COMMIT_HANGS_MS: Final = 1_000  # while a commit takes longer, the store counts as away


class Moment(NamedTuple):
    """A moment of the clock, and the served time then."""

    now: int
    served: int


@dataclass(slots=True)
class Unserved:
    """The total time in which no caller could be heard. Pure: moments of the controller's clock are arguments."""

    total_ms: int = 0  # without the present absence of the store
    _since: int | None = None  # when the current commit began, or the first one that failed since the last success
    _failing: bool = False

    def served(self, now: int) -> int:
        """The served time at a moment."""
        return (now if self._since is None else self.served_until(now)) - self.total_ms

    def served_until(self, now: int) -> int:
        """The last moment at which callers could be heard: now, or the start of the failing or hanging commits."""
        return now if self._since is None or not self.is_away(now) else self._since

    def is_away(self, now: int) -> bool:
        """Whether the store is away now: commits fail, or one takes too long."""
        return self._since is not None and (self._failing or now - self._since >= COMMIT_HANGS_MS)

    def begin(self, now: int) -> None:
        """Records that a commit begins. After a failed one, the absence still counts from the failed one's start."""
        if self._since is None:
            self._since = now

    def fail(self) -> None:
        """Records that the current commit failed."""
        self._failing = True

    def succeed(self, now: int) -> None:
        """Records that the current commit succeeded. If the store was away, the time until now is unserved."""
        if self._since is not None and self.is_away(now):
            self.total_ms += max(0, now - self._since)
        self._since, self._failing = None, False

    def skip(self, passed_ms: int) -> None:
        """Records that the clock has just moved by `passed_ms` while no caller could be heard: the process did not run,
        or the clock was set. Served time does not change."""
        self.total_ms += passed_ms
        if self._since is not None:
            self._since += passed_ms
