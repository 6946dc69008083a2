"""A transaction for a log that has none of its own, but appends many events at once or none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self
from weakref import WeakSet

from strandline.errors import TooMany
from strandline.logs import Event, Memo, Position, Transaction, check_size
from strandline.logs.errors import TransactionOver

EVENT_OVERHEAD_BYTES: Final = 200  # of memory for an event, beside its key and value
TRANSACTION_BYTES: Final = 256 * 1024 * 1024  # of a transaction that waits in memory for its commit


class BufferedTransaction:
    """Events that appear in the log all at once. They wait in memory until `commit`, at most TRANSACTION_BYTES."""

    def __init__(self, append: Callable[[list[Event], Memo | None], Position]) -> None:
        """`append` appends events and a memo, both or neither, and returns the position behind the events."""
        self._append = append
        self._events: list[Event] = []
        self._bytes = 0
        self._outcome: str | None = None

    def write(self, events: Iterable[Event]) -> None:
        self._check_open()
        rows = list(events)
        for event in rows:
            check_size(event)
        self._bytes += sum(event.size_bytes + EVENT_OVERHEAD_BYTES for event in rows)
        if self._bytes > TRANSACTION_BYTES:
            self.abort()
            raise TooMany(what="bytes in a transaction", count=self._bytes, limit=TRANSACTION_BYTES)
        self._events += rows

    def commit(self, memo: Memo | None = None) -> Position:
        """Makes all events durable and visible at once. After an error nothing is written: try again."""
        self._check_open()
        position = self._append(self._events, memo)
        self._end("committed")
        return position

    def abort(self) -> None:
        if self._outcome is None:
            self._end("aborted")

    @property
    def is_open(self) -> bool:
        """Whether it was neither committed nor aborted."""
        return self._outcome is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def _check_open(self) -> None:
        if self._outcome is not None:
            raise TransactionOver(outcome=self._outcome)

    def _end(self, outcome: str) -> None:
        self._outcome = outcome
        self._events = []


class OpenTransactions:
    """The open transactions of one log object. One to which nobody has a reference can no longer be committed, and does
    not count."""

    def __init__(self) -> None:
        self._begun: WeakSet[BufferedTransaction] = WeakSet()
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        """Whether any may be open."""
        return len(self._begun) > 0

    def add(self, transaction: BufferedTransaction) -> None:
        with self._lock:
            self._begun.add(transaction)

    def has_others(self, besides: Transaction | None) -> bool:
        """Whether one is open, other than `besides`."""
        with self._lock:
            begun = list(self._begun)
            for each in begun:
                if not each.is_open:
                    self._begun.discard(each)
        return any(each.is_open and each is not besides for each in begun)
