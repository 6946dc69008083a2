"""The project's own writers and readers, each as a program would use it, in a thread of its own.

They reach the controller through proxies, over the project's own transport; what passes that is recorded like every
other call, so that one checker judges all of it. What they tell their program beyond answers is recorded as well.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from reader_client import EventReader, TimeWindows, WatermarkItem
from reader_client.items import EventItem
from strandline.client.calls import Request, Response
from strandline.client.http import Connection, HttpTransport
from strandline.client.retry import NotReached, Outcome, Patience
from strandline.errors import StrandlineError, Unavailable, Undecided
from strandline.logs import Event, StoredEvent
from strandline.testing.log import ScriptedLog
from tests.chaos.history import Call, Delivered, NotSent, Record, Said, Unknown, Watermark, Window
from tests.chaos.history import Outcome as Recorded
from tests.chaos.limits import PROJECT_ATTEMPT_MS, PROJECT_DEADLINE_MS
from tests.chaos.rawclient import answered
from tests.chaos.writers import wall_ms
from writer_client import BackgroundWriter, NoteRefused, Writer
from writer_client.reports import Report

Recorder = Callable[[Record], None]
PATIENCE = Patience(deadline_ms=PROJECT_DEADLINE_MS, attempt_ms=PROJECT_ATTEMPT_MS)


class RecordingTransport:
    """The project's transport, with every request and what came of it recorded."""

    def __init__(self, client: str, controllers: Sequence[str], record: Recorder) -> None:
        self._inner = HttpTransport(controllers)
        self._client = client
        self._record = record

    def send(self, request: Request, timeout_ms: float) -> Outcome:
        began = time.monotonic()
        path, _, query = request.path.partition("?")
        asked = dict(parse_qsl(query, keep_blank_values=True))
        shown: Recorded = Unknown("no end")
        try:
            outcome = self._inner.send(request, timeout_ms)
            if isinstance(outcome, Response):
                shown = answered(outcome.status, outcome.headers, outcome.body)
            else:
                shown = NotSent() if isinstance(outcome, NotReached) else Unknown(outcome.reason)
            return outcome
        finally:
            ended = time.monotonic()
            self._record(Call(self._client, began, ended, request.method, path, asked, request.body, shown))

    def close(self) -> None:
        self._inner.close()


def connection(client: str, ports: Sequence[int], record: Recorder) -> Connection:
    controllers = [f"http://127.0.0.1:{port}" for port in ports]
    return Connection(controllers, patience=PATIENCE, transport=RecordingTransport(client, controllers, record))


def passes(error: StrandlineError) -> bool:
    """Whether an error only says that the controller is away just now."""
    return isinstance(error, (Unavailable, Undecided))


@dataclass(slots=True)
class WriterProgram:
    """Writes to a shared log, and notes: with a BackgroundWriter, or, if it is `waiting`, with a Writer.

    Now and then it ends without a word, as a crash would end it, and starts again under its name; or it goes idle.
    """

    name: str
    stream: str
    log: ScriptedLog
    ports: Sequence[int]
    record: Recorder
    chance: random.Random
    over: threading.Event
    given_up: threading.Event
    waiting: bool = False
    last: int = 0

    def run(self) -> None:
        """One life after the other; after the end of the load, until one has closed in order, or nobody waits."""
        while not self.given_up.is_set():
            try:
                if self._life():
                    return
            except StrandlineError as error:
                self._tell(error)
            except Exception as error:  # a fault of the client: it may not raise what is no error of ours
                self.record(Said(self.name, self.stream, time.monotonic(), "raised", type(error).__name__, str(error)))

    def _tell(self, error: StrandlineError, kind: str = "raised") -> None:
        if not passes(error) and error.code != "not_drained":
            self.record(Said(self.name, self.stream, time.monotonic(), kind, error.code, str(error)))

    def _report(self, report: Report) -> None:
        if isinstance(report, NoteRefused) and isinstance(report.error, StrandlineError):
            self._tell(report.error, "refused")

    def _life(self) -> bool:
        """Returns whether the writer was closed."""
        with connection(self.name, self.ports, self.record) as reached:
            log = self.log.writer()
            writer = (
                Writer(reached, self.stream, self.name, log=log)
                if self.waiting
                else BackgroundWriter(reached, self.stream, self.name, log=log, on_report=self._report)
            )
            try:
                self._register(writer)
                return self._work(writer)
            finally:
                writer.release()

    def _register(self, writer: Writer | BackgroundWriter) -> None:
        floors = writer.register().floors
        self.last = max(self.last, *(floor or 0 for floor in floors.values()), 0)

    def _work(self, writer: Writer | BackgroundWriter) -> bool:
        """Until the load is over, and then it closes in order; or until it crashes."""
        while not self.over.is_set():
            now = max(wall_ms(), self.last)
            events = [
                Event(json.dumps({"time": now, "writer": self.name}).encode(), segment=self.chance.choice("01"))
                for _ in range(self.chance.randrange(1, 4))
            ]
            writer.write(events)
            self.last = now + 1
            try:
                writer.note_time(self.last)
            except StrandlineError as error:
                if not passes(error):
                    raise
            if self.chance.random() < 0.01:
                return False
            if self.chance.random() < 0.01:
                writer.idle()
                self._register(writer)
            time.sleep(self.chance.random() * (0.4 if self.waiting else 0.16))
        self.last = max(self.last, wall_ms())
        writer.note_time(self.last)
        writer.close()
        return True


