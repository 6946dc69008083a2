"""Real controllers over real sockets, each with a store of its own: who owns what is said by the test."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import uvloop

from controller.app import create_app
from controller.cluster.actions import Hold, PassOn, Refusal, Refuse, Route, Serve
from controller.cluster.records import ControllerRow, Kind
from controller.limits import HELD_CALL_MS
from controller.server import Door, Server
from controller.settings import Settings
from strandline.testing import ManualClock

START_DEADLINE_S = 30


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

    def route(self, kind: Kind, name: str, *, passed_on_to: int | None = None) -> Route:
        if not self.serving:
            return Refuse(Refusal.NOT_SERVING)
        owner = self._seen.get((kind, name), self.me)
        if owner == self.me:
            return Serve(1)
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


class RealController:
    """A controller as it is served, in a thread; it forwards what others own."""

    def __init__(
        self,
        cluster: Cluster,
        id_: int,
        database: Path,
        *,
        client_address: str | None = None,
        clock: ManualClock | None = None,
        certificate: tuple[str, str] | None = None,
        peer_tls: ssl.SSLContext | None = None,
    ) -> None:
        """With a `certificate` and its key it serves TLS; `peer_tls` is whom it trusts, and whom the test does."""
        self.id = id_
        self.database = database
        self.directory = SeenDirectory(cluster, id_)
        self.listener = socket.create_server(("127.0.0.1", 0))
        scheme = "http" if certificate is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.listener.getsockname()[1]}"
        cluster.add(id_, self.url, client_address)
        self.app = create_app(
            Settings(database=str(database)), directory=self.directory, clock=clock, peer_tls=peer_tls
        )
        config = uvicorn.Config(
            self.app,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            proxy_headers=False,
            server_header=False,
            date_header=False,
            ssl_certfile=None if certificate is None else certificate[0],
            ssl_keyfile=None if certificate is None else certificate[1],
        )
        self.server = Server(config, self.app, [Door(self.listener, certificate is not None)], lambda: None)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.client = httpx.Client(base_url=self.url, timeout=30, trust_env=False, verify=peer_tls or True)
        assert self.client.get("/readyz").is_success

    def _serve(self) -> None:
        uvloop.run(self.server.serve([self.listener]))  # the loop that `strandline serve` runs on

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.request(method, path, headers=named, **({} if body is None else {"json": body}))

    def stop(self) -> None:
        self.client.close()
        self.server.should_exit = True
        self._thread.join(START_DEADLINE_S)
        self.listener.close()


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
