"""Deletes what cannot be loaded."""

from __future__ import annotations

from collections.abc import Callable

from controller.storage.save import Commit
from controller.storage.subjects import Subject


class Deletion:
    """The deletion of a stream or reader group whose rows cannot be read: it takes its name, and no row."""

    discarded = False

    def __init__(self, subject: Subject, now: int) -> None:
        """`now` is the clock's time: more than any number of registrations, so that no epoch is given out twice."""
        self.subject = subject
        self._now = now

    def write(self, commit: Commit) -> Callable[[], None]:
        commit.delete(self.subject.kind, self.subject.name, self._now)
        return self.discard

    def discard(self) -> None:
        """Does nothing: it is not in memory."""