@dataclass(slots=True)
class ReaderProgram:
    """Reads a stream's log as a member of a group, with watermarks."""

    name: str
    group: str
    stream: str
    log: ScriptedLog
    ports: Sequence[int]
    record: Recorder
    chance: random.Random
    over: threading.Event
    number: int = 0

    def run(self) -> None:
        while not self.over.is_set():
            try:
                self._life()
            except StrandlineError as error:
                if not passes(error):
                    told = Said(self.name, self.stream, time.monotonic(), "raised", error.code, str(error))
                    self.record(told)
                time.sleep(0.05)
            except Exception as error:  # a fault of the client: it may not raise what is no error of ours
                self.record(Said(self.name, self.stream, time.monotonic(), "raised", type(error).__name__, str(error)))
                time.sleep(0.05)

    def _life(self) -> None:
        life = f"{self.name}/{self.number}"
        with (
            connection(self.name, self.ports, self.record) as reached,
            EventReader(
                reached,
                self.group,
                self.name,
                {self.stream: self.log.reader()},
                time_domain="event",
                event_time=lambda event: int(decoded(event)["time"]),
            ) as reader,
        ):
            while not self.over.is_set():
                try:
                    item = reader.read(wait_ms=200)
                except StrandlineError as error:
                    if not passes(error):
                        raise
                    continue
                if item is None:
                    continue
                self.number += 1
                if isinstance(item, EventItem):
                    found, event = decoded(item.event), item.event
                    place = self.number, time.monotonic(), self.stream, event.segment, event.offset
                    self.record(Delivered(life, *place, int(found["time"]), str(found["writer"]), item.is_late))
                    time.sleep(self.chance.random() * 0.004)
                elif isinstance(item, WatermarkItem):
                    self.record(Watermark(life, self.number, item.watermark))
                if self.chance.random() < 0.002:
                    return


@dataclass(slots=True)
class WindowProgram:
    """Asks for windows at rising positions, with marks that it keeps."""

    name: str
    stream: str
    ends: Callable[[], Mapping[str, int]]
    ports: Sequence[int]
    record: Recorder
    chance: random.Random
    over: threading.Event

    def run(self) -> None:
        position: dict[str, int] = {}
        with (
            connection(self.name, self.ports, self.record) as reached,
            TimeWindows(reached, self.stream, cached=True, stale_after_ms=2_000) as windows,
        ):
            while not self.over.is_set():
                for segment, end in self.ends().items():
                    step = end if self.chance.random() < 0.03 else position.get(segment, 0) + self.chance.randrange(20)
                    if min(end, step):
                        position[segment] = max(position.get(segment, 0), min(end, step))
                self._ask(windows, dict(position))
                time.sleep(self.chance.random() * 0.1)

    def _ask(self, windows: TimeWindows, position: Mapping[str, int]) -> None:
        began = time.monotonic()
        try:
            told = windows.get_time_window(position)
        except StrandlineError as error:
            if not passes(error):
                self.record(Said(self.name, self.stream, time.monotonic(), "raised", error.code, str(error)))
            return
        bounds = told.lower, told.upper, told.complete, told.mark_seq
        reader = f"{self.name} (program)"
        self.record(Window(reader, began, time.monotonic(), self.stream, "", position, *bounds, cached=True))


def decoded(event: StoredEvent) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(event.value or b"{}")
    return found
