"""Long work of many callers, a piece at a time: between any two pieces, everybody else is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from strandline.errors import Overloaded


class Turns:
    """One caller works at a time. Who has done a piece goes to the end of the line, behind all who wait there.

    So whoever asks for little waits for one piece of each of the others, and not for all that they want. How much work
    may wait is bounded.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.waiting_bytes = 0  # of the bodies of requests that are being worked on, or wait for it
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def work_on(self, size_bytes: int) -> AsyncIterator[Turn]:
        """A place in the line for a request with a body of that size. Raises Overloaded where too much is waiting."""
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
    """A caller's place in the line."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._has_it = False

    async def next(self) -> None:
        """Lets all others have their turn, and comes back when it is this one's again."""
        if self._has_it:
            await asyncio.sleep(0)  # before anyone else of the line, whoever is in none
            self._has_it = False
            self._lock.release()
        await self._lock.acquire()
        self._has_it = True

    def end(self) -> None:
        """Leaves the line, for a wait or for good."""
        if self._has_it:
            self._has_it = False
            asyncio.get_running_loop().call_soon(self._lock.release)
