"""How long a controller may answer from memory.

    own clock     sent ──────── beat answered ─────────────── lease ends ───┐
                    │◄────────── lease − 5 % ──────────────────────►│       │
    their clock             seen ◄──────────── lease ───────────────────────► may be ended

The store does the beat between the two, so whoever waits for a whole lease after it saw the beat ends a controller
whose lease is over, as long as both monotonic clocks run at one rate, to 5 %. No wall clock matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.cluster.records import LEASE_MS

LEASE_DRIFT_PERCENT: Final = 5  # by which two monotonic clocks may differ: a controller trusts its lease for less


TRUSTED_LEASE_MS = LEASE_MS * (100 - LEASE_DRIFT_PERCENT) // 100


@dataclass(slots=True)
class Lease:
    """The own lease, on the own monotonic clock. Once it has run out, only a new begin helps."""

    until: int

    @classmethod
    def begun(cls, sent: int) -> Lease:
        """The lease of a begin that was sent at this moment."""
        return cls(sent + TRUSTED_LEASE_MS)

    def extend(self, sent: int) -> None:
        """Records that a beat was answered. Counts from when it was sent, because the others count from when the store
        did it, and that may have been at once."""
        self.until = max(self.until, sent + TRUSTED_LEASE_MS)

    @property
    def renewed_at(self) -> int:
        """When the begin or the beat was sent that gave it."""
        return self.until - TRUSTED_LEASE_MS

    def runs(self, monotonic: int) -> bool:
        return monotonic < self.until

    def confirmed_after(self, monotonic: int) -> bool:
        """Whether the store has answered a beat that was sent after this moment."""
        return self.until - TRUSTED_LEASE_MS > monotonic
