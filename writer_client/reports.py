"""Reports and status of automatic notes, and of notes that are sent in the background."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class NoteLate:
    """The controller took a note, but the stream's time had passed this writer's last note. Events that it has written
    since then below `floors` (by key) are late. `late`: the noted time is below a floor, too."""

    times: Mapping[str, int]
    late: bool
    floors: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class RegisteredLate:
    """The writer is back, and the stream's time has passed what an earlier process of its name noted (`noted`, by key).
    What it writes below `floors` is late."""

    noted: Mapping[str, int]
    floors: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EventsLate:
    """A write of `count` events was late as a whole: the greatest event time among them, `newest`, is below `floors`,
    which the writer had noted or the stream's time had reached. Only writes that give `newest` are checked."""

    count: int
    newest: Mapping[str, int]
    floors: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NoteRefused:
    """The controller refused a note, which is dropped."""

    times: Mapping[str, int]
    error: Exception


@dataclass(frozen=True, slots=True)
class NotesStuck:
    """Notes wait. The controller may be away: they are sent again. Or a write failed (`failed_write`): they are held
    back until `resume()`."""

    error: Exception
    failed_write: bool


@dataclass(frozen=True, slots=True)
class NotesMoving:
    """Notes are answered again, after `NotesStuck`."""


Report: TypeAlias = RegisteredLate | EventsLate | NoteLate | NoteRefused | NotesStuck | NotesMoving


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status of a writer's background or automatic notes.

    - `noted`: the times that the controller has taken, by key.
    - `waiting`: how many notes it has not answered.
    - `late`, `floors`: of the last answer, as in `NoteLate`.
    - `late_events`: how many events were known to be late when they were written, as in `EventsLate`.
    - `refused`: the last refusal since a note was taken; `refusals` counts all of them.
    - `stuck`: the error that notes wait on; `failed_write` if a write failed.
    """

    epoch: int | None
    noted: Mapping[str, int]
    waiting: int = 0
    late: bool = False
    floors: Mapping[str, int] = field(default_factory=dict)
    late_events: int = 0
    refused: Exception | None = None
    refusals: int = 0
    stuck: Exception | None = None
    failed_write: bool = False
