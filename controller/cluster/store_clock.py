"""Time as the store's clock tells it, for controllers that must not disagree about it.

Each answer of the store holds its clock's time, which is over when the answer arrives. With the monotonic time since,
each is a lower bound of what the store's clock shows now; the greatest one is behind it by less than a round trip.
"""

from __future__ import annotations

from collections import deque
from typing import Final

STORE_CLOCK_MS: Final = 60_000  # the store's clock is taken from the beats of so long


class StoreClock:
    """Milliseconds that never go back and stay below the bound that the store granted.

    A controller that takes a shard begins at or above the former owner's bound. So no two owners of a stream show times
    in the wrong order, whatever was paused, suspended or set. After the store's clock was set back, time stands still
    until the store has caught up.
    """

    def __init__(self) -> None:
        self.bound = 0  # no time that is shown reaches this
        self.shown = 0  # the greatest time that was shown
        self._leads: deque[tuple[int, int]] = deque()  # when an answer came, and by how much the store was ahead then

    def learn(self, store_now: int, monotonic: int) -> None:
        """Records what the store's clock showed before this moment of the monotonic clock."""
        lead = store_now - monotonic
        while self._leads and self._leads[-1][1] <= lead:  # what is older and not greater no longer matters
            self._leads.pop()
        self._leads.append((monotonic, lead))
        while self._leads[0][0] <= monotonic - STORE_CLOCK_MS:
            self._leads.popleft()

    def grant(self, bound: int) -> None:
        """Records the bound that the store has for this controller. It only grows."""
        self.bound = max(self.bound, bound)

    def now(self, monotonic: int) -> int:
        """The time to show now. Call it only after the store was heard."""
        self.shown = max(self.shown, min(self.estimate(monotonic), self.bound - 1))
        return self.shown

    def estimate(self, monotonic: int) -> int:
        """The store's clock, or less."""
        return monotonic + self._leads[0][1]
