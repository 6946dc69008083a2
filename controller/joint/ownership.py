"""Who owns what, as the member of this controller knows it: what forwarding asks about each call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.cluster.actions import CallRoute, Hold, Refusal, Refuse, Serve
from controller.cluster.member import HELD_CALL_MS
from controller.cluster.owned_shards import OwnedShard
from controller.cluster.records import Kind
from controller.cluster.shards import shard_of
from controller.joint.driver import Driver


class Ownership:
    """Routes calls by the shards of a driver. The application is put together before there is one."""

    def __init__(self, monotonic: Callable[[], int]) -> None:
        """`monotonic` returns milliseconds, and is the driver's."""
        self.monotonic = monotonic
        self._driver: Driver | None = None

    def follow(self, driver: Driver) -> None:
        """From now on this driver says who owns what; before that every call is refused."""
        self._driver = driver

    @property
    def me(self) -> int:
        """The id of this controller, which changes when it begins anew."""
        return 0 if self._driver is None else self._driver.member.id

    @property
    def client_address(self) -> str | None:
        """Where clients may call this controller themselves."""
        return None if self._driver is None else self._driver.member.identity.client_address

    def route(
        self, kind: Kind, name: str, *, fence: int = 0, since: int = 0, passed_on_to: int | None = None
    ) -> CallRoute:
        """What to do with a call. Waits until a newly taken shard may load its streams. For a shard without an owner,
        sends a beat early, so that held calls do not wait for long."""
        if self._driver is None:
            return Refuse(Refusal.NOT_SERVING)
        now, member, tenures = self.monotonic(), self._driver.member, self._driver.tenures
        shard = shard_of(kind, name, tenures.shards)
        route = member.route(now, shard, fence=fence, since=since, passed_on_to=passed_on_to)
        if isinstance(route, Serve):
            owned = member.owned.get(shard)
            if owned is None or not tenures.has(owned):
                route = Hold(now + HELD_CALL_MS)
        elif isinstance(route, Hold):
            self.refresh()
        return route

    def tenure(self, kind: Kind, name: str) -> OwnedShard | None:
        """The shard of a stream or group as this controller owns it at this moment; None if it does not."""
        if self._driver is None:
            return None
        return self._driver.member.owned.get(shard_of(kind, name, self._driver.tenures.shards))

    def clock_floor(self, kind: Kind, name: str) -> int:
        """No time of a stream or group is below, whoever owns it, as far as this controller knows."""
        if self._driver is None:
            return 0
        return self._driver.member.clock_floor(shard_of(kind, name, self._driver.tenures.shards))

    def refresh(self) -> None:
        """Looks soon who owns what by now."""
        if self._driver is not None and self._driver.member.check_soon(self.monotonic()):
            self._driver.step()

    async def changed(self, until: int) -> bool:
        """Waits until something has happened, and returns True; or until this moment, and returns False."""
        wait_s = max(0, until - self.monotonic()) / 1000
        try:
            # Not `wait_for`, which waits in a task of its own: what happens before that task runs would be missed.
            async with asyncio.timeout(wait_s):
                await (asyncio.sleep(wait_s) if self._driver is None else self._driver.changed())
        except TimeoutError:
            return False
        return True
