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


Report: TypeAlias = NoteLate | NoteRefused | NotesStuck | NotesMoving


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status of a writer's background or automatic notes.

    - `noted`: the times that the controller has taken, by key.
    - `waiting`: how many notes it has not answered.
    - `late`, `floors`: of the last answer, as in `NoteLate`.
    - `refused`: the last refusal since a note was taken; `refusals` counts all of them.
    - `stuck`: the error that notes wait on; `failed_write` if a write failed.
    """

    epoch: int | None
    noted: Mapping[str, int]
    waiting: int = 0
    late: bool = False
    floors: Mapping[str, int] = field(default_factory=dict)
    refused: Exception | None = None
    refusals: int = 0
    stuck: Exception | None = None
    failed_write: bool = False
