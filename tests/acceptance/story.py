"""The story that a log and its writers must get through: three writer processes, each at its own speed, over a split
and a merge; one is killed, one is started again while its old process still runs, one is away for longer than its
timeout.

    place = SqlitePlace(folder)                     # or another log: see `Place`
    evidence = tell(connection, "orders", place, folder)
    judgement = judge(evidence)                     # in late_events.py
    assert judgement.silent == [] and judgement.disorder == []
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.config import StreamConfig
from strandline.core.segment import NewSegment
from strandline.logs import LogReader
from strandline.wire.streams import WireMark
from tests.acceptance.late_events import Evidence, Told, Written
from tests.acceptance.writer_process import Part

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Scaling:
    """What a log did to its segments: for the controller to hear."""

    seal: dict[str, int]
    create: Sequence[NewSegment]


class Place(Protocol):
    """Where the events go. Writer processes open the log by `opener`, "module:function", called with `options` and with
    the `writer` and its `kind`."""

    @property
    def opener(self) -> str: ...

    @property
    def options(self) -> dict[str, Any]: ...

    @property
    def segments(self) -> int | Literal["open"]: ...

    def reader(self) -> LogReader: ...

    def split(self) -> Scaling | None:
        """Splits a segment, or makes more of them in another way; None where the controller need not be told."""
        ...

    def merge(self) -> Scaling | None:
        """Merges two segments; None where the log cannot."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things take. The ordinary run scales a minute down to seconds."""

    writer_timeout_ms: int = 700
    away_ms: int = 1_500
    calm_ms: int = 300  # that everyone writes undisturbed, between two events of the story
    mark_interval_ms: int = 20
    patience_ms: int = 60_000


FULL = Pace(writer_timeout_ms=20_000, away_ms=60_000, calm_ms=5_000, mark_interval_ms=100, patience_ms=180_000)


@dataclass(frozen=True, slots=True)
class Habit:
    """How a writer of the story writes: the pause between writes, and how far its events are behind the clock."""

    kind: Literal["plain", "background", "transactions"]
    pause_ms: float
    behind_ms: int


HABITS = {
    "w1": Habit("background", 4.0, 0),
    "w2": Habit("transactions", 15.0, 40),
    "w3": Habit("plain", 50.0, 150),
}


@dataclass
class Stage:
    """The processes, and what the controller makes of them."""

    connection: Connection
    stream: str
    place: Place
    folder: Path
    pace: Pace
    transactions: bool = False
    lives: dict[str, int] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, writer: str) -> str:
        """Starts another life of a writer; gives its name."""
        self.lives[writer] = self.lives.get(writer, 0) + 1
        process = f"{writer}#{self.lives[writer]}"
        habit = HABITS[writer]
        part = Part(
            controller=self.connection.controller,
            stream=self.stream,
            process=process,
            opener=self.place.opener,
            options={**self.place.options, "writer": writer, "kind": habit.kind},
            journal=str(self.journal(process)),
            kind=habit.kind if self.transactions or habit.kind != "transactions" else "plain",
            pause_ms=habit.pause_ms,
            behind_ms=habit.behind_ms,
        )
        command = [sys.executable, "-m", "tests.acceptance.writer_process", part.to_json()]
        self.running[process] = subprocess.Popen(command, cwd=ROOT)
        return process

    def journal(self, process: str) -> Path:
        return self.folder / f"{process}.journal"

    def signal(self, process: str, number: signal.Signals) -> None:
        self.running[process].send_signal(number)

    def wait_for_end(self, process: str) -> int:
        return self.running[process].wait(self.pace.patience_ms / 1000)

    def marks(self, after: int = 0) -> tuple[WireMark, ...]:
        """All marks after a seq."""
        found: list[WireMark] = []
        while page := self.connection.run(calls.marks(self.stream, after=after, limit=1000)).marks:
            found += page
            after = page[-1].seq
        return tuple(found)

    def wait_for_mark(self, wanted: Callable[[WireMark], bool], what: str) -> WireMark:
        """The first mark from now on that is as wanted."""
        deadline = time.monotonic() + self.pace.patience_ms / 1000
        seen = self.marks()
        after = seen[-1].seq if seen else 0
        while time.monotonic() < deadline:
            page = self.connection.run(calls.marks(self.stream, after=after, limit=1000, wait_ms=1_000)).marks
            for mark in page:
                if wanted(mark):
                    return mark
                after = mark.seq
        raise AssertionError(f"no mark {what} in {self.pace.patience_ms} ms; the last one is {self.marks()[-1:]}")

    def calm(self, ms: int | None = None) -> None:
        """Lets everyone write undisturbed, until time has moved on so far."""
        seen = self.marks()
        until = time.time_ns() // 1_000_000 + (ms if ms is not None else self.pace.calm_ms)
        self.wait_for_mark(lambda mark: mark.created_at >= until, f"in calm after {seen[-1:]}")

    def scale(self, scaling: Scaling | None) -> None:
        if scaling is not None:
            self.connection.run(calls.scale(self.stream, scaling.seal, scaling.create))
            names = {segment.id for segment in scaling.create}
            self.wait_for_mark(lambda mark: bool(names & mark.cut.keys()), f"that names one of {names}")


