"""Drawn histories of a reader with windows: it is killed, streams are added, segments split, marks leave writers out.

Every window is delivered once, or again as it was after a kill, and has each event that was on time, or names the
event's writer as left out. Writers keep their word: they write nothing older than what they noted, or got as a floor.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from reader_client import EventItem, EventReader, ReaderGroup, Tumbling, WatermarkItem
from reader_client.event_windows import Closed
from reader_client.items import Item
from reader_client.windowing import Windowing
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import NewSegment
from strandline.logs import Event, StoredEvent
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from strandline.testing import InProcessController

WIDTH: Final = 10
TIMEOUT_MS: Final = 5_000
STEPS: Final = 100
STREAMS: Final = ("x", "y")
WRITERS: Final = ("a", "b", "c")
CONFIG: Final = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=TIMEOUT_MS)

Span = tuple[int, int]


def time_of(event: StoredEvent) -> int:
    time: int = json.loads(event.value or b"")[0]
    return time


def value(item: EventItem) -> list[Any]:
    found: list[Any] = json.loads(item.event.value or b"")
    return found


@dataclass
class World:
    """Two streams, of which a group reads one at first, and what was written and delivered."""

    controller: InProcessController
    connection: Connection
    folder: Path
    seed: int
    open: ExitStack
    promised: dict[tuple[str, str], int] = field(default_factory=dict)
    written: list[tuple[str, int, str, int]] = field(default_factory=list)  # stream, time, writer, number
    joined: int = 0  # the group had come to this time before it read the second stream
    delivered: dict[Span, Closed[Any]] = field(default_factory=dict)
    unsettled: dict[Span, Closed[Any]] = field(default_factory=dict)  # handed out by a process that was killed then
    returned: int = 0  # the greatest watermark
    reader: EventReader | None = None
    windowing: Windowing | None = None

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.now_ms = 0.0
        self.group = self.open.enter_context(ReaderGroup(self.connection, f"g{self.seed}"))
        self.logs, self.tails = dict[str, SqliteLog](), dict[str, SqliteLogReader]()
        for stream in STREAMS:
            path = self.folder / f"{stream}.log"
            self.logs[stream] = self.open.enter_context(SqliteLog.create(path, segments=1))
            self.tails[stream] = self.open.enter_context(SqliteLogReader(path))
            self.connection.run(calls.create_stream(self.name(stream), [NewSegment("0", 0, 1)], CONFIG))
        self.read_streams = [self.name("x")]
        self.group.create(self.read_streams, reader_timeout_ms=None)

    def name(self, stream: str) -> str:
        return f"{stream}{self.seed}"

    def step(self) -> None:
        acts = ["write", "note", "read", "kill", "time", "exclude", "include", "split", "add", "close"]
        act = self.random.choices(acts, [20, 16, 14, 5, 3, 1, 3, 1, 1, 1])[0]
        stream, writer = self.random.choice(STREAMS), self.random.choice(WRITERS)
        place = stream, writer
        match act:
            case "write":
                self.promised.setdefault(place, self.register(place))
                self.write(place, self.promised[place] + self.random.choice((0, 0, 1, 7, 25)))
            case "note":
                self.promised.setdefault(place, self.register(place))
                self.note(place, self.random.choice((0, 3, 11)))
            case "read":
                self.read(self.random.choice((None, None, 1, 2)))
            case "kill":
                self.kill()
            case "time":
                self.controller.pass_time(self.random.choice((1_000, TIMEOUT_MS + 1)))
            case "exclude" | "include" if place in self.promised:
                call = calls.exclude if act == "exclude" else calls.include
                self.connection.run(call(self.name(stream), writer))
            case "close" if place in self.promised:
                self.note(place, 0)
                self.connection.run(calls.close(self.name(stream), writer, None))
                del self.promised[place]
            case "split":
                self.split(stream)
            case "add" if len(self.read_streams) == 1:
                self.add()

    def register(self, place: tuple[str, str]) -> int:
        floor = self.connection.run(calls.register(self.name(place[0]), place[1])).floors.get("")
        return 0 if floor is None else floor

    def write(self, place: tuple[str, str], time: int) -> None:
        stream, writer = place
        segment = self.random.choice([each.id for each in self.logs[stream].segments() if each.final_offset is None])
        number = len(self.written)
        self.logs[stream].append([Event(json.dumps([time, writer, number]).encode(), segment=segment)])
        self.logs[stream].flush()
        self.written.append((stream, time, writer, number))

    def note(self, place: tuple[str, str], further: int) -> None:
        """Notes all that was written; what a writer wrote since it was lost is late where the answer says so."""
        stream, writer = place
        self.promised[place] += further
        times, position = {"": self.promised[place]}, dict(self.logs[stream].end_offsets())
        answer = self.connection.run(calls.note(self.name(stream), Note(writer=writer, times=times, position=position)))
        self.promised[place] = max(self.promised[place], answer.floor or 0)

    def split(self, stream: str) -> None:
        live = [each for each in self.logs[stream].segments() if each.final_offset is None]
        chosen, number = self.random.choice(live), len(self.logs[stream].segments())
        assert chosen.low is not None and chosen.high is not None
        middle = (chosen.low + chosen.high) / 2
        halves = [NewSegment(str(number), chosen.low, middle), NewSegment(str(number + 1), middle, chosen.high)]
        finals = self.logs[stream].scale([chosen.id], halves)
        self.connection.run(calls.scale(self.name(stream), finals, halves))

    def add(self) -> None:
        """The group reads the other stream too, from its beginning. What is older there than what it has returned is
        late."""
        self.joined = max(self.group.get_time_window().watermarks.get("") or 0, self.returned)
        self.read_streams.append(self.name("y"))
        self.group.change(streams=self.read_streams)

    # -- the reader ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        logs = {self.name(stream): self.tails[stream] for stream in STREAMS}
        reader = EventReader(
            self.connection, f"g{self.seed}", "r", logs, time_domain="event", event_time=time_of,
            report_ms=self.random.choice((1, 20)), now_ms=lambda: self.now_ms,
        )  # fmt: skip
        self.windowing = Windowing.begin(reader._reading, Tumbling(WIDTH), self.folder / "state", None, value, "")
        self.reader, reader._reading = reader, self.windowing.reading
        reader._run(reader._reading.open())

    def read(self, dies_after: int | None) -> None:
        """Reads all that is there; a process may be killed while it hands out the windows of one watermark."""
        if self.reader is None:
            self.begin()
            assert self.windowing is not None
            if not self.hand_out(self.windowing.resume(), dies_after):
                return
            self.windowing.settle()
            self.settled()
        reader, windowing = self.reader, self.windowing
        assert reader is not None and windowing is not None
        while (item := self.next_of(reader)) is not None:
            windowing.prepare(item)
            if not self.hand_out(windowing.take(item), dies_after):
                return
            windowing.keep(item)
            if isinstance(item, WatermarkItem):
                self.returned = max(self.returned, item.watermark)
                self.settled()

    def next_of(self, reader: EventReader) -> Item | None:
        self.now_ms += 1
        return reader.read(0)

    def hand_out(self, windows: list[Closed[Any]], dies_after: int | None) -> bool:
        for count, window in enumerate(windows):
            if count == dies_after:
                self.kill()
                return False
            span = window.start, window.end
            assert span not in self.delivered, f"{window} came after {self.delivered[span]}"
            assert self.unsettled.get(span, window) == window, f"{window} came again, and was {self.unsettled[span]}"
            self.unsettled[span] = window
        return True

    def settled(self) -> None:
        self.delivered |= self.unsettled
        self.unsettled.clear()

    def kill(self) -> None:
        if self.reader is not None:
            self.reader._release()
            self.reader = self.windowing = None

    def check(self) -> None:
        """Every event on time is in its window, or its writer is named there."""
        read = {name[0] for name in self.read_streams}
        for stream, time, writer, number in self.written:
            start = time // WIDTH * WIDTH
            window = self.delivered.get((start, start + WIDTH))
            if window is None or stream not in read or writer in window.without:
                continue
            if stream == "y" and time < self.joined:
                continue
            assert [time, writer, number] in window.events, f"{window} lacks {(stream, time, writer, number)}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[InProcessController, Connection]]:
    logging.disable()
    path = tmp_path_factory.mktemp("once") / "s.db"
    with InProcessController(path) as controller, controller.connection() as connection:
        yield controller, connection
    logging.disable(logging.NOTSET)


# These find a new segment that begins without a bound, and windows that do not come again as they were.
@pytest.mark.parametrize("seed", [9, 18, 20, *[pytest.param(seed, marks=pytest.mark.full) for seed in range(21, 60)]])
def test_each_window_comes_once_and_has_all_that_was_on_time(
    served: tuple[InProcessController, Connection], seed: int, tmp_path: Path
) -> None:
    with ExitStack() as opened:
        world = World(*served, tmp_path, seed, opened)
        for _ in range(STEPS):
            world.step()
        world.read(None)
        world.check()
        world.kill()
