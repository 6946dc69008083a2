"""What calls to a stream answer, and what they changed: for the caller, the store and the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from strandline.core.mark import Mark
from strandline.core.note import DEFAULT_KEY
from strandline.core.segment import Segment
from strandline.core.writer import WriterState


@dataclass(frozen=True, slots=True)
class Registered:
    """The new epoch, and by key the time at or above which nothing that the writer has is late."""

    epoch: int
    floors: Mapping[str, int | None]


class NoteResult(NamedTuple):  # made for every note, and a tuple is made in a fifth of the time of a frozen dataclass
    """To a note. `floors` has, for each key in which the writer did not fully count, the time below which what it
    wrote is late; `marks` are those that the note brought about."""

    late: bool
    floors: Mapping[str, int | None]
    marks: Sequence[Mark]

    @property
    def floor(self) -> int | None:
        return self.floors.get(DEFAULT_KEY)


@dataclass(frozen=True, slots=True)
class StateChange:
    """A writer that became something else to the stream."""

    at: int
    writer: str
    key: str
    before: WriterState | None
    after: WriterState


@dataclass(slots=True)
class Changes:
    """What has changed since the last drain."""

    stream: bool = False  # configuration, head, epochs, sealed
    writers: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)  # writers; some of them may have come again since
    segments: dict[str, Segment] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)  # segments that turned out not to exist
    marks: list[Mark] = field(default_factory=list)
    states: list[StateChange] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(
            self.stream or self.writers or self.forgotten or self.segments or self.dropped or self.marks or self.states
        )

    def forget(self, writer: str) -> None:
        """A writer is forgotten, whatever else became of it."""
        self.writers.discard(writer)
        self.forgotten.add(writer)
        self.stream = True  # which keeps what forgotten writers leave behind

    def then(self, later: Changes) -> Changes:
        """These, and what changed after them."""
        return Changes(
            stream=self.stream or later.stream,
            writers=(self.writers - later.forgotten) | later.writers,
            forgotten=self.forgotten | later.forgotten,
            segments=self.segments | later.segments,
            dropped=self.dropped | later.dropped,
            marks=self.marks + later.marks,
            states=self.states + later.states,
        )
