"""A controller as it is served, over a real socket, in a thread of the test's process."""

from __future__ import annotations

import socket
import ssl
import threading
from typing import Any

import httpx
import uvicorn
import uvloop
from fastapi import FastAPI

from controller.http.connection import Connections
from controller.limits import DEFAULT_LIMITS
from controller.server import Listener, Server

START_DEADLINE_S = 30
CONNECTIONS = 1_000


class InThread:
    """Serves an application; callers reach it at `url`."""

    def __init__(
        self,
        app: FastAPI,
        listener: socket.socket,
        certificate: tuple[str, str] | None = None,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        """With a `certificate` and its key it serves TLS, and the test trusts whom `trusted` says."""
        self.app = app
        self.listener = listener
        self.url = url_of(listener, "http" if certificate is None else "https")
        config = uvicorn.Config(
            app,
            timeout_keep_alive=DEFAULT_LIMITS.keep_alive_s,
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
        served = Listener(listener, certificate is not None)
        self.server = Server(config, app, served, lambda: None, Connections(DEFAULT_LIMITS, CONNECTIONS))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.client = httpx.Client(base_url=self.url, timeout=30, trust_env=False, verify=trusted or False)
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


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    return f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
