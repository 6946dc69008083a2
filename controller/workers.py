"""Several processes at one port, under uvicorn's supervisor: it starts one again that died or hangs, and ends them all
with itself. Each is a controller of its own beside the others."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable
from typing import Final

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import multiprocess

from controller.limits import Limits
from controller.operators.log_lines import log_lines
from controller.server import Listener, Server, new_server
from controller.settings import START_DEADLINE_S, Settings

HUNG_S: Final = 30  # a process that does not answer its supervisor for so long is killed


class WorkerConfig(uvicorn.Config):
    """What a process needs to make a server of its own. It goes to the process as it is."""

    def __init__(self, settings: Settings, limits: Limits, workers: int) -> None:
        super().__init__(
            "controller.app:create_app",
            factory=True,
            workers=workers,
            log_config=None,
            log_level="warning",
            timeout_worker_healthcheck=HUNG_S,
        )
        self.settings = settings
        self.limits = limits


class Worker(multiprocess.Process):
    """A process with a controller."""

    config: WorkerConfig

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets is not None
        settings = self.config.settings
        with log_lines(settings.log_format):
            listener = Listener(sockets[0], settings.ssl_certfile is not None)
            self._server = new_server(settings, listener, lambda: None, self.config.limits)
            super().target(sockets)
            if not self._server.started:
                sys.exit(STARTUP_FAILURE)

    @property
    def server(self) -> Server:
        assert isinstance(self._server, Server)
        return self._server


multiprocess.Process = Worker  # type: ignore[misc]  # of which the supervisor makes its processes


class Workers(multiprocess.Multiprocess):
    """The supervisor, which says when all processes take calls."""

    def __init__(self, config: WorkerConfig, sockets: list[socket.socket], on_ready: Callable[[], None]) -> None:
        super().__init__(config, sockets)
        self._on_ready = on_ready
        self.started = False

    def init_processes(self) -> None:
        super().init_processes()
        if all(each.wait_until_ready(START_DEADLINE_S, self.should_exit) for each in self.processes):
            self.started = True
            self._on_ready()
        else:
            self.should_exit.set()


def supervise(settings: Settings, listener: Listener, on_ready: Callable[[], None], limits: Limits) -> int:
    """Serves with several processes until a signal stops it; returns the exit status."""
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    workers = Workers(WorkerConfig(settings, limits, settings.workers), [listener.socket], on_ready)
    workers.run()
    return 0 if workers.started else 1
