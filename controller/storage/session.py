"""Sessions that another thread can end: a call that waits for an answer then fails with a lost connection."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError

# Opaque types for the packages above storage: what they pass to it, and what a call may raise.
StoreConnection: TypeAlias = Connection
StoreFailed: TypeAlias = DBAPIError


class StoreSession:
    """The session of an engine whose driver uses a socket.

    A request to cancel gets lost where the network or the server is silent, so `cut` shuts the socket down.
    """

    def __init__(self, engine: Engine) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._cut = False
        event.listen(engine, "do_connect", self._connect)

    def begin(self) -> None:
        """Marks the start of a call, which may use the session or make a new one."""
        with self._lock:
            self._cut = False

    def cut(self) -> None:
        """Ends the session, from any thread. No new one is made before the next call begins."""
        with self._lock:
            self._cut = True
            if self._socket is not None:
                with suppress(OSError):  # the connection is gone already
                    self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Frees what this object holds of the session."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def _connect(
        self, dialect: Any, _record: Any, arguments: Any, parameters: Any
    ) -> Any:  # returns the driver's connection
        self._check(dialect)
        connection = dialect.connect(*arguments, **parameters)
        self.close()
        with self._lock:
            # A duplicate: the driver may close its own descriptor at any time, and the number may be reused.
            self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        try:
            self._check(dialect)
        except dialect.loaded_dbapi.Error:
            connection.close()
            raise
        return connection

    def _check(self, dialect: Any) -> None:
        if self._cut:
            raise dialect.loaded_dbapi.OperationalError("the call was cancelled")


class Sessions(NamedTuple):
    """The sessions for writes, for reads, and for long reads, if they can be ended."""

    writer: StoreSession | None = None
    reader: StoreSession | None = None
    loader: StoreSession | None = None


class Engines(NamedTuple):
    """The engines for writes, reads and long reads, and their sessions."""

    writing: Engine
    reading: Engine
    loading: Engine
    sessions: Sessions


def sessions_of(engines: Sequence[Engine], opened: ExitStack) -> list[StoreSession]:
    """The sessions of engines; both are closed with `opened`."""
    sessions = [StoreSession(engine) for engine in engines]
    for engine, session in zip(engines, sessions, strict=True):
        opened.callback(engine.dispose)
        opened.callback(session.close)
    return sessions
