"""Detects objects that a forked child inherits: it cannot use its parent's connections, files and threads.

origin = OwningProcess("writer 'w1'")    when the object is made
origin.check()                           at each call: raises UsedAfterFork in a forked child
origin.keep(connection)                  a handle that a forked child must not even close
"""

from __future__ import annotations

import ctypes
import os
import weakref

from strandline.errors import UsedAfterFork

_forks = 0  # the number of forks between the first process and this one
_origins: weakref.WeakSet[OwningProcess] = weakref.WeakSet()


class OwningProcess:
    """The process in which an object was made."""

    __slots__ = ("__weakref__", "_forks", "_handles", "_process", "_what")

    def __init__(self, what: str) -> None:
        """`what` names the object in errors."""
        self._what = what
        self._handles: list[object] = []
        self._process = os.getpid()
        self._forks = _forks

    def keep(self, handle: object) -> None:
        """Never closes this handle in a forked child, not even when the interpreter ends: SQLite would take that for
        the end of the parent's connection, and a Kafka client would wait for threads that do not exist."""
        self._handles.append(handle)
        _origins.add(self)

    @property
    def is_here(self) -> bool:
        return self._forks == _forks

    def check(self) -> None:
        """Raises UsedAfterFork if this process was forked after the object was made."""
        if self._forks != _forks:
            raise UsedAfterFork(what=self._what, made_in=self._process, used_in=os.getpid())

    def inherited(self) -> None:
        """Called in a forked child: keeps every kept handle open for ever."""
        for handle in self._handles:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def _forked() -> None:
    global _forks
    _forks += 1
    for origin in list(_origins):
        origin.inherited()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
