"""What is in memory of the store: a stream or a reader group."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable

from controller.storage.heads import Head
from controller.storage.news import Found, Known
from controller.storage.save import Commit
from controller.storage.subjects import Subject


class Item(ABC):
    """A cache of the store. It is ahead of it from a step that changes it until that is durable."""

    def __init__(self, subject: Subject, head: Head) -> None:
        self.subject = subject
        self.head = head  # as of when it was last equal to the store
        self.compared_at = -math.inf  # when that was, by the event loop's clock
        self.used_at = -math.inf  # when somebody has asked for it last, by the same clock
        self.discarded = False  # it is not equal to the store, and never will be: it is loaded again
        self.ending: asyncio.Future[None] | None = None  # set while its deletion is not durable

    @property
    def known(self) -> Known:
        """What it has of the store."""
        return Known(self.head, {})

    def take_in(self, found: Found, began: float) -> None:
        """Takes in what others have written since, as it was found at a moment or later; discards itself where that
        cannot be. Nothing of its own may be unwritten."""
        if self.head.differs(found.heads.get(self.subject)) and not self.follow(found):
            self.discard()
        else:
            self.compared_at = began

    @abstractmethod
    def follow(self, found: Found) -> bool:
        """Takes in what others have written; False if that cannot be."""

    @abstractmethod
    def begin_anew(self, restored_at: int) -> None:
        """Fences everybody, after the store was restored to an earlier moment."""

    @abstractmethod
    def write(self, commit: Commit) -> Callable[[], None]:
        """Adds all changes since the last call to a commit; returns what to call once they are durable."""

    def discard(self) -> None:
        """Its changes are not durable and never will be, or others have made some that it cannot take in."""
        self.discarded = True
