"""What a writer tells of the notes that it makes by itself, or sends in the background: what happens, how it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class NoteLate:
    """The controller took a note, but time had gone on without this writer, past what it had noted before. By key:
    what it wrote since then below the floor is late. `late`: the time that it noted is below one, too."""

    times: Mapping[str, int]
    late: bool
    floors: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class NoteRefused:
    """The controller turned a note down, and it is dropped."""

    times: Mapping[str, int]
    error: Exception


@dataclass(frozen=True, slots=True)
class NotesStuck:
    """Notes wait: the controller is away, say, and they are sent again; or a write failed (`failed_write`), and they
    are held back until `resume()`."""

    error: Exception
    failed_write: bool


@dataclass(frozen=True, slots=True)
class NotesMoving:
    """Notes that were stuck are answered again."""


Report: TypeAlias = NoteLate | NoteRefused | NotesStuck | NotesMoving


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a writer stands, as to what it notes in the background or by itself.

    `noted` are the times that the controller has taken, `waiting` counts the notes that it has not answered. `late`
    and `floors` are of the last answer, as in `NoteLate`; `refused` is the last refusal since a note was taken, and
    `refusals` counts all of them. `stuck` is what notes wait for.
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
