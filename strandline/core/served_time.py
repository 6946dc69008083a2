"""Served time: the clock minus the time in which no controller could hear a caller.

    clock        0 ─────────────────────────────────────────────────────────────►
    unserved time                 ├── store away ──┤        ├─ all stopped ─┤
    served time  0 ───────────────┤                ├────────┤               ├──►

Silence is measured in served time, which stands still while no controller served. A silent writer or reader keeps the
served time of its last call. The store has how far it was served: every controller that is alive records it
once a second, and a gap in that is unserved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

SERVED_GAP_MS: Final = 3_000  # a longer one between two moments at which somebody served is unserved


class Moment(NamedTuple):
    """A moment of the clock, and the served time then."""

    now: int
    served: int


@dataclass(slots=True)
class Unserved:
    """The total time in which no caller could be heard. Pure: moments of the clock are arguments."""

    total_ms: int = 0  # without a gap that is not over
    until: int | None = None  # when somebody certainly served last; None: there are no gaps

    def served(self, now: int) -> int:
        """The served time at a moment: it stands still while nobody can be heard."""
        if self.until is not None and now - self.until > SERVED_GAP_MS:
            return self.until - self.total_ms
        return now - self.total_ms

    def is_away(self, now: int) -> bool:
        """Whether nobody can be heard at a moment: nobody has served for too long."""
        return self.until is not None and now - self.until > SERVED_GAP_MS

    def serve(self, now: int) -> None:
        """Somebody serves at this moment. If the last one that did is too long ago, the time since is unserved."""
        if self.until is not None:
            if self.is_away(now):
                self.total_ms += now - self.until
            self.until = max(now, self.until)
