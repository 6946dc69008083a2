"""Who owns what, as forwarding needs to know it."""

from __future__ import annotations

from typing import Protocol

from controller.cluster.actions import CallRoute
from controller.cluster.owned_shards import OwnedShard
from controller.cluster.records import Kind


class Directory(Protocol):
    """What this controller knows about the owners of streams and reader groups.

    `controller.cluster.member.Member` decides; an implementation adds the shard of the name and the clock.
    """

    @property
    def me(self) -> int:
        """The id of this controller, which changes when it begins anew."""
        ...

    def monotonic(self) -> int:
        """Milliseconds of the clock that the moments of a `Hold` are on."""
        ...

    @property
    def client_address(self) -> str | None:
        """Where clients may call this controller themselves."""
        ...

    def route(
        self, kind: Kind, name: str, *, fence: int = 0, since: int = 0, passed_on_to: int | None = None
    ) -> CallRoute:
        """What to do with a call about this stream or group, see `Member.route`."""
        ...

    def tenure(self, kind: Kind, name: str) -> OwnedShard | None:
        """The shard of this stream or group as this controller owns it at this moment; None if it does not."""
        ...

    def clock_floor(self, kind: Kind, name: str) -> int:
        """No time of this stream or group is below, whoever owns it, as far as this controller knows."""
        ...

    def refresh(self) -> None:
        """Looks soon who owns what by now: a controller that was called is not the owner, or was not reached."""
        ...

    async def changed(self, until: int) -> bool:
        """Waits until `route` may answer something else, and returns True; or until this moment, and returns False."""
        ...
