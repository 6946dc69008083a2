"""When the parent of several processes starts each of them, and what it ends with. Pure: "now" is an argument, in s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.limits import DEFAULT_LIMITS
from controller.terminal import TAKEN_OVER_STATUS

RESTART_PAUSE_S: Final = 1.0  # before a process is started again; twice as long after each further failure
RESTART_PAUSES_S: Final = 30.0  # the longest such pause
STEADY_PROCESS_S: Final = 60.0  # a process that was ready for so long is started again at once, without a pause
KILL_AFTER_S: Final = 5  # past `drain_s`, a process that has not ended is killed


@dataclass(slots=True)
class _Slot:
    """One of the processes, whichever runs in its place now."""

    start_at: float | None = 0.0  # None while one runs, and if no other one is to be started
    running: bool = False
    ready_since: float | None = None
    failures: int = 0  # in a row
    status: int = 0  # that the last one ended with


class Restarts:
    """The places of so many processes, which count from 1.

    Until all were ready once, the first end of any of them ends all: what is wrong is probably wrong for each. Later a
    process that failed is started again, after longer and longer pauses if it does not last. One that ended in order
    was drained, and stays away; so does one whose name was taken over.
    """

    def __init__(self, count: int) -> None:
        self._places = {number: _Slot() for number in range(1, count + 1)}
        self._begun = False  # all were ready once
        self.stopping = False
        self._kill_at: float | None = None

    @property
    def over(self) -> bool:
        """Whether none runs and none is to be started."""
        return not any(place.running or place.start_at is not None for place in self._places.values())

    @property
    def status(self) -> int:
        """What the parent ends with: the worst of what its processes ended with last."""
        return max(place.status for place in self._places.values())

    def due(self, now: float) -> list[int]:
        """The processes to start now; they count as running."""
        found = [
            number for number, place in self._places.items() if place.start_at is not None and place.start_at <= now
        ]
        for number in found:
            place = self._places[number]
            place.start_at, place.running, place.ready_since = None, True, None
        return found

    def next_due(self) -> float | None:
        """When to look again, if nothing happens before."""
        starts = [place.start_at for place in self._places.values() if place.start_at is not None]
        return min(starts, default=self._kill_at)

    def overdue(self, now: float) -> bool:
        """Whether those that still run were told to end so long ago that they have to be killed; True only once."""
        if self._kill_at is None or now < self._kill_at:
            return False
        self._kill_at = None
        return True

    def ready(self, number: int, now: float) -> bool:
        """A process takes calls. Returns whether it is the last one for which the others have waited."""
        self._places[number].ready_since = now
        if self._begun or any(place.ready_since is None for place in self._places.values()):
            return False
        self._begun = True
        return True

    def ended(self, number: int, status: int, now: float) -> float | None:
        """A process ended. Returns after how many seconds another one is started in its place, None: not at all."""
        place = self._places[number]
        place.running, place.status = False, status
        if self.stopping or status == TAKEN_OVER_STATUS or (status == 0 and self._begun):
            return None
        if not self._begun:
            self.stop(now)
            return None
        steady = place.ready_since is not None and now - place.ready_since >= STEADY_PROCESS_S
        place.failures = 0 if steady else place.failures + 1
        pause = min(RESTART_PAUSE_S * 2 ** (place.failures - 1), RESTART_PAUSES_S) if place.failures else 0.0
        place.start_at = now + pause
        return pause

    def stop(self, now: float) -> None:
        """Starts none any more; those that run are to end."""
        if not self.stopping:
            self.stopping, self._kill_at = True, now + DEFAULT_LIMITS.drain_s + KILL_AFTER_S
        for place in self._places.values():
            place.start_at = None
