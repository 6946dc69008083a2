"""The right to serve a stream or a reader group, and who has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from controller.cluster.records import Kind
from controller.storage.rows import ALONE, InShard
from strandline.core.served_time import Moment, Unserved
from strandline.errors import NotOwner


def not_served(kind: Kind, name: str) -> NotOwner:
    """The error for a stream or reader group that this controller does not serve at present."""
    return NotOwner(**{str(kind): name}, reason="this controller does not serve it")


@dataclass(eq=False, slots=True)
class Tenure:
    """The right of this controller to serve some streams and reader groups, from its start to its end.

    What was loaded under a tenure is served and written under no other one.
    """

    fence: int  # greater than that of each earlier tenure of the same streams and groups; rows are written with it
    owner: str  # the name of this controller in the rows
    clock_floor: int  # no time of a stream or group is below: an earlier owner may have told every time up to it
    unserved: Unserved  # for the served time of all streams and groups under it
    restores: Sequence[tuple[int, int]] = ()  # fence and time of each restore of the store, in order
    shard: int | None = None  # None if it is for the whole store
    closing: bool = False  # it is being handed over: nothing is answered under it, and what has changed is written
    over: bool = False  # set when it ends: from then on nothing that was loaded under it is served or written

    @property
    def place(self) -> InShard:
        """What rows keep of the shard."""
        return ALONE if self.shard is None else InShard(self.shard, self.unserved.total_ms)

    def check_latest(self, kind: Kind, name: str, fence: int) -> None:
        """Raises NotOwner for what a later tenure wrote, with this fence. Its controller does not know yet that this
        one is over. A caller would be shown it with a fence that is too low, and could be shown older things later."""
        if fence > self.fence:
            reason = f"it was written with fence {fence} since this controller took it with {self.fence}"
            raise NotOwner(**{str(kind): name}, reason=reason)

    def restored_at(self, fence: int) -> int | None:
        """When the store was last restored after the tenure with this fence; None if it was not."""
        return max((moment for restored, moment in self.restores if restored > fence), default=None)

    def moment(self, now: int) -> Moment:
        """A time of the controller's clock as the streams and groups under this tenure have it."""
        now = max(now, self.clock_floor)
        return Moment(now, self.unserved.served(now))


class Tenures(Protocol):
    """What this controller serves."""

    def of(self, kind: Kind, name: str) -> Tenure:
        """The present tenure of a stream or reader group, which need not exist; raises NotOwner without one."""

    def serves(self, tenure: Tenure) -> bool:
        """Whether what was loaded under a tenure may be answered from, and changed, at this moment."""
