"""Errors in the use of writers. The controller's refusals are in `strandline.errors`."""

from __future__ import annotations

from strandline.errors import RuleBroken, StrandlineError


class ManualNote(RuleBroken):
    """Manual and automatic notes of one writer would contradict each other."""

    says = (
        "writer {writer!r} notes its time automatically, every {period_ms} ms: do not call note_time(), or create "
        "the writer without automatically_note_time"
    )
    writer: str
    period_ms: int


class NoLog(RuleBroken):
    says = (
        "writer {writer!r} has no log, which {call} needs: create the writer with log=…, or append the events yourself "
        "and note each time with a position"
    )
    writer: str
    call: str


class NewerBelow(RuleBroken):
    """Events below the mark may be too new to be removed: it has no `newest`. Writers did not give it, or could not:
    that of a segment which several processes write to is unknown."""

    says = (
        "events of {time} or later may lie below the last mark before that time, which has no newest: some writer of "
        "stream {stream!r} gave none with its writes, or shares a segment with other processes, and then cannot know "
        "it. Pass newer_too=True to cut at that mark nevertheless, with a time that is earlier by as much as writers "
        "run ahead of their notes"
    )
    stream: str
    time: int


class NotDrained(RuleBroken):
    says = (
        "{count} notes of writer {writer!r} were not answered in {waited_ms} ms: wait longer, or release() the "
        "writer: then marks leave out what it wrote until it registers and notes again"
    )
    writer: str
    count: int
    waited_ms: int


class WriterClosed(RuleBroken):
    says = "writer {writer!r} is closed: create a new one, which registers again"
    writer: str


class CommittedWithoutNote(StrandlineError):
    """A transaction is committed, but its note was not taken: do not write the events again. The cause says why.

    Unless `refused`, the time goes out with the next note, or when any process registers the writer again.
    """

    writer: str
    reason: str
    refused: bool

    @property
    def detail(self) -> str:
        advice = "note a time that the controller takes" if self.refused else "it goes out with the next note"
        return f"writer {self.writer!r} has committed, but its note was not taken ({self.reason}): {advice}"
