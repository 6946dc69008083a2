"""Messages on their way: lost, repeated, delayed and reordered, as the world draws it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto
from typing import TYPE_CHECKING

from strandline.core.changes import NoteResult, Registered
from strandline.core.note import Note
from strandline.errors import Refused

if TYPE_CHECKING:
    from tests.simulation.writers import Process


class Kind(StrEnum):
    CLOCK = auto()
    REGISTER = auto()
    NOTE = auto()
    IDLE = auto()
    CLOSE = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """What a process asks of the controller."""

    kind: Kind
    process: Process
    epoch: int | None = None
    keys: tuple[str, ...] | None = None
    note: Note | None = None

    @property
    def fragile(self) -> bool:
        """Whether the controller cannot tell it from a later one of the same writer: then it arrives once, in order."""
        return self.kind in (Kind.IDLE, Kind.CLOSE) and (self.epoch is None or self.process.impolite)

    def __str__(self) -> str:
        what = f" {dict(self.note.times)} {dict(self.note.position)}" if self.note is not None else ""
        newest = f" newest {dict(self.note.newest)}" if self.note is not None and self.note.newest else ""
        return f"{self.kind} of {self.process} epoch {self.epoch}{what}{newest}"


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """What the controller answers, with its clock."""

    call: Call
    result: NoteResult | Registered | Refused | None
    clock: int


class Network:
    """Calls and replies under way, in no order."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.replies: list[Reply] = []
        self.slow: list[tuple[int, Call]] = []  # each with the step at which it comes up again

    def forget(self, name: str) -> None:
        """Drops every call of a writer that has no epoch: processes that may overlap must send theirs."""
        self.calls = [call for call in self.calls if call.process.name != name or call.epoch is not None]
        self.slow = [late for late in self.slow if late[1].process.name != name or late[1].epoch is not None]

    def come_up(self, step: int) -> None:
        """Slow calls whose time has come, or all of them when faults have stopped, can be delivered now."""
        self.calls += [call for due, call in self.slow if due <= step]
        self.slow = [late for late in self.slow if late[0] > step]
