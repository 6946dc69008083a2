"""The process of one writer: does what the world has for its role, at the moments that the world says.

    python -m strandline_demo.writer OBJECT

OBJECT is a `WriterPart` as JSON. A writer that is held up does the same a little later: what it notes follows from what
it has written, never from the clock, so its notes stay true on a machine that has too much to do.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Final, Protocol, Self, assert_never

from strandline.logs.sqlite import SqliteLog
from strandline_demo.messages import Left, Message, Registered, Rested, Returned, Vanished, Wrote, to_line
from strandline_demo.settings import DemoSettings
from strandline_demo.world import (
    Happening,
    Leave,
    Register,
    Rest,
    Role,
    Step,
    Vanish,
    Write,
    steps,
    to_value,
)
from writer_client import Event, Writer

WROTE_EVERY: Final = 5  # writes; so often a writer tells how far it is


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterPart:
    """What the process of a writer is told."""

    role: Role
    controller: str
    stream: str
    path: str
    start_ms: int
    settings: DemoSettings

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields = json.loads(text)
        return cls(**fields | {"role": Role(fields["role"]), "settings": DemoSettings(**fields["settings"])})


class Clock(Protocol):
    """The time in epoch milliseconds, and waiting for it."""

    def now_ms(self) -> int: ...

    def wait_until(self, moment_ms: int) -> None: ...


class SystemClock:
    """The clock of the machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wait_until(self, moment_ms: int) -> None:
        while (left_ms := moment_ms - self.now_ms()) > 0:
            time.sleep(left_ms / 1000)


class WriterRun:
    """Takes steps, one after the other, and tells of them."""

    def __init__(self, writer: Writer, name: str, start_ms: int, tell: Callable[[Message], None], clock: Clock) -> None:
        self._writer = writer
        self._name = name
        self._start_ms = start_ms
        self._tell = tell
        self._clock = clock
        self._floor: int | None = None
        self._written = self._skipped = self._writes = 0
        self._away = False

    def run(self, todo: Iterable[Step]) -> None:
        for step in todo:
            self._clock.wait_until(self._start_ms + step.at_ms)
            self._take(step)

    def _take(self, step: Step) -> None:
        match step:
            case Register():
                self._writer.register()
                self._floor = self._writer.floor
                self._tell(Registered(self._name, self._floor))
            case Write(_, events, noted_ms):
                self._write(events, self._start_ms + noted_ms)
            case Rest():
                self._writer.idle()
                self._tell(Wrote(self._name, self._written))
                self._tell(Rested(self._name))
            case Vanish():
                self._away = True
                self._tell(Vanished(self._name, self._clock.now_ms()))
            case Leave():
                self._writer.close()
                self._tell(Wrote(self._name, self._written))
                self._tell(Left(self._name, self._skipped))
            case _:
                assert_never(step)

    def _write(self, events: tuple[Happening, ...], noted: int) -> None:
        if self._away:
            self._away = False
            self._tell(Returned(self._name, self._clock.now_ms(), len(events)))
        # A writer that registered late has promised nothing about what was before, and it is too late for that.
        floor = noted if self._floor is None else self._floor
        due = [event for event in events if self._floor is None or self._start_ms + event.time_ms >= floor]
        self._writer.write(Event(to_value(event, self._start_ms), key=event.device.encode()) for event in due)
        self._writer.note_time(max(noted, floor))
        self._written += len(due)
        self._skipped += len(events) - len(due)
        self._writes += 1
        if self._writes % WROTE_EVERY == 0:
            self._tell(Wrote(self._name, self._written))


def main(text: str) -> None:
    """Runs one writer to its end."""
    part = WriterPart.from_json(text)
    todo = steps(part.settings, part.role)

    def tell(message: Message) -> None:
        sys.stdout.write(to_line(message) + "\n")
        sys.stdout.flush()

    with SqliteLog(part.path) as log:
        writer = Writer(part.controller, part.stream, part.role, log=log)
        try:
            WriterRun(writer, part.role, part.start_ms, tell, SystemClock()).run(todo)
        finally:
            writer.release()


if __name__ == "__main__":
    main(sys.argv[1])
