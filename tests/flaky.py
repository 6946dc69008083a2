"""A proxy that harms what goes through it: connections that are cut, answers that are lost, requests that come twice.

By a seed, and so many times; then it harms nothing any more, so whoever goes on trying comes through.
"""

from __future__ import annotations

import random
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

CHUNK_BYTES = 65_536
WAIT_S = 10.0  # nobody waits for longer than that
# What becomes of a request on its way there, and of an answer on its way back; the rest of the time nothing.
THERE = (("cut", 0.06), ("lost", 0.08), ("twice", 0.08))
BACK = (("cut short", 0.05),)


class FlakyProxy:
    """Listens on the loopback interface and hands on to `url`."""

    def __init__(self, url: str, seed: int, harms: int) -> None:
        """`harms` is how many there are in all."""
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self._to = (parts.hostname, parts.port)
        self._random = random.Random(seed)
        self._left = harms
        self.loses_all = False  # every answer, for as long as a test likes
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self.done: Counter[str] = Counter()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _fate(self, fates: tuple[tuple[str, float], ...]) -> str | None:
        with self._lock:
            if self.loses_all:
                return "lost"
            if not self._left:
                return None
            drawn = self._random.random()
            for fate, share in fates:
                if drawn < share:
                    self._left -= 1
                    self.done[fate] += 1
                    return fate
                drawn -= share
            return None

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with suppress(OSError):
                server = socket.create_connection(self._to, WAIT_S)
                server.settimeout(None)
                for way in (self._there, self._back):
                    threading.Thread(target=_until_cut, args=(way, client, server), daemon=True).start()
                continue
            client.close()

    def _there(self, client: socket.socket, server: socket.socket) -> None:
        for request in _requests(client):
            fate = self._fate(THERE)
            if fate == "cut":
                server.sendall(request[: len(request) // 2])
                return
            if fate == "twice":
                self._send_beside(request)
            server.sendall(request)
            if fate == "lost":
                return

    def _back(self, client: socket.socket, server: socket.socket) -> None:
        while chunk := server.recv(CHUNK_BYTES):
            if self._fate(BACK) is not None:
                client.sendall(chunk[: len(chunk) // 2])
                return
            client.sendall(chunk)

    def _send_beside(self, request: bytes) -> None:
        """Sends a copy over another connection, and waits for its answer."""
        with suppress(OSError), socket.create_connection(self._to, WAIT_S) as beside:
            beside.sendall(request)
            beside.recv(CHUNK_BYTES)


def _requests(client: socket.socket) -> Iterator[bytes]:
    """The requests of a connection, each as a whole."""
    held = b""
    while chunk := client.recv(CHUNK_BYTES):
        held += chunk
        while (size := _size(held)) is not None and len(held) >= size:
            yield held[:size]
            held = held[size:]


def _size(held: bytes) -> int | None:
    """How long the first request is; null where its head is not all there."""
    head, found, _ = held.partition(b"\r\n\r\n")
    if not found:
        return None
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return len(head) + 4 + (int(lengths[0].partition(b":")[2]) if lengths else 0)


def _until_cut(
    way: Callable[[socket.socket, socket.socket], None], client: socket.socket, server: socket.socket
) -> None:
    with suppress(OSError):
        way(client, server)
    for each in (client, server):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
