"""Real controllers over real sockets, each with a store of its own: who owns what is said by the test."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from controller.app import create_app
from controller.cluster.actions import CallRoute, Hold, PassOn, Refusal, Refuse, Serve
from controller.cluster.member import HELD_CALL_MS
from controller.cluster.owned_shards import OwnedShard
from controller.cluster.records import ControllerRow, Kind
from controller.limits import DEFAULT_LIMITS, Limits
from controller.settings import Settings
from strandline.testing import ManualClock
from tests.in_thread import InThread, url_of

LOOK_S = 0.01


class Cluster:
    """What is true, and what each controller has seen of it."""

    def __init__(self) -> None:
        self.rows: dict[int, ControllerRow] = {}
        self.owners: dict[tuple[Kind, str], int | None] = {}
        self.directories: list[SeenDirectory] = []

    def add(self, id_: int, address: str, client_address: str | None = None) -> None:
        self.rows[id_] = ControllerRow(id_, f"c{id_}", address, client_address, "1", 0, 0, 0, False, None)

    def give(self, name: str, owner: int | None, *, kind: Kind = Kind.STREAM, seen_by: set[int] | None = None) -> None:
        """Makes a controller the owner. Those in `seen_by` know it at once, None: all; the others when they look."""
        self.owners[kind, name] = owner
        for directory in self.directories:
            if seen_by is None or directory.me in seen_by:
                directory.see()


class SeenDirectory:
    """What one controller knows. It looks when it is asked to, and then knows what is true."""

    def __init__(self, cluster: Cluster, me: int) -> None:
        self.me = me
        self.looked = 0
        self.looks_help = True
        self.serving = True
        self.floor = 0  # of everything that this controller owns
        self.fence = 1  # of everything that this controller owns
        self.in_doubt = False  # whether the store has to be asked first where a caller saw a greater fence
        self.looks_when_held = False
        self._cluster = cluster
        self._seen = dict(cluster.owners)
        self._news: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        cluster.directories.append(self)

    def see(self) -> None:
        self._seen = dict(self._cluster.owners)
        if self._news is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._news.set)

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000_000

    @property
    def client_address(self) -> str | None:
        return self._cluster.rows[self.me].client_address

    def tenure(self, kind: Kind, name: str) -> OwnedShard | None:
        mine = self._seen.get((kind, name), self.me) == self.me
        return OwnedShard(0, self.fence, self.floor, 0) if mine else None

    def clock_floor(self, kind: Kind, name: str) -> int:
        owner = self._seen.get((kind, name), self.me)
        return next((each.floor for each in self._cluster.directories if each.me == owner), 0)

    def route(
        self, kind: Kind, name: str, *, fence: int = 0, since: int = 0, passed_on_to: int | None = None
    ) -> CallRoute:
        if not self.serving:
            return Refuse(Refusal.NOT_SERVING)
        owner = self._seen.get((kind, name), self.me)
        if owner == self.me:
            if not self.in_doubt or fence <= self.fence:
                return Serve(self.fence)
            if self.looks_when_held:
                asyncio.get_running_loop().call_later(LOOK_S, self.see)
            return Hold(self.monotonic() + HELD_CALL_MS)
        if passed_on_to is not None:
            return Refuse(Refusal.NOT_OWNER)
        return Hold(self.monotonic() + HELD_CALL_MS) if owner is None else PassOn(self._cluster.rows[owner])

    def refresh(self) -> None:
        self.looked += 1
        if self.looks_help:
            self.see()

    async def changed(self, until: int) -> bool:
        self._news, self._loop = asyncio.Event(), asyncio.get_running_loop()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), max(0, until - self.monotonic()) / 1000)
            return True
        return False


class RealController(InThread):
    """A controller that forwards what others own."""

    def __init__(
        self,
        cluster: Cluster,
        id_: int,
        database: Path,
        *,
        client_address: str | None = None,
        for_clients: bool = False,
        clock: ManualClock | None = None,
        alone: bool = False,
        certificate: tuple[str, str] | None = None,
        peer_tls: ssl.SSLContext | None = None,
        dashboard: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """With a `certificate` and its key it serves TLS; `peer_tls` is whom it trusts, and whom the test does. `alone`
        means that there are no others. Clients may call it at its address if it is there `for_clients`."""
        self.id = id_
        self.database = database
        self.directory = SeenDirectory(cluster, id_)
        listener = socket.create_server(("127.0.0.1", 0))
        address = url_of(listener, "http" if certificate is None else "https")
        cluster.add(id_, address, address if for_clients else client_address)
        directory = None if alone else self.directory
        app = create_app(
            Settings(database=str(database)),
            directory=directory,
            clock=clock,
            peer_tls=peer_tls,
            dashboard=dashboard,
            limits=limits,
        )
        super().__init__(app, listener, certificate, peer_tls)


Make = Callable[..., RealController]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def make(cluster: Cluster, tmp_path: Path) -> Iterator[Make]:
    """Starts a controller with this id."""
    made: list[RealController] = []

    def start(id_: int, **more: Any) -> RealController:
        made.append(RealController(cluster, id_, tmp_path / f"store-{id_}.db", **more))
        return made[-1]

    yield start
    for each in made:
        each.stop()


@pytest.fixture
def two(cluster: Cluster, make: Make) -> tuple[RealController, RealController]:
    """Two controllers, of which the second owns the stream `s`, which is there."""
    first, second = make(1), make(2)
    cluster.give("s", 2)
    assert second.ask("PUT", "/v1/streams/s", STREAM).status_code == 201
    return first, second


STREAM = {"segments": 1, "max_ahead_ms": None, "mark_interval_ms": 0}


def note(time_: int, writer: str = "w", **more: Any) -> dict[str, Any]:
    return {"writer": writer, "time": time_, "position": {"0": time_}, **more}
