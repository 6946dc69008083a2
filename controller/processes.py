"""`strandline serve --processes N`: a parent of N controllers on one machine.

    callers ──────────────► port P      one socket of the parent, from which every process accepts
    other controllers ────► port P + i  the own socket of process i, at its `--address`

The parent checks the settings, makes the shared socket, and forks. It has no threads and serves nobody. It starts
processes again that fail, and passes on what tells it to end. A process ends in order when its parent is gone.

All processes accept from one socket, and not each from its own (`SO_REUSEPORT`): connections that wait at a process
that ends would be reset, and one that is stopped would go on to get its part of them.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Final
from urllib.parse import urlsplit

from controller.records.log_lines import direct_log_lines, log_lines
from controller.records.operator_log import log_event
from controller.restarts import Restarts
from controller.server import Listener, check, listen, prepare_store, run, wrong
from controller.settings import Settings
from controller.terminal import Failure, say
from strandline.redaction import redact

LOOPBACK: Final = "127.0.0.1"
FAILED_STATUS: Final = 1
_ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT})


def serve(settings: Settings) -> int:
    """Serves with several processes until a signal stops them; raises Failure if they cannot begin."""
    settings = with_name(settings)
    with direct_log_lines(settings.log_format):
        check_ports(settings)
        check(settings)
        shared = Listener(listen(settings.host, settings.port), settings.ssl_certfile is not None)
        with shared.socket:
            prepare_store(settings)
            with _Parent(settings, shared) as parent:
                return parent.run()


# -- what each process is ----------------------------------------------------------------------------------------------


def with_name(settings: Settings) -> Settings:
    """The settings with the host's name, if they have none."""
    return settings if settings.name is not None else replace(settings, name=socket.gethostname())


def check_ports(settings: Settings) -> None:
    """Raises Failure for ports and addresses that the processes cannot have."""
    last = settings.port + settings.processes
    if settings.port and last > 65_535:
        raise wrong(f"--processes: each needs a port of its own after --port, and {last} is above 65535")
    addresses = {
        option: urlsplit(given)
        for option, given in (("--address", settings.address), ("--client-address", settings.client_address))
        if given is not None
    }
    schemes = {each.scheme for each in addresses.values()}
    if len(schemes) > 1:
        raise wrong("--address and --client-address are two names of one port of each process: both http, or https")
    if "https" in schemes and settings.ssl_certfile is None:
        raise wrong("an address with https needs --ssl-certfile: each process serves TLS at its own port")


def of_process(settings: Settings, number: int, own_port: int) -> Settings:
    """The settings of one of the processes, which listens at this port of its own."""
    address = settings.address if settings.address is not None else f"http://{LOOPBACK}"
    client_address = settings.client_address
    return replace(
        settings,
        name=f"{settings.name}-{number}",
        port=own_port,
        address=_counted_up(address, number, own_port),
        client_address=None if client_address is None else _counted_up(client_address, number, own_port),
    )


def _counted_up(url: str, number: int, own_port: int) -> str:
    """The address of one process: the port in it counts from the shared one, as the own ports do."""
    parts = urlsplit(url)
    port = own_port if parts.port is None else parts.port + number
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def own_listener(settings: Settings, number: int) -> Listener:
    """The own socket of one of the processes. Others than those of this machine reach it only at an --address."""
    given = settings.address or settings.client_address
    host = LOOPBACK if given is None else settings.host
    port = settings.port + number if settings.port else 0
    return Listener(listen(host, port), given is not None and urlsplit(given).scheme == "https")


# -- the processes -----------------------------------------------------------------------------------------------------


