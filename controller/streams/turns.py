"""Shares time among callers with long work: one piece at a time, and other calls are answered between pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from strandline.errors import Overloaded


class Turns:
    """One caller works at a time. After each piece it goes to the end of the queue.

    So a caller with little work waits for one piece of each other caller, not for all of their work. The amount of
    waiting work is bounded.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.waiting_bytes = 0  # the bodies of requests that are at work or waiting
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def work_on(self, size_bytes: int) -> AsyncIterator[Turn]:
        """A place in the queue for a request with a body of that size. Raises Overloaded if too much is waiting."""
        if self.waiting_bytes and self.waiting_bytes + size_bytes > self.limit_bytes:
            what = "bytes of notes in large requests are waiting"
            raise Overloaded(waiting=self.waiting_bytes, limit=self.limit_bytes, what=what)
        self.waiting_bytes += size_bytes
        turn = Turn(self._lock)
        try:
            yield turn
        finally:
            turn.end()
            self.waiting_bytes -= size_bytes


class Turn:
    """A caller's place in the queue."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._has_it = False

    async def next(self) -> None:
        """Goes to the end of the queue, and returns when it is this caller's turn again."""
        if self._has_it:
            await asyncio.sleep(0)  # calls outside of the queue run first
            self._has_it = False
            self._lock.release()
        await self._lock.acquire()
        self._has_it = True

    def end(self) -> None:
        """Leaves the queue, until the next `next`."""
        if self._has_it:
            self._has_it = False
            asyncio.get_running_loop().call_soon(self._lock.release)
