"""Two controllers in this process, each with a store of its own: one has the reader groups, and most streams are the
other one's. Tests call the one with the groups; what is about the other's streams is passed on to it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.app import create_app
from controller.cluster.actions import CallRoute, PassOn, Serve
from controller.cluster.owned_shards import OwnedShard
from controller.cluster.records import ControllerRow, Kind
from tests.served import InProcess, ManualClock

OWN_STREAMS = frozenset({"t"})  # the controller with the groups has these


class _TheOthers:
    """Who owns what, of which nothing changes."""

    me = 1
    client_address = None

    def __init__(self, address: str) -> None:
        self._other = ControllerRow(2, "two", address, None, "1", 0, 0, 0, False, None)

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def route(
        self, kind: Kind, name: str, *, fence: int = 0, since: int = 0, passed_on_to: int | None = None
    ) -> CallRoute:
        return Serve(1) if kind is Kind.GROUP or name in OWN_STREAMS else PassOn(self._other)

    def tenure(self, kind: Kind, name: str) -> OwnedShard:
        return OwnedShard(0, 1, 0, 0)

    def clock_floor(self, kind: Kind, name: str) -> int:
        return 0

    def refresh(self) -> None:
        pass

    async def changed(self, until: int) -> bool:
        await asyncio.sleep(max(0, until - self.monotonic()) / 1000)
        return False


class TwoControllers(InProcess):
    """The one with the groups; `other` has most streams."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        super().__init__(folder / "one.db", clock)
        self.other = InProcess(folder / "two.db", clock)

    def _begin(self) -> None:
        self._serving.enter_context(self.other)
        directory = _TheOthers(self.other.listen())
        self.app = create_app(self._settings, clock=self.clock, owner="test", by_hand=True, directory=directory)
        lifespan = self.app.router.lifespan_context(self.app)
        self._serving.enter_context(self.portal.wrap_async_context_manager(lifespan))

    def pass_time(self, milliseconds: int) -> None:
        super().pass_time(milliseconds)
        self.other.pass_time(0)

    def told(self, topic: str | None = None, *, path: str = "/v1/streams/s") -> list[dict[str, Any]]:
        self.other.pass_time(0)
        return super().told(topic, path=path)


@dataclass(frozen=True, slots=True)
class TwoStores:
    """The stores of two controllers, in place of one store."""

    folder: Path

    def serve(self, clock: ManualClock) -> TwoControllers:
        return TwoControllers(self.folder, clock)
