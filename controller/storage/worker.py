"""Threads that call a database, and can be abandoned with a call that hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import TypeVar

from controller.storage.diagnosis import StoreSilent

Result = TypeVar("Result")


class Worker:
    """One thread that makes calls in order.

    Unlike a thread of an executor it does not keep the process alive: a call that hangs ends with the process.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, call: Callable[[], object]) -> None:
        """Queues a call, which must not raise."""
        self._calls.put(call)

    def submit(self, call: Callable[[], Result]) -> Future[Result]:
        """Queues a call; the future gets its result or its error. A call cancelled before it starts is not made."""
        future: Future[Result] = Future()

        def make() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.put(make)
        return future

    def stop(self) -> None:
        """Ends the thread after the queued calls."""
        self._calls.put(None)

    def join(self, seconds: float) -> bool:
        """Waits for the thread to end; returns whether it did."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # else the thread would hold it until the next call


def in_thread(name: str, call: Callable[[], Result]) -> Future[Result]:
    """Makes one call in a thread of its own."""
    worker = Worker(name)
    made = worker.submit(call)
    worker.stop()
    return made


def within(seconds: float, call: Callable[[], Result]) -> Result:
    """Makes one call and waits for it, for commands; raises StoreSilent if it takes longer."""
    made = in_thread("store", call)
    if not wait([made], seconds).done:
        raise StoreSilent(seconds=seconds)
    return made.result()
