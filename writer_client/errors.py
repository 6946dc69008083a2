"""Errors in the use of writers. The controller's refusals are in `strandline.errors`.

StrandlineError
├── CommittedWithoutNote    committed_without_note
└── RuleBroken
    ├── ManualNote          manual_note
    ├── NoLog               no_log
    ├── NeverNoted          never_noted
    ├── NewerBelow          newer_below
    ├── NotDrained          not_drained
    └── WriterClosed        writer_closed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from strandline.errors import RuleBroken, StrandlineError


@dataclass(kw_only=True, eq=False)
class ManualNote(RuleBroken):
    """Manual and automatic notes of one writer would contradict each other."""

    code: ClassVar[str] = "manual_note"
    writer: str
    period_ms: int

    @property
    def detail(self) -> str:
        return (
            f"writer {self.writer!r} notes its time automatically, every {self.period_ms} ms: do not call note_time(), "
            f"or create the writer without automatically_note_time"
        )


@dataclass(kw_only=True, eq=False)
class NoLog(RuleBroken):
    code: ClassVar[str] = "no_log"
    writer: str
    call: str

    @property
    def detail(self) -> str:
        return (
            f"writer {self.writer!r} has no log, so {self.call} needs a position: give one, or create the writer with "
            f"log=…"
        )


@dataclass(kw_only=True, eq=False)
class NeverNoted(RuleBroken):
    """Before a writer goes idle or closes, its last noted position must cover all that it wrote; there is none."""

    code: ClassVar[str] = "never_noted"
    writer: str
    call: str

    @property
    def detail(self) -> str:
        return (
            f"writer {self.writer!r} has written events, but never noted a time, so {self.call} would leave them out: "
            f"note a time first"
        )


@dataclass(kw_only=True, eq=False)
class NewerBelow(RuleBroken):
    """Events below the mark may be too new to be removed: no writer has noted `newest`."""

    code: ClassVar[str] = "newer_below"
    stream: str
    time: int

    @property
    def detail(self) -> str:
        return (
            f"events of {self.time} or later may lie below the last mark before that time, since the writers of stream "
            f"{self.stream!r} do not note newest: pass newer_too=True to cut at that mark nevertheless"
        )


@dataclass(kw_only=True, eq=False)
class NotDrained(RuleBroken):
    code: ClassVar[str] = "not_drained"
    writer: str
    count: int
    waited_ms: int

    @property
    def detail(self) -> str:
        return (
            f"{self.count} notes of writer {self.writer!r} were not answered in {self.waited_ms} ms: wait longer, or "
            f"release() the writer: then marks leave out what it wrote until it registers and notes again"
        )


@dataclass(kw_only=True, eq=False)
class WriterClosed(RuleBroken):
    code: ClassVar[str] = "writer_closed"
    writer: str

    @property
    def detail(self) -> str:
        return f"writer {self.writer!r} is closed: create a new one, which registers again"


@dataclass(kw_only=True, eq=False)
class CommittedWithoutNote(StrandlineError):
    """A transaction is committed, but its note was not taken: do not write the events again. The cause says why.

    Unless `refused`, the time goes out with the next note, or when any process registers the writer again.
    """

    code: ClassVar[str] = "committed_without_note"
    writer: str
    reason: str
    refused: bool

    @property
    def detail(self) -> str:
        advice = "note a time that the controller takes" if self.refused else "it goes out with the next note"
        return f"writer {self.writer!r} has committed, but its note was not taken ({self.reason}): {advice}"
