"""A request to one address, and what came of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, TypeAlias

from strandline.client.calls import Request
from strandline.client.retry import Outcome
from strandline.errors import AnswerTooLarge

ANSWER_BYTES: Final = 64 * 1024 * 1024  # of an answer; a client does not read more

CONNECT_MS: Final = 2_000  # how long connecting may take

_encode: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class AllInUse:
    """No connection was free in time, which says nothing about the address."""


Exchanged: TypeAlias = Outcome | AllInUse


class Exchange:
    """A request to one address, and the part of its answer's body that has been read."""

    __slots__ = ("_answer_bytes", "address", "body", "connect_s", "content", "headers", "request", "wait_s")

    def __init__(self, request: Request, address: str, headers: Headers, timeout_ms: float, answer_bytes: int) -> None:
        self.request = request
        self.address = address
        self.connect_s = min(timeout_ms, CONNECT_MS) / 1000
        self.wait_s = timeout_ms / 1000
        if request.body is None:
            self.content, self.headers = None, headers
        else:
            self.content = _encode(request.body).encode()
            self.headers = (*headers, (b"Content-Type", b"application/json"))
        self.body = bytearray()
        self._answer_bytes = answer_bytes

    @property
    def whole_s(self) -> float:
        """How long all of it may take: a free connection, connecting, and the whole answer."""
        return 2 * self.connect_s + self.wait_s

    def add(self, chunk: bytes) -> None:
        """Takes a part of the answer's body. Raises AnswerTooLarge if it is too much."""
        self.body += chunk
        if len(self.body) > self._answer_bytes:
            raise AnswerTooLarge(call=self.request.name, limit=self._answer_bytes)
