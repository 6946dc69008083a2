"""Accepts connections, as many as the process can have, and reserves a few more for probes.

If the limit is reached, a new connection replaces the one that has waited longest for its caller. If all are being
served, a new one gets a reserved place: there /healthz and /readyz are answered, and any other request gets 503.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
import ssl
from collections.abc import Callable, Set
from contextlib import suppress
from functools import partial
from typing import Any, Final

from controller.http.connection import Caller, HttpConnection, WaitQueues
from controller.http.wait_queue import WaitQueue
from controller.limits import (
    ACCEPTED_AT_ONCE,
    BACKLOG,
    CONNECTIONS,
    FULL_TELLING_S,
    HANDSHAKE_S,
    LEAST_CONNECTIONS,
    OTHER_FILES,
    RESERVED_CONNECTIONS,
    SEND_STALL_S,
)
from controller.records.operator_log import log_event
from strandline.errors import Overloaded

WHAT: Final = "connections are open"
_NO_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_log: Final = logging.getLogger(__name__)

Connect = Callable[[Overloaded | None], HttpConnection]


def connections_bound() -> int:
    """How many connections the process can have. Raises the limit of open files as far as it is needed and allowed."""
    wanted = CONNECTIONS + RESERVED_CONNECTIONS + ACCEPTED_AT_ONCE + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return CONNECTIONS
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):  # a system may have a lower bound of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(LEAST_CONNECTIONS, CONNECTIONS - max(0, wanted - soft))


class _Arrival:
    """An accepted connection whose protocol has not begun: with TLS that may take a while."""

    def __init__(self, beginning: asyncio.Task[Any], *, tls: bool) -> None:
        self.dropped = False
        self._beginning = beginning
        self._tls = tls

    def overdue(self, queue: WaitQueue[Caller]) -> None:
        self.drop()

    def drop(self) -> None:
        """Ends it: with TLS at once, without TLS when its protocol has begun, in the next turn of the loop. If it were
        cancelled before, uvloop would close it without telling its protocol, which would be counted for ever."""
        self.dropped = True
        if self._tls:
            self._beginning.cancel()


class Listener:
    """Accepts the connections of one socket. It replaces asyncio's servers in uvicorn, which have no bound."""

    def __init__(
        self,
        listening: socket.socket,
        connect: Connect,
        connections: Set[object],
        waits: WaitQueues,
        *,
        limit: int,
        tls: ssl.SSLContext | None,
    ) -> None:
        """`connect` makes the protocol of a connection; `connections` has those whose protocol has begun."""
        self._listening = listening
        self._connect = connect
        self._connections = connections
        self._waits = waits
        self._limit = limit
        self._tls = tls
        self._arrivals: set[_Arrival] = set()
        self._loop = asyncio.get_running_loop()
        self._spare = os.open(os.devnull, os.O_RDONLY)  # closed for a moment if no further file can be opened
        self._turned_away = self._made_room = 0
        self._told_at = float("-inf")

    def start(self) -> None:
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._listening)
        os.close(self._spare)
        for arrival in list(self._arrivals):
            arrival.drop()

    async def wait_closed(self) -> None:
        """Nothing is left to wait for: uvicorn waits for the connections."""

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._connections) + len(self._arrivals)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _NO_FILES:
                    self._turn_away_without_a_file()
                continue  # otherwise the caller has left
            self._admit(accepted)

    def _admit(self, accepted: socket.socket) -> None:
        waits, now, overloaded = self._waits, self._loop.time(), None
        if self.open >= self._limit:
            if waits.make_room(now):
                self._made_room += 1
            else:
                overloaded = Overloaded(waiting=self.open, limit=self._limit, what=WHAT)
                self._turned_away += 1
                waits.make_reserved_room()
            self._log_full(now)
        handshake_s, shutdown_s = (None, None) if self._tls is None else (HANDSHAKE_S, SEND_STALL_S)
        beginning = self._loop.create_task(
            self._loop.connect_accepted_socket(
                partial(self._connect, overloaded),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=handshake_s,
                ssl_shutdown_timeout=shutdown_s,
            )
        )
        arrival = _Arrival(beginning, tls=self._tls is not None)
        self._arrivals.add(arrival)
        waits.handshake.enter(arrival, now)
        if overloaded is not None:
            waits.reserved.enter(arrival, now)
        beginning.add_done_callback(partial(self._begun, arrival, accepted))

    def _begun(self, arrival: _Arrival, accepted: socket.socket, beginning: asyncio.Task[Any]) -> None:
        self._arrivals.discard(arrival)
        self._waits.handshake.leave(arrival)
        self._waits.reserved.leave(arrival)
        error = None if beginning.cancelled() else beginning.exception()
        if beginning.cancelled() or error is not None:
            accepted.close()
        elif arrival.dropped:
            beginning.result()[0].abort()
        if not isinstance(error, OSError | None):  # an OSError: the caller left, or does not speak TLS
            _log.error("a connection could not begin", exc_info=error)

    def _turn_away_without_a_file(self) -> None:
        """Accepts a connection and closes it: left waiting, it would wake the loop again and again."""
        os.close(self._spare)
        with suppress(OSError):
            self._listening.accept()[0].close()
        self._spare = os.open(os.devnull, os.O_RDONLY)
        self._turned_away += 1
        self._log_full(self._loop.time())

    def _log_full(self, now: float) -> None:
        if now - self._told_at < FULL_TELLING_S:
            return
        log_event(
            "connections_full",
            logging.WARNING,
            open=self.open,
            limit=self._limit,
            turned_away=self._turned_away,
            made_room=self._made_room,
        )
        self._told_at, self._turned_away, self._made_room = now, 0, 0