class _Parent:
    def __init__(self, settings: Settings, shared: Listener) -> None:
        self._settings = settings
        self._shared = shared
        self._restarts = Restarts(settings.processes)
        self._ids: dict[int, int] = {}  # of processes, by their number
        self._selector = selectors.DefaultSelector()
        self._waking, self._woken = socket.socketpair()  # each signal is a byte in it
        self._living, self._parent_lives = os.pipe()  # ends with this process
        self._interrupted = False

    def __enter__(self) -> _Parent:
        for each in (self._waking, self._woken):
            each.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._waking.fileno())
        for ending in _ENDING:
            signal.signal(ending, _noted)
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves no process behind, whatever happened."""
        for process in self._ids.values():
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        signal.set_wakeup_fd(-1)
        self._close()
        os.close(self._parent_lives)
        os.close(self._living)

    def _close(self) -> None:
        self._selector.close()
        self._waking.close()
        self._woken.close()

    def run(self) -> int:
        """Until all have ended; returns the worst of their statuses. Raises KeyboardInterrupt if all is well and
        Ctrl-C ended them."""
        restarts = self._restarts
        while True:
            for number in restarts.due(time.monotonic()):
                self._start(number)
            if restarts.over:
                if self._interrupted and restarts.status == 0:
                    raise KeyboardInterrupt
                return restarts.status
            due = restarts.next_due()
            wait_s = None if due is None else max(0.0, due - time.monotonic())
            for key, _ in self._selector.select(wait_s):
                if key.data is None:
                    self._wake()
                else:
                    self._read_news(key.fd, key.data)
            if restarts.overdue(time.monotonic()):
                self._signal(signal.SIGKILL)

    def _wake(self) -> None:
        received = self._woken.recv(4_096)
        self._interrupted |= signal.SIGINT in received
        if not _ENDING.isdisjoint(received):
            self._stop()

    def _stop(self) -> None:
        """Has all end side by side: so their shards go to other machines, and not to one another."""
        if not self._restarts.stopping:
            self._restarts.stop(time.monotonic())
            self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        for process in self._ids.values():
            os.kill(process, number)

    def _read_news(self, news: int, number: int) -> None:
        """A process takes calls, or has ended: then the file for its news ends, too."""
        if os.read(news, 1):
            if self._restarts.ready(number, time.monotonic()):
                url, others = self._shared.url
                with suppress(Failure):  # serve even if standard output cannot be written
                    say(f"strandline is ready at {url} with {self._settings.processes} controllers{others}")
                log_event("ready", url=url, processes=self._settings.processes)
            return
        self._selector.unregister(news)
        os.close(news)
        _, waited = os.waitpid(self._ids.pop(number), 0)
        ended_with = os.waitstatus_to_exitcode(waited)
        if ended_with == -signal.SIGTERM and self._restarts.stopping:
            ended_with = 0  # it had only just begun
        was_stopping = self._restarts.stopping
        pause = self._restarts.ended(number, FAILED_STATUS if ended_with < 0 else ended_with, time.monotonic())
        level = logging.INFO if ended_with == 0 else logging.ERROR
        how = {"signal": signal.Signals(-ended_with).name} if ended_with < 0 else {"status": ended_with}
        log_event("process_ended", level, controller=f"{self._settings.name}-{number}", **how, restart_in_s=pause)
        if self._restarts.stopping and not was_stopping:
            self._signal(signal.SIGTERM)

    def _start(self, number: int) -> None:
        news, news_end = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # until the process has handlers of its own
        process = os.fork()
        if not process:
            os.close(news)
            os._exit(self._work(number, news_end))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        os.close(news_end)
        self._ids[number] = process
        self._selector.register(news, selectors.EVENT_READ, number)
        log_event("process_started", controller=f"{self._settings.name}-{number}", process=process)

    def _work(self, number: int, news_end: int) -> int:
        """What a process does, from its fork to its end; returns its status."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        self._close()
        os.close(self._parent_lives)
        logging.getLogger().handlers.clear()
        name = f"{self._settings.name}-{number}"
        try:
            listener = own_listener(self._settings, number)
            settings = of_process(self._settings, number, listener.socket.getsockname()[1])
            with log_lines(settings.log_format, controller=settings.name):
                return run(settings, [self._shared, listener], partial(_report_ready, news_end), self._living)
        except Failure as failure:
            sys.stderr.write(redact(f"strandline serve: {name}: {failure}\n"))
            return failure.status
        except KeyboardInterrupt:
            return 0  # it ended in order, as whoever pressed Ctrl-C asked all of them to
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else FAILED_STATUS
        except BaseException:
            sys.stderr.write(redact(f"strandline serve: {name}:\n{traceback.format_exc()}"))
            return FAILED_STATUS
        finally:
            sys.stderr.flush()


def _report_ready(news_end: int) -> None:
    os.write(news_end, b"r")


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Does nothing: the signal's number is in the socket that wakes the parent."""
