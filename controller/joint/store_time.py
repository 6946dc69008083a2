"""The clock of a controller that serves a store together with others: the store's clock."""

from __future__ import annotations

from controller.clock import Clock, HostClock
from controller.cluster.member import Member


class StoreTime(Clock):
    """The time that a member may show now. Read it only after the member has begun.

    Pauses of this process are not measured: a short one counts as silence, and in a long one the lease runs out.
    """

    def __init__(self, host: HostClock, member: Member) -> None:
        super().__init__(host)
        self._member = member

    def now(self) -> int:
        return self._member.clock.now(self._host.monotonic())

    @property
    def host_ahead_ms(self) -> int:
        """By how much the host's clock is ahead of the store's."""
        return self._host.wall() - self.now()
