"""The damaged rows of the store. Each is logged once; everything else is still served."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from controller.cluster.records import Kind
from controller.limits import DAMAGED_ROWS_KEPT
from controller.records.operator_log import log_event
from controller.storage import schema
from controller.storage.save import Commit
from controller.storage.tenure import Tenure
from strandline.errors import StoreCorrupt

RowPlace: TypeAlias = tuple[str | None, str | None, str | None, str | None]


class Damaged:
    """A stream or reader group that cannot be loaded, since one of its rows is damaged. It can be deleted."""

    def __init__(self, kind: Kind, name: str, tenure: Tenure) -> None:
        self._kind = kind
        self._name = name
        self._tenure = tenure

    @property
    def discarded(self) -> bool:
        return self._tenure.over

    def write(self, commit: Commit) -> Callable[[], None]:
        commit.under(self._tenure, self._kind, self._name, None)
        if self._kind is Kind.STREAM:
            commit.delete_stream(self._name, 0)
        else:
            commit.remove(schema.reader_group, {"name": self._name})
        return self.discard

    def discard(self) -> None:
        """Does nothing: it is not in memory."""


class DamagedRows:
    """The rows that were found damaged since the controller started, at most DAMAGED_ROWS_KEPT of them."""

    def __init__(self, stopwatch: Callable[[], float]) -> None:
        self.on_found: Callable[[StoreCorrupt], None] = lambda _: None
        self.since: float | None = None  # the stopwatch's time when the first of them was found
        self._stopwatch = stopwatch
        self._found: dict[RowPlace, StoreCorrupt] = {}

    def __len__(self) -> int:
        return len(self._found)

    def found(self, error: StoreCorrupt) -> None:
        """Counts and logs a damaged row that a read found; each row once."""
        place = (error.stream, error.group, error.table, error.row)
        if place in self._found or len(self._found) >= DAMAGED_ROWS_KEPT:
            return
        self._found[place] = error
        self.since = self._stopwatch() if self.since is None else self.since
        log_event("store_corrupt", logging.ERROR, **error.values)
        self.on_found(error)

    def gone(self, *, stream: str | None = None, group: str | None = None) -> None:
        """Forgets the rows of a stream or reader group that was deleted."""
        self._found = {
            place: error for place, error in self._found.items() if (error.stream, error.group) != (stream, group)
        }
        self.since = self.since if self._found else None
