"""What is stored and locked by itself: streams and reader groups."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """In the order in which they are locked: a call of a group may write streams."""

    GROUP = "group"
    STREAM = "stream"


class Subject(NamedTuple):
    """A stream or a reader group, which need not exist."""

    kind: Kind
    name: str
