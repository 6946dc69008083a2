"""A way to a server that harms connections: it cuts them, loses answers, holds data back, closes one half.

It never makes up what TCP could not do: no byte is changed, repeated or put out of order, and what a client sent before
it was gone may arrive or not.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from tests.chaos.limits import CHUNK_BYTES, CONNECT_S


@dataclass(frozen=True, slots=True)
class Harm:
    """How likely each harm is to a piece of data that passes, and how long `delay` is at most."""

    cut: float = 0.0  # before the request is passed on
    lose_answer: float = 0.0  # the request is passed on, and then the client is cut off
    truncate: float = 0.0  # a part of the answer is passed on, and then the client is cut off
    half_close: float = 0.0  # the client is told that no more will come, while the request is carried out
    delay: float = 0.0
    delay_s: float = 0.0


BEGIN = b"BEGIN ISOLATION LEVEL READ COMMITTED\0"  # the first thing that a session of PostgreSQL sends which writes
NEVER = 1_000_000
CALM = Harm()
HARMFUL = Harm(cut=0.02, lose_answer=0.03, truncate=0.02, half_close=0.01, delay=0.06, delay_s=0.3)


class Proxy:
    """Listens on a port of its own until it is closed. `harm` may be changed at any time.

    The way may be cut, in one of two manners: connections are reset and refused, or data is held, in one direction or
    both, as where packets are lost; what was held arrives when the way is open again.
    """

    def __init__(self, to: int, seed: int, harm: Harm = CALM) -> None:
        self.harm = harm
        self.port = 0
        self.counts: Counter[str] = Counter()
        self.to = to  # the server's port; another one holds for connections made from then on
        self._writing: asyncio.Future[None] | None = None
        self._further = 0
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._resets = False
        self._forth_open, self._back_open = asyncio.Event(), asyncio.Event()
        self.open()

    def open(self) -> None:
        """Takes a cut back."""
        self._resets = False
        self._forth_open.set()
        self._back_open.set()

    def reset(self) -> None:
        """Ends all connections, and refuses others."""
        self._resets = True
        self.reset_all()

    def hold(self, *, forth: bool = True, back: bool = True) -> None:
        """Lets nothing through, to the server or back from it."""
        if forth:
            self._forth_open.clear()
        if back:
            self._back_open.clear()

    def reset_all(self) -> None:
        """Ends all connections; others are taken."""
        for task in list(self._tasks):
            task.cancel()

    async def writing(self, further: int) -> None:
        """Returns as soon as a transaction that writes has begun on this way to PostgreSQL, and so many further
        statements of it were sent: the first one locks."""
        self._further, self._writing = further, asyncio.get_running_loop().create_future()
        await self._writing

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _happens(self, name: str, chance: float) -> bool:
        if self._random.random() >= chance:
            return False
        self.counts[name] += 1
        return True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._resets:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, TimeoutError, asyncio.CancelledError):
                opening = asyncio.open_connection("127.0.0.1", self.to)
                onward = await asyncio.wait_for(opening, CONNECT_S)
                await self._pass(reader, writer, *onward)
        finally:
            self._tasks.discard(task)
            if self._resets:
                writer.transport.abort()
            writer.close()

    async def _pass(
        self,
        from_client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        from_server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        ways = [
            asyncio.create_task(self._forth(from_client, to_server, to_client)),
            asyncio.create_task(self._back(from_server, to_client)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            if self._resets:
                to_server.transport.abort()
            to_server.close()

    async def _forth(
        self, reader: asyncio.StreamReader, to_server: asyncio.StreamWriter, to_client: asyncio.StreamWriter
    ) -> None:
        sent = NEVER  # since a transaction began
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                harm = self.harm
                if self._happens("cut", harm.cut):
                    return
                if self._happens("delayed request", harm.delay):
                    await asyncio.sleep(self._random.random() * harm.delay_s)
                await self._forth_open.wait()
                to_server.write(data)
                await to_server.drain()
                sent = 0 if BEGIN in data else sent + 1
                if self._writing is not None and sent == self._further and not self._writing.done():
                    self._writing.set_result(None)
                if self._happens("lost answer", harm.lose_answer):
                    to_client.transport.abort()
                    return
                if self._happens("half closed", harm.half_close) and to_client.can_write_eof():
                    to_client.write_eof()

    async def _back(self, reader: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                harm = self.harm
                if self._happens("delayed answer", harm.delay):
                    await asyncio.sleep(self._random.random() * harm.delay_s)
                if self._happens("truncated answer", harm.truncate):
                    to_client.write(data[: self._random.randrange(len(data))])
                    await to_client.drain()
                    return
                await self._back_open.wait()
                to_client.write(data)
                await to_client.drain()
