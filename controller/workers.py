"""Several processes at one port, each a controller of its own beside the others. One that dies is started again, and
all end with the first."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from threading import Thread
from typing import Final

from controller.limits import Limits
from controller.operator_log import log_event
from controller.server import Listener, end_with_0, logged, run_here
from controller.settings import Settings
from controller.terminal import Failure

RESTART_S: Final = 1.0  # before those that died are started again: where the store is away, they die at once

_SPAWN: Final = multiprocessing.get_context("spawn")


class Worker:
    """A process with a controller."""

    def __init__(self, settings: Settings, listener: Listener, limits: Limits) -> None:
        self._ready, ready = _SPAWN.Pipe(duplex=False)
        self.process: SpawnProcess = _SPAWN.Process(target=_serve, args=(settings, listener, limits, ready))
        self.process.start()
        ready.close()  # so that only the process has this end

    def wait_until_ready(self) -> bool:
        """Whether it takes calls, rather than that it has ended."""
        with self._ready, suppress(EOFError):
            self._ready.recv()
            return True
        return False


def supervise(settings: Settings, listener: Listener, on_ready: Callable[[], None], limits: Limits) -> int:
    """Serves with several processes until a signal stops it; returns the exit status."""
    signal.signal(signal.SIGTERM, end_with_0)
    try:
        workers = [Worker(settings, listener, limits) for _ in range(settings.workers)]
        for each in workers:
            if not each.wait_until_ready():
                each.process.join()
                _log_end(each)
                return 1  # so would every other start
        on_ready()
        while True:
            wait([each.process.sentinel for each in workers])
            time.sleep(RESTART_S)
            for place, each in enumerate(workers):
                if each.process.exitcode is not None:
                    _log_end(each)
                    workers[place] = Worker(settings, listener, limits)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # a second one must not end it before the others
            signal.signal(number, signal.SIG_IGN)
        until = time.monotonic() + limits.drain_s + limits.cut_grace_s
        for process in (started := multiprocessing.active_children()):
            process.terminate()
        for process in started:
            process.join(max(0.0, until - time.monotonic()))
            process.kill()  # it hangs, or was stopped
            process.join()


def _log_end(worker: Worker) -> None:
    log_event("process_ended", logging.WARNING, pid=worker.process.pid, status=worker.process.exitcode)


def _serve(settings: Settings, listener: Listener, limits: Limits, ready: Connection) -> None:
    """What a process does."""
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(KeyboardInterrupt), logged(settings.log_format):  # Ctrl-C ends it as it ends the first one
        try:
            sys.exit(run_here(settings, listener, lambda: ready.send(None), limits))
        except Failure as failure:
            sys.exit(str(failure))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
