"""Threads of the store, each with a session of its own, and bounds on how long callers wait for them.

The drivers are synchronous: one thread writes on either store, and an asynchronous driver would be a second way.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from controller.storage.diagnosis import StoreSilent
from controller.storage.session import StoreSession
from controller.storage.worker import Worker

Result = TypeVar("Result")


class CommitOrder:
    """Whether COMMIT may still be sent. Decided once, by the writing thread or by the caller that waits for it."""

    def __init__(self, seconds: float) -> None:
        """`seconds` are those for which the caller waits."""
        self._seconds = seconds
        self._lock = threading.Lock()
        self._given = False
        self._withdrawn = False

    def give(self) -> None:
        """Called before COMMIT is sent; raises StoreSilent if the caller has withdrawn."""
        with self._lock:
            if self._withdrawn:
                raise StoreSilent(seconds=self._seconds)
            self._given = True

    def withdraw(self) -> bool:
        """Forbids the COMMIT; False if it may have been sent already."""
        with self._lock:
            self._withdrawn = not self._given
            return self._withdrawn


class Lane:
    """One session of the store and the thread that uses it."""

    def __init__(self, name: str, session: StoreSession, cut_grace_s: float) -> None:
        """A call may take `cut_grace_s` to end after its session was ended."""
        self.session = session
        self.cut_grace_s = cut_grace_s
        self.worker = Worker(name)
        self.left: _Call[Any] | None = None  # an abandoned call: it did not end with its session

    def call(self, seconds: float | None, function: Callable[[], Result]) -> asyncio.Future[Result]:
        """The function's result or error; StoreSilent if it does not end within `seconds` (None: no limit)."""
        return _Call(self, seconds, function).answer

    def call_last(self, function: Callable[[], object]) -> None:
        """Queues a call without waiting for it."""
        self.worker.submit(function)

    def close(self, seconds: float) -> bool:
        """Waits for the calls under way; ends their session after half of the time. Returns whether they ended."""
        self.worker.stop()
        if self.worker.join(seconds / 2):
            return True
        self.session.cut()
        return self.worker.join(seconds / 2)


class _Call(Generic[Result]):
    """A call under way. Its deadline holds even if its caller no longer waits."""

    def __init__(self, lane: Lane, seconds: float | None, function: Callable[[], Result]) -> None:
        self._loop = asyncio.get_running_loop()
        self._lane = lane
        self._seconds = seconds if seconds is not None else 0
        self._function = function
        self._began = self._loop.time()
        self._begun = threading.Lock()  # acquired by the thread that makes the call, or by whoever cancels it before
        self._overdue = False
        self._error: BaseException | None = None
        self.ended = False
        self.answer: asyncio.Future[Result] = self._loop.create_future()
        if lane.left is not None and not lane.left.ended:
            self._refuse(StoreSilent(seconds=round(self._loop.time() - lane.left._began)))
            return
        self._timer = None if seconds is None else self._loop.call_later(seconds, self._cut)
        lane.worker.put(self._make)

    def _make(self) -> None:
        """Makes the call, in the lane's thread."""
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._lane.session.begin()
            self._result = self._function()
        except BaseException as error:
            self._error = error
        self.ended = True
        with suppress(RuntimeError):  # the loop has ended, so nobody waits
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.answer.done():
            return
        if self._error is None:
            self.answer.set_result(self._result)
        elif self._overdue:
            self._refuse(StoreSilent(seconds=self._seconds), self._error)
        else:
            self._refuse(self._error)

    def _cut(self) -> None:
        if self.ended:
            return  # `_end` comes next, and the session is that of another call
        self._overdue = True
        if self._begun.acquire(blocking=False):  # it waits behind another call, and is not made
            self.ended = True
            self._refuse_unless_done()
        else:
            self._timer = self._loop.call_later(self._lane.cut_grace_s, self._abandon)
            self._lane.session.cut()

    def _abandon(self) -> None:
        self._lane.left = self
        self._refuse_unless_done()

    def _refuse_unless_done(self) -> None:
        if not self.answer.done():
            self._refuse(StoreSilent(seconds=self._seconds))

    def _refuse(self, error: BaseException, origin: BaseException | None = None) -> None:
        error.__cause__ = origin if origin is not None else error.__cause__
        self.answer.set_exception(error)
        self.answer.exception()  # marks it as retrieved, even if nobody waits
