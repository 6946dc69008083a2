"""HTTP/1.1 by hand, so that it is known what became of a call: not sent, unknown, or answered."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from tests.chaos.history import Answered, Call, NotSent, Outcome, Record, Unknown
from tests.chaos.limits import ANSWER_S, AVOIDED_S, CONNECT_S, SEVERAL_ANSWER_S

READ_BOUND = 1 << 26
VERSION, SEEN = "strandline-version", "strandline-seen"


def answered(status: int, headers: Mapping[str, str], body: bytes) -> Answered:
    """An answer as it is recorded; a body that is no JSON stays text."""
    clock = headers.get("strandline-time")
    try:
        found = json.loads(body) if body else None
    except ValueError:
        found = {"code": "no_json", "text": body[:500].decode(errors="replace")}
    return Answered(status, int(clock) if clock else None, found, retry_after="retry-after" in headers)


class RawClient:
    """A connection to a controller, made again when it was lost. One call at a time. Of several controllers each call
    goes to any of them, but rather not to one that did not answer a moment ago."""

    def __init__(
        self,
        name: str,
        ports: Sequence[int],
        record: Callable[[Record], None],
        chance: random.Random | None = None,
    ) -> None:
        """`chance` is needed where there are several ports."""
        self.name = name
        self._ports = ports
        self._record = record
        self._chance = chance
        self._open: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}  # by port
        self._avoided: dict[int, float] = {}  # by port, until when
        self._seen: dict[str, str] = {}  # by path of a stream, the newest version that was shown, with its identity

    def close(self) -> None:
        for port in list(self._open):
            self._close(port)

    def _close(self, port: int) -> None:
        if port in self._open:
            self._open.pop(port)[1].close()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        *,
        answer_s: float | None = None,
    ) -> Call:
        """Makes one call, and records it; returns the record."""
        began = time.monotonic()
        if answer_s is None:
            answer_s = ANSWER_S if len(self._ports) == 1 else SEVERAL_ANSWER_S
        asked = dict(query) if query is not None else {}
        wait_ms = int(asked.get("wait_ms", 0))
        try:
            outcome = await self._send(method, path, asked, body, answer_s + wait_ms / 1000)
        except asyncio.CancelledError:
            self.close()
            call = Call(self.name, began, time.monotonic(), method, path, asked, body, Unknown("cancelled"))
            self._record(call)
            raise
        call = Call(self.name, began, time.monotonic(), method, path, asked, body, outcome)
        self._record(call)
        return call

    async def _send(self, method: str, path: str, query: Mapping[str, str], body: Any, answer_s: float) -> Outcome:
        port = self._port()
        if port not in self._open:
            try:
                opening = asyncio.open_connection("127.0.0.1", port, limit=READ_BOUND)
                self._open[port] = await asyncio.wait_for(opening, CONNECT_S)
            except (OSError, TimeoutError):
                self._avoid(port)
                return NotSent()
        data = b"" if body is None else json.dumps(body).encode()
        target = f"{path}?{urlencode(query)}" if query else path
        about = "/".join(path.split("/")[:4])
        seen = f"{SEEN}: {self._seen[about]}\r\n" if about in self._seen else ""
        head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n{seen}\r\n"
        reader, writer = self._open[port]
        try:
            writer.write(head.encode() + data)
            return await asyncio.wait_for(self._read(port, reader, about), answer_s)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, ValueError) as error:
            self._close(port)
            self._avoid(port)
            return Unknown(type(error).__name__)

    def _port(self) -> int:
        if self._chance is None:
            return self._ports[0]
        now = time.monotonic()
        good = [port for port in self._ports if self._avoided.get(port, 0.0) <= now]
        return self._chance.choice(good) if good else min(self._ports, key=self._avoided.__getitem__)

    def _avoid(self, port: int) -> None:
        self._avoided[port] = time.monotonic() + AVOIDED_S

    async def _read(self, port: int, reader: asyncio.StreamReader, about: str) -> Answered:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        version = headers.get(VERSION)
        if version is not None:
            self._seen[about] = max(version, self._seen.get(about, version), key=lambda each: int(each.split("-")[1]))
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection", "").lower() == "close":
            self._close(port)
        return answered(status, headers, body)
