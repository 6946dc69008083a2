"""One writer of the story, as a process: writes at its own pace, notes times that it keeps, tells what it is told.

    python -m tests.acceptance.writer_process PART

PART is a `Part` as JSON. The event clock is the system's, minus what this writer is behind; an event is up to
`jitter_ms` older than the clock, and a note promises no more than that. SIGTERM ends it: it closes, and says so.
"""

from __future__ import annotations

import importlib
import json
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TextIO

from strandline.errors import Fenced, Refused, StrandlineError, Unavailable, Undecided
from strandline.logs import Event, Log
from strandline.logs.errors import LogFenced
from writer_client import BackgroundWriter, CommittedWithoutNote, NoteRefused, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a process is told. `opener` is "module:function", called with `options`: it opens the append side."""

    controller: str
    stream: str
    process: str  # "w1#2": the second life of w1
    opener: str
    options: dict[str, Any]
    journal: str
    pause_ms: float
    behind_ms: int
    kind: Literal["plain", "background", "transactions"]
    jitter_ms: int = 30
    note_every: int = 3  # writes
    events_per_write: int = 4

    @property
    def writer(self) -> str:
        return self.process.partition("#")[0]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


def call(name: str, options: dict[str, Any]) -> Any:
    """What "module:function" makes of the options."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)(**options)


OVER = (Fenced, LogFenced)  # another process of this writer has begun; the log may know it first


class Journal:
    """What a process was told, for the judge. `written` counts the events that a note was meant to cover."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def tell(self, written: int, **what: Any) -> None:
        self._file.write(json.dumps({"written": written, **what}) + "\n")
        self._file.flush()


class Hand(Protocol):
    """How a kind of writer writes and notes. Raises an error of OVER when it is over."""

    def write(self, events: Sequence[Event], time: int | None, written: int) -> None:
        """Writes; and notes the time, if there is one, `written` events being written by then."""
        ...

    def close(self) -> None: ...


class PlainHand:
    """Notes when it has written, and waits for the answer."""

    def __init__(self, writer: Writer, journal: Journal) -> None:
        self._writer = writer
        self._journal = journal
        self.floor = writer.register().floors.get("") or 0

    def write(self, events: Sequence[Event], time: int | None, written: int) -> None:
        try:
            self._write(events, time, written)
        except Refused as error:
            self._journal.tell(written, refused=error.code)
            if isinstance(error, OVER):
                raise
        except (Unavailable, Undecided) as error:  # the next note says it again
            self._journal.tell(written, trouble=error.code)

    def close(self) -> None:
        self._writer.close()

    def _write(self, events: Sequence[Event], time: int | None, written: int) -> None:
        self._writer.write(events)
        if time is not None:
            answer = self._writer.note_time(time)
            self._journal.tell(written, late=answer.late, floor=answer.floor)


class TransactionHand(PlainHand):
    """Writes in transactions, and commits some of them with a time."""

    def _write(self, events: Sequence[Event], time: int | None, written: int) -> None:
        with self._writer.begin() as transaction:
            transaction.write(events)
            try:
                answer = transaction.commit(time)
            except CommittedWithoutNote as error:
                assert isinstance(error.__cause__, StrandlineError)
                raise error.__cause__ from None
        if answer is not None:
            self._journal.tell(written, late=answer.late, floor=answer.floor)


class BackgroundHand:
    """Notes without waiting, and looks now and then what became of it."""

    def __init__(self, controller: str, stream: str, writer: str, log: Log, journal: Journal) -> None:
        self._journal = journal
        self._covered: dict[int, int] = {}  # by time, how much was written when it was noted
        self._noted: int | None = None
        self._writer = BackgroundWriter(controller, stream, writer, log=log, on_report=self._heard)
        self.floor = self._writer.register().floors.get("") or 0

    def write(self, events: Sequence[Event], time: int | None, written: int) -> None:
        self._writer.write(events)
        if time is not None:
            self._covered[time] = written
            self._writer.note_time(time)
        self._look()

    def close(self) -> None:
        self._writer.wait_until_answered()
        self._look()
        self._writer.close()

    def _look(self) -> None:
        status = self._writer.status()
        noted = status.noted.get("")
        if noted is not None and noted != self._noted:
            self._noted = noted
            self._journal.tell(self._covered[noted], late=status.late, floor=status.floors.get(""))

    def _heard(self, report: object) -> None:
        if isinstance(report, NoteRefused) and isinstance(report.error, StrandlineError):
            self._journal.tell(self._covered[report.times[""]], refused=report.error.code)


class Life:
    """Writes and notes at its pace, until it is told to end or is fenced."""

    def __init__(self, part: Part, hand: Hand, floor: int) -> None:
        self._part = part
        self._hand = hand
        self._random = random.Random(part.process)
        self._written = 0
        self._promised = floor
        self._over = False
        signal.signal(signal.SIGTERM, self._end)

    def run(self) -> None:
        writes = 0
        try:
            while not self._over:
                writes += 1
                self._write(notes=writes % self._part.note_every == 0)
                time.sleep(self._part.pause_ms / 1000)  # the pace of this writer
            self._write(notes=True)
            self._hand.close()
        except OVER:
            return

    def _write(self, *, notes: bool) -> None:
        events, now = [], time.time_ns() // 1_000_000 - self._part.behind_ms
        for number in range(self._written, self._written + self._part.events_per_write):
            moment = max(self._promised, now - self._random.randrange(self._part.jitter_ms))
            value = json.dumps([self._part.process, number, moment]).encode()
            events.append(Event(value, key=b"%d" % self._random.randrange(1000)))
        self._written += len(events)
        if notes:  # what comes later is no older than this
            self._promised = max(self._promised, now - self._part.jitter_ms)
        self._hand.write(events, self._promised if notes else None, self._written)

    def _end(self, *_: Any) -> None:
        self._over = True


def main(text: str) -> None:
    part = Part.from_json(text)
    log: Log = call(part.opener, part.options)
    hand: PlainHand | BackgroundHand
    with Path(part.journal).open("a") as file:
        journal = Journal(file)
        match part.kind:
            case "background":
                hand = BackgroundHand(part.controller, part.stream, part.writer, log, journal)
            case "transactions":
                hand = TransactionHand(Writer(part.controller, part.stream, part.writer, log=log), journal)
            case "plain":
                hand = PlainHand(Writer(part.controller, part.stream, part.writer, log=log), journal)
        Life(part, hand, hand.floor).run()
        log.close()


if __name__ == "__main__":
    main(sys.argv[1])
