"""Deletes what cannot be loaded."""

from __future__ import annotations

from collections.abc import Callable

from controller.cluster.records import Kind
from controller.storage.save import Commit
from controller.storage.tenure import Tenure


class Deletion:
    """The deletion of a stream or reader group whose rows cannot be read: it takes its name, and no row."""

    def __init__(self, kind: Kind, name: str, tenure: Tenure, now: int) -> None:
        """`now` is the clock's time: more than any number of registrations, so that no epoch is given out twice."""
        self._kind = kind
        self._name = name
        self._tenure = tenure
        self._now = now

    @property
    def discarded(self) -> bool:
        return self._tenure.over

    def write(self, commit: Commit) -> Callable[[], None]:
        commit.under(self._tenure, self._kind, self._name, None)
        commit.delete(self._kind, self._name, self._now)
        return self.discard

    def discard(self) -> None:
        """Does nothing: it is not in memory."""
