"""Runs the application: a socket, uvicorn around it, and an orderly end."""

from __future__ import annotations

import gc
import ipaddress
import logging
import signal
import socket
import sys
from types import FrameType
from typing import Final

import uvicorn
from fastapi import FastAPI

from controller.app import create_app
from controller.commands.options import Failure, say
from controller.dashboard.mounting import is_installed
from controller.limits import DRAIN_DEADLINE_S, KEEP_ALIVE_S
from controller.settings import Settings
from controller.storage.database import check_store
from controller.storage.refusals import StoreRefused

GARBAGE_OBJECTS: Final = 50_000  # so many more than were freed, before the young ones are looked through


class Server(uvicorn.Server):
    """Ends the waits of readers before it waits for its connections, which would otherwise be the same wait."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._strandline = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.freeze()  # what is there by now stays: no collection needs to look at it again
        # A few dozen calls in flight have more objects than the 700 after which Python would collect; few are cycles.
        gc.set_threshold(GARBAGE_OBJECTS, 20, 100)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            say(f"strandline is ready at {_url(host, port)}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        controller = getattr(self._strandline.state, "controller", None)
        if controller is not None:
            controller.begin_stop()
        await super().shutdown(sockets)


def serve(settings: Settings) -> int:
    """Serves until a signal says to stop; raises Failure where it cannot begin."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    if not settings.insecure and not _is_loopback(settings.host):
        raise Failure(
            f"without tokens it serves this machine only, and {settings.host} is another address: "
            f"take --host 127.0.0.1, or say --insecure"
        )
    try:
        check_store(settings.database)
    except StoreRefused as refused:
        raise Failure(str(refused)) from None
    listener = _listen(settings.host, settings.port)
    app = create_app(settings, dashboard=True)
    config = uvicorn.Config(
        app,
        http="httptools",
        loop="uvloop",
        ws="websockets-sansio" if is_installed() else "none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_DEADLINE_S,
    )
    server = Server(config, app)
    signal.signal(signal.SIGTERM, _end)
    with listener:
        server.run(sockets=[listener])
    return 0 if server.started else 1


def _end(_number: int, _frame: FrameType | None) -> None:
    """After an orderly end uvicorn raises again the signal that asked for it: that is no failure."""
    raise SystemExit(0)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise Failure(f"cannot listen on {host} port {port}: {error.strerror}; take another --host or --port") from None
    return listener


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
