"""What commits say in the store of a controller's right to serve, and in which time it could hear callers."""

from __future__ import annotations

from typing import Final, Protocol

from controller.clock import Clock
from controller.storage.save import ServingCheck
from controller.storage.terms import CLOCK_LEAD_MS, Term, TermCheck

HEARTBEAT_MS: Final = 1_000  # how often the store records that this controller still serves


class ServingRecord(Protocol):
    """Accompanies the commits, of which one is under way at a time."""

    async def ready(self) -> None:
        """Returns when a commit may begin."""

    def begin(self) -> ServingCheck:
        """Records that a commit begins; returns the check that goes with it. Raises StoreTrouble if this controller may
        not write at present."""

    def succeed(self) -> None:
        """Records that the commit succeeded."""

    def fail(self, error: Exception) -> None:
        """Records that the commit failed, or that its outcome is not known."""

    def stop(self) -> bool:
        """From now on no caller gets a later time. Returns whether a last commit is due; else this controller has given
        everything away already."""


class TermRecord:
    """The record of a controller that serves a whole store alone: each commit extends its term."""

    def __init__(self, term: Term, clock: Clock) -> None:
        self._term = term
        self._clock = clock
        self._lead_ms = CLOCK_LEAD_MS
        self._began = 0

    async def ready(self) -> None:
        """At once: the store waits for a commit whose outcome is not known."""

    def begin(self) -> TermCheck:
        self._began, unserved = self._clock.now(), self._clock.unserved
        if not self._clock.by_hand:  # else a commit takes no time, however far the clock is moved meanwhile
            unserved.begin(self._began)
        return TermCheck(
            self._term,
            served_until=unserved.served_until(self._began),
            clock_bound=self._began + self._lead_ms,
            unserved_ms=unserved.total_ms,
        )

    def succeed(self) -> None:
        self._clock.unserved.succeed(self._clock.now())

    def fail(self, error: Exception) -> None:
        self._clock.unserved.begin(self._began)
        self._clock.unserved.fail()

    def stop(self) -> bool:
        self._lead_ms = 0
        return True
