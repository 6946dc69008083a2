"""Requests as bytes, on sockets of their own: what no client would send."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.served import OwnProcess

PATIENCE_S = 60  # for an answer, or for the end of a connection


@dataclass(frozen=True)
class Answer:
    """One answer; `closed` says whether the connection ended after it."""

    status: int
    headers: dict[str, str]
    body: bytes
    closed: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """That of a problem."""
        assert self.headers["content-type"] == "application/problem+json", self
        problem = self.json
        assert problem["status"] == self.status and problem["detail"]
        return str(problem["code"])


class Raw:
    """A connection."""

    def __init__(
        self, process: OwnProcess, trusted: ssl.SSLContext | None = None, *, receives: int | None = None
    ) -> None:
        """`receives` is how many bytes the kernel keeps of what is not read."""
        url = process.client.base_url
        plain = socket.socket()
        plain.settimeout(PATIENCE_S)
        if receives is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
        plain.connect((url.host, url.port))
        self.socket = plain if trusted is None else trusted.wrap_socket(plain, server_hostname=url.host)
        self._left = b""

    def send(self, data: bytes) -> Self:
        self.socket.sendall(data)
        return self

    def send_until_refused(self, pieces: Iterable[bytes]) -> int:
        """Sends for as long as anybody takes it; returns how many bytes that were."""
        sent = 0
        with suppress(OSError):
            for piece in pieces:
                self.socket.sendall(piece)
                sent += len(piece)
        return sent

    def answer(self, method: str = "GET") -> Answer:
        """The next answer."""
        while b"\r\n\r\n" not in self._left:
            self._more()
        head, _, self._left = self._left.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = 0 if method == "HEAD" else int(headers.get("content-length", 0))
        while len(self._left) < length:
            self._more()
        body, self._left = self._left[:length], self._left[length:]
        closed = headers.get("connection") == "close" and self.is_closed()
        return Answer(int(status.split(" ")[1]), headers, body, closed)

    def is_closed(self) -> bool:
        """Waits for the end of the connection; nothing may come before it."""
        with suppress(ConnectionError):
            assert self._left == b"" and self.socket.recv(1) == b""
        return True

    def _more(self) -> None:
        got = self.socket.recv(1 << 16)
        assert got, f"the connection ended after {self._left!r}"
        self._left += got

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def ask(process: OwnProcess, data: bytes, trusted: ssl.SSLContext | None = None) -> Answer:
    """The answer to one request."""
    with Raw(process, trusted) as raw:
        return raw.send(data).answer(data.partition(b" ")[0].decode("latin-1"))


def memory_mib(process_id: int) -> int:
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))
