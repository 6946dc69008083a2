"""Sessions that another thread can end: whoever waits there for an answer hears that the connection is lost."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine, Table, event
from sqlalchemy.exc import DBAPIError

# What the rooms above storage pass on to it, and what a call may raise. Only storage knows what is in them.
StoreConnection: TypeAlias = Connection
StoreTable: TypeAlias = Table
StoreFailed: TypeAlias = DBAPIError


class StoreSession:
    """What an engine has open at present. This one cannot be ended from outside, as SQLite's: its calls end alone."""

    def begin(self) -> None:
        """A call begins, which may use the session, or make one where there is none."""

    def cut(self) -> None:
        """Ends the session, from any thread. None is made before the next call begins."""

    def close(self) -> None:
        """Nothing is left of it here."""


class SocketStoreSession(StoreSession):
    """The session of an engine whose driver speaks over a socket.

    The driver itself cannot be told to stop waiting: that is not safe from another thread. Its socket can be shut down.
    """

    def __init__(self, engine: Engine) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._cut = False
        event.listen(engine, "do_connect", self._connect)

    def begin(self) -> None:
        with self._lock:
            self._cut = False

    def cut(self) -> None:
        with self._lock:
            self._cut = True
            if self._socket is not None:
                with suppress(OSError):  # the connection is gone already
                    self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def _connect(self, dialect: Any, _record: Any, arguments: Any, parameters: Any) -> Any:  # the driver's connection
        self._check(dialect)
        connection = dialect.connect(*arguments, **parameters)
        self.close()
        with self._lock:
            # A descriptor of our own: the driver's may be closed, and its number given to another file, at any time.
            self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        try:
            self._check(dialect)
        except dialect.loaded_dbapi.Error:
            connection.close()
            raise
        return connection

    def _check(self, dialect: Any) -> None:
        if self._cut:
            raise dialect.loaded_dbapi.OperationalError("the call was given up")
