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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, TextIO

from logs import Event, Log
from strandline.errors import Fenced, Refused, StrandlineError
from strandline.protocol.wire import NoteAnswer
from writer_client import Writer


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


class Life:
    """Writes, notes, and keeps account of both."""

    def __init__(self, part: Part, writer: Writer, journal: TextIO) -> None:
        self._part = part
        self._writer = writer
        self._journal = journal
        self._random = random.Random(part.process)
        self._written = 0
        self._promised = 0
        self._over = False
        signal.signal(signal.SIGTERM, self._end)

    def run(self) -> None:
        self._writer.register()
        self._tell(registered=self._writer.epoch)
        self._promised = self._writer.floor or 0
        writes = 0
        while not self._over:
            self._write()
            writes += 1
            if writes % self._part.note_every == 0 and not self._note():
                return
            time.sleep(self._part.pause_ms / 1000)  # the pace of this writer
        self._close()

    def _clock(self) -> int:
        return time.time_ns() // 1_000_000 - self._part.behind_ms

    def _write(self) -> None:
        now, events = self._clock(), []
        for number in range(self._written, self._written + self._part.events_per_write):
            moment = max(self._promised, now - self._random.randrange(self._part.jitter_ms))
            value = json.dumps([self._part.process, number, moment]).encode()
            events.append(Event(value, key=b"%d" % self._random.randrange(1000)))
        self._writer.write(events)
        self._written += len(events)

    def _note(self) -> bool:
        """Notes what is true; returns whether to go on."""
        self._promised = max(self._promised, self._clock() - self._part.jitter_ms)
        try:
            self._told(self._writer.note_time(self._promised))
        except Refused as error:
            self._tell(refused=error.code)
            return not isinstance(error, Fenced)
        except StrandlineError as error:  # away, or unknown: the next note says it again
            self._tell(trouble=error.code)
        return True

    def _close(self) -> None:
        while not self._note():
            return
        self._writer.close()
        self._tell(closed=True)

    def _told(self, answer: NoteAnswer) -> None:
        self._tell(late=answer.late, floor=answer.floor)

    def _tell(self, **what: Any) -> None:
        self._journal.write(json.dumps({"written": self._written, **what}) + "\n")
        self._journal.flush()

    def _end(self, *_: Any) -> None:
        self._over = True


def main(text: str) -> None:
    part = Part.from_json(text)
    log: Log = call(part.opener, part.options)
    writer = Writer(part.controller, part.stream, part.writer, log=log)
    try:
        with Path(part.journal).open("a") as journal:
            Life(part, writer, journal).run()
    finally:
        writer.release()
        log.close()


if __name__ == "__main__":
    main(sys.argv[1])
