"""Threads that call a database, and may be left alone with a call that does not end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, TypeVar

from controller.storage.diagnosis import StoreSilent

Result = TypeVar("Result")


class Worker:
    """One thread that makes calls in their order.

    Unlike a thread of an executor it does not keep the process alive: a call that hangs ends with the process.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], Result]) -> Future[Result]:
        """The call's result, or its error, in time. Cancelled before its turn has come, it is not made."""
        future: Future[Result] = Future()
        self._calls.put((future, call))
        return future

    def stop(self) -> None:
        """It ends after the calls that it was given."""
        self._calls.put(None)

    def join(self, seconds: float) -> bool:
        """Waits for its end; returns whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (given := self._calls.get()) is not None:
            future, call = given
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            del future, call, given  # what they hold is not kept until the next call


def in_thread(name: str, call: Callable[[], Result]) -> Future[Result]:
    """Makes one call in a thread of its own."""
    worker = Worker(name)
    made = worker.submit(call)
    worker.stop()
    return made


def within(seconds: float, call: Callable[[], Result]) -> Result:
    """The same for commands, which wait for it; raises StoreSilent where it takes longer."""
    made = in_thread("store", call)
    if not wait([made], seconds).done:
        raise StoreSilent(seconds)
    return made.result()