def tell(
    connection: Connection,
    stream: str,
    place: Place,
    folder: Path,
    pace: Pace | None = None,
    *,
    transactions: bool = False,
) -> Evidence:
    """Runs the story on a real controller, and gives all that is to be judged. It takes some seconds.

    With `transactions`, which the log as it is opened has to allow, w2 writes in them.
    """
    with _stage(connection, stream, place, folder, pace if pace is not None else Pace()) as stage:
        stage.transactions = transactions
        first, second, third = (stage.start(writer) for writer in HABITS)
        stage.wait_for_mark(lambda mark: mark.complete, "that is complete")
        stage.calm()
        stage.scale(place.split())
        stage.calm()

        stage.signal(first, signal.SIGKILL)
        stage.wait_for_mark(lambda mark: "w1" in mark.excluded, "without w1, which was killed")
        first = stage.start("w1")
        stage.wait_for_mark(lambda mark: mark.complete, "that is complete again after w1 was killed")

        old, second = second, stage.start("w2")
        assert stage.wait_for_end(old) == 0, "the old process of w2 ends when it is fenced"
        stage.calm()

        stage.signal(third, signal.SIGSTOP)
        stage.wait_for_mark(lambda mark: "w3" in mark.excluded, "without w3, which is away")
        stage.scale(place.merge())
        stage.calm(stage.pace.away_ms)
        stage.signal(third, signal.SIGCONT)
        stage.wait_for_mark(lambda mark: mark.complete, "that is complete again after w3 was away")
        stage.calm()

        for process in (first, second, third):
            stage.signal(process, signal.SIGTERM)
        for process in (first, second, third):
            assert stage.wait_for_end(process) == 0, f"{process} closes"
        connection.run(calls.evaluate(stream))
        return _evidence(stage)


@contextmanager
def _stage(connection: Connection, stream: str, place: Place, folder: Path, pace: Pace) -> Iterator[Stage]:
    config = StreamConfig(
        writer_timeout_ms=pace.writer_timeout_ms, mark_interval_ms=pace.mark_interval_ms, min_writers=len(HABITS)
    )
    connection.run(calls.create_stream(stream, place.segments, config))
    stage = Stage(connection, stream, place, folder, pace)
    try:
        yield stage
    finally:
        for process in stage.running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()


def _evidence(stage: Stage) -> Evidence:
    events = []
    with stage.place.reader() as reader:
        for segment, end in reader.end_offsets().items():
            for row in reader.rows(segment, 0, end):
                assert row.value is not None
                process, number, moment = json.loads(row.value)
                events.append(Written(process, number, moment, segment, row.offset))
    described = stage.connection.run(calls.describe(stage.stream))
    return Evidence(
        events=sorted(events),
        marks=stage.marks(),
        told={process: _told(stage.journal(process)) for process in stage.running},
        segments=[each.segment for each in described.segments],
    )


def _told(journal: Path) -> list[Told]:
    """The answers and refusals in a process's journal; of one that was killed the last line may be half written."""
    lines = [json.loads(line) for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [
        Told(line["written"], line.get("refused"), line.get("late", False), line.get("floor"))
        for line in lines
        if line.keys() & {"refused", "late"}
    ]
