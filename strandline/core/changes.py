"""The results of calls on a stream, and the changes that they made: for the caller, the store and the journal. And the
changes that others stored: for a cache of the stream."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from strandline.core.aggregate import Remainder
from strandline.core.cut import Cut
from strandline.core.mark import Mark
from strandline.core.note import DEFAULT_KEY
from strandline.core.segment import Segment
from strandline.core.writer import StreamWriter, WriterState


@dataclass(frozen=True, slots=True)
class Registered:
    """The new epoch, and by key the floor: events of the writer at or above it are not late. `noted` has the greatest
    time that the writer had noted before, for each key where it had. `life` names the writer's present life, which
    began with the first call after it was unknown or closed; the controller adds the stream's identity to it."""

    epoch: int
    floors: Mapping[str, int | None]
    life: str
    noted: Mapping[str, int] = field(default_factory=dict)


class NoteResult(NamedTuple):
    """The answer to a note. `floors` has, for each key in which the writer did not fully count, the time below which
    its events are late; `marks` are the marks that the note made possible."""

    late: bool
    floors: Mapping[str, int | None]
    marks: Sequence[Mark]

    @property
    def floor(self) -> int | None:
        return self.floors.get(DEFAULT_KEY)


class Advance(NamedTuple):
    """From when to when time goes in a key; None before the first mark."""

    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class StateChange:
    """A writer's change of state in one key."""

    at: int
    writer: str
    key: str
    before: WriterState | None
    after: WriterState


@dataclass(slots=True)
class Changes:
    """All changes since the last drain."""

    stream: bool = False  # settings, sealed, head, epochs, `passed`, remainders
    settings: bool = False  # settings or sealed
    writers: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)  # writers; some may have come back since
    segments: dict[str, Segment] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)  # segments that the log does not have
    marks: list[Mark] = field(default_factory=list)
    states: list[StateChange] = field(default_factory=list)

    @property
    def structural(self) -> bool:
        """Whether another cache of the stream must load it, and cannot adopt these changes: after `configure`, `seal`,
        `scale` or `drop_segment`, and after a note that names a new segment of an open stream."""
        return self.settings or bool(self.segments or self.dropped)

    def __bool__(self) -> bool:
        return bool(
            self.stream
            or self.settings
            or self.writers
            or self.forgotten
            or self.segments
            or self.dropped
            or self.marks
            or self.states
        )

    def forget(self, writer: str) -> None:
        """Records that a writer is forgotten; this replaces its other changes."""
        self.writers.discard(writer)
        self.forgotten.add(writer)
        self.stream = True  # the stream keeps the remainders of its forgotten writers

    def then(self, later: Changes) -> Changes:
        """These changes, followed by later ones."""
        return Changes(
            stream=self.stream or later.stream,
            settings=self.settings or later.settings,
            writers=(self.writers - later.forgotten) | later.writers,
            forgotten=self.forgotten | later.forgotten,
            segments=self.segments | later.segments,
            dropped=self.dropped | later.dropped,
            marks=self.marks + later.marks,
            states=self.states + later.states,
        )


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What a stream itself has, without what is `structural`."""

    epochs: int
    head: Cut
    passed: Mapping[str, int]
    remainders: Mapping[str, Remainder]


@dataclass(frozen=True, slots=True)
class Missed:
    """What others stored of a stream since a cache of it equalled the store. Nothing in it is `structural`."""

    clock: int  # the stream's
    forgotten: Collection[str]  # writers; some may have come back since
    writers: Sequence[StreamWriter]  # as they are now: all that changed, and were not forgotten since
    marks: Sequence[Mark]  # of each key in order, or only the newest
    stream: StreamFacts | None  # if it changed; it did if a writer was forgotten
