"""Threads of the store, each with a session of its own, and bounds on how long callers wait for them.

The drivers are synchronous: one thread writes on either store, and an asynchronous driver would be a second way.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final, TypeVar

from controller.storage.diagnosis import StoreSilent
from controller.storage.session import StoreSession

THREAD_NAMES: Final = "store-"  # how the names of these threads begin
THREAD_END_S: Final = 0.5  # for a thread whose call has ended

Result = TypeVar("Result")


def exit_past_hanging_calls(status: int) -> None:
    """Ends the process if a call of the store still hangs: else the interpreter would wait for its end."""
    until = time.monotonic() + THREAD_END_S
    threads = [each for each in threading.enumerate() if each.name.startswith(THREAD_NAMES)]
    for each in threads:
        each.join(max(0.0, until - time.monotonic()))
    if any(each.is_alive() for each in threads):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class CommitOrder:
    """Whether COMMIT may still be sent. Decided once, by the writing thread or by the caller that waits for it."""

    def __init__(self, seconds: float) -> None:
        """`seconds` are those for which the caller waits."""
        self._seconds = seconds
        self._lock = threading.Lock()
        self._given = False
        self._withdrawn = False

    def check(self) -> None:
        """Raises StoreSilent if the caller has withdrawn."""
        if self._withdrawn:
            raise StoreSilent(seconds=self._seconds)

    def give(self) -> None:
        """Called before COMMIT is sent; raises StoreSilent if the caller has withdrawn."""
        with self._lock:
            self.check()
            self._given = True

    def withdraw(self) -> bool:
        """Forbids the COMMIT; False if it may have been sent already."""
        with self._lock:
            self._withdrawn = not self._given
            return self._withdrawn


class StoreThread:
    """One session of the store and the thread that uses it."""

    def __init__(self, name: str, session: StoreSession | None, cut_grace_s: float) -> None:
        """A call may take `cut_grace_s` to end after its session was ended. None is for SQLite, whose calls cannot be
        interrupted."""
        self._session = session
        self._cut_grace_s = cut_grace_s
        self._executor = ThreadPoolExecutor(1, THREAD_NAMES + name)
        self._hangs: Future[Any] | None = None  # a call that did not end with its session
        self._hangs_since = 0.0
        self._late: set[asyncio.Task[None]] = set()  # they wait for calls whose callers have left

    async def call(self, seconds: float, function: Callable[[], Result]) -> Result:
        """The function's result or error; StoreSilent if it does not end within `seconds`, and at once while
        an earlier call hangs."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self._hangs is not None:
            self.check(began)
        call = self.submit(function)
        answer = asyncio.wrap_future(call)
        try:
            await asyncio.wait([answer], timeout=seconds)
        except asyncio.CancelledError:
            late = loop.create_task(self._wait_on(call, answer, began, seconds))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
            raise
        if answer.done():
            return answer.result()
        await self._end(call, answer, began)
        raise StoreSilent(seconds=seconds)

    def check(self, now: float) -> None:
        """Raises StoreSilent while an earlier call hangs."""
        if self._hangs is not None and not self._hangs.done():
            raise StoreSilent(seconds=round(now - self._hangs_since))

    def submit(self, function: Callable[[], Result]) -> Future[Result]:
        """Queues a call, without waiting for it."""
        session = self._session
        if session is None:
            return self._executor.submit(function)

        def within_session() -> Result:
            session.begin()
            return function()

        return self._executor.submit(within_session)

    def close(self, seconds: float) -> bool:
        """Waits for the calls under way; ends their session after half of the time. Returns whether they ended."""
        last = self._executor.submit(int)
        self._executor.shutdown(wait=False)
        if not wait([last], seconds / 2).done and self._session is not None:
            self._session.cut()
        return bool(wait([last], seconds / 2).done)

    async def _wait_on(self, call: Future[Any], answer: asyncio.Future[Any], began: float, seconds: float) -> None:
        """The deadline holds even if the caller has left."""
        left = max(0.0, began + seconds - asyncio.get_running_loop().time())
        await asyncio.wait([answer], timeout=left)
        await self._end(call, answer, began)

    async def _end(self, call: Future[Any], answer: asyncio.Future[Any], began: float) -> None:
        """Ends a call: it is not made any more, or its session is ended. If it does not end with that, it hangs."""
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # marks it as retrieved
        if call.cancel() or call.done():
            return
        try:
            if self._session is not None:
                self._session.cut()
                await asyncio.wait([answer], timeout=self._cut_grace_s)
        finally:
            if not call.done():
                self._hangs, self._hangs_since = call, began
