"""What a program can do wrong with a writer. What the controller refuses is in `strandline.errors`.

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
    """Two who note for one writer would contradict each other."""

    code: ClassVar[str] = "manual_note"
    writer: str
    period_ms: int

    @property
    def detail(self) -> str:
        return (
            f"writer {self.writer!r} notes its time automatically, every {self.period_ms} ms: leave noting to it, or "
            f"make the writer without automatically_note_time"
        )


@dataclass(kw_only=True, eq=False)
class NoLog(RuleBroken):
    code: ClassVar[str] = "no_log"
    writer: str
    call: str

    @property
    def detail(self) -> str:
        return (
            f"writer {self.writer!r} is not bound to a log, so {self.call} needs to be told the position: "
            f"give one, or make the writer with log=…"
        )


@dataclass(kw_only=True, eq=False)
class NeverNoted(RuleBroken):
    """Going idle or closing says that all the writer wrote lies below its last noted position; there is none."""

    code: ClassVar[str] = "never_noted"
    writer: str
    call: str

    @property
    def detail(self) -> str:
        return (
            f"writer {self.writer!r} has written, but never noted a time, so {self.call} would leave out what it "
            f"wrote: note a time first"
        )


@dataclass(kw_only=True, eq=False)
class NewerBelow(RuleBroken):
    """Nobody has said that what lies below a mark is old enough to be removed."""

    code: ClassVar[str] = "newer_below"
    stream: str
    time: int

    @property
    def detail(self) -> str:
        return (
            f"events of {self.time} or later may lie below the last mark before that time, since the writers of stream "
            f"{self.stream!r} do not note what is newest: pass newer_too=True to cut at that mark all the same"
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
            f"release() the writer, and what it wrote stays out of marks until it comes back"
        )


@dataclass(kw_only=True, eq=False)
class WriterClosed(RuleBroken):
    code: ClassVar[str] = "writer_closed"
    writer: str

    @property
    def detail(self) -> str:
        return f"writer {self.writer!r} is closed: make a new one, which registers again"


@dataclass(kw_only=True, eq=False)
class CommittedWithoutNote(StrandlineError):
    """A transaction is committed, and its note was not taken: do not write it again. The cause says why.

    Not `refused`: the note goes out with the next one, or when the writer registers again, whichever process does.
    """

    code: ClassVar[str] = "committed_without_note"
    writer: str
    reason: str
    refused: bool

    @property
    def detail(self) -> str:
        advice = "note a time that is taken" if self.refused else "it goes out with the next note"
        return f"writer {self.writer!r} has committed, but its note was not taken ({self.reason}): {advice}"
