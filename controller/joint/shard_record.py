"""What commits say of a controller with shards: it has not ended, and the shards are its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from controller.cluster.actions import CommitOutcome, CommitParts
from controller.cluster.member import Member, MemberPhase
from controller.joint.shard_tenures import ShardTenures
from controller.storage.cluster import ControllerEnded, ShardCheck, ShardsLost
from controller.storage.diagnosis import Cause, StoreTrouble
from controller.storage.transaction import CommitUnknown


class NoLease(StoreTrouble):
    """This controller may not write at present: it restarts, or has stopped."""

    cause = Cause.AWAY
    says = "this controller has no lease at present: it could not reach the store in time, or is about to begin"


class ShardRecord:
    """Tells a member when commits begin and how they end. A release of shards goes with the next commit."""

    def __init__(
        self,
        member: Member,
        tenures: ShardTenures,
        monotonic: Callable[[], int],
        on_change: Callable[[], None],
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        """`on_change` is called after the member heard of a commit: it may have something to do. `changed` waits for
        its next event."""
        self._member = member
        self._tenures = tenures
        self._monotonic = monotonic
        self._on_change = on_change
        self._changed = changed
        self._commit: CommitParts | None = None
        self._grown: dict[int, int] = {}  # what the commit under way says of time in which nobody could be heard

    async def ready(self) -> None:
        """Returns when it is known how the commit before has ended, or this controller has begun anew."""
        while self._member.settling:
            await self._changed()

    def begin(self) -> ShardCheck:
        commit = self._member.begin_commit(self._monotonic(), set())
        if commit is None:
            self._on_change()
            raise NoLease
        self._commit = commit
        now = self._now()
        self._tenures.commit_begins(now)
        self._grown = self._tenures.grown(self._member.owned.all(), now)
        return ShardCheck(commit.check, commit.release, self._grown, commit.served_until)

    def succeed(self) -> None:
        self._tenures.commit_is_done(self._now(), self._grown)
        self._end(CommitOutcome.DONE)

    def fail(self, error: Exception) -> None:
        self._tenures.commit_failed()
        match error:
            case ControllerEnded() | ShardsLost():
                self._end(CommitOutcome.REFUSED)
            case CommitUnknown():
                self._end(CommitOutcome.LOST)
            case _:
                self._end(CommitOutcome.FAILED)

    def stop(self) -> bool:
        """No time that is shown reaches the bound that the store has."""
        return self._member.phase is not MemberPhase.STOPPED

    def _end(self, outcome: CommitOutcome) -> None:
        commit, self._commit = self._commit, None
        if commit is not None:
            self._member.commit_ended(self._monotonic(), commit, outcome)
            self._on_change()

    def _now(self) -> int:
        return self._member.clock.now(self._monotonic())
