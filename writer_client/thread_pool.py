"""A few threads for work that may wait for the controller or for a log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

Work = Callable[[], None]


class ThreadPool:
    """Threads that run work in order of arrival, at most `size` at a time.

    Unlike an executor's threads they are daemons: they do not keep the process from ending, and run until it has ended.
    One thread submits work, which must not raise.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []

    def do(self, work: Work) -> None:
        """Runs work soon, or in this thread if no thread can start because the interpreter ends."""
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._size:
            thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                if not self._threads:
                    work()
                    return
            else:
                self._threads.append(thread)
        self._work.put(work)

    def close(self, *, wait: bool) -> None:
        """Ends the threads when their work is done; with `wait`, waits for that, unless this is one of them."""
        for _ in self._threads:
            self._work.put(None)
        if wait and threading.current_thread() not in self._threads:
            for thread in self._threads:
                thread.join()

    def _run(self) -> None:
        while True:
            try:
                work = self._work.get_nowait()
            except Empty:
                self._idle.release()
                work = self._work.get()
            if work is None:
                return
            work()
