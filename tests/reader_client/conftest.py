"""The real controller, with streams that have marks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from logs import Event, LogReader
from logs.sqlite import SqliteLog
from logs.sqlite_reader import SqliteLogReader
from reader_client import ReaderGroup
from strandline.config import StreamConfig
from strandline.note import Note
from strandline.protocol import calls
from strandline.protocol.calls import Call
from strandline.protocol.transport import Connection
from strandline.segment import NewSegment
from tests.served import AT_ONCE, served

Value = TypeVar("Value")


@dataclass
class Controller:
    """A running controller; `note` brings about a mark where one writer alone says so."""

    connection: Connection
    names: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def url(self) -> str:
        return self.connection.controller

    def stream(self, segments: int = 2, config: StreamConfig = AT_ONCE) -> str:
        name = f"stream-{next(self.names)}"
        self.run(calls.create_stream(name, segments, config))
        return name

    def note(self, stream: str, time: int, position: Mapping[str, int], key: str = "") -> None:
        self.run(calls.note(stream, Note(writer="w1", times={key: time}, position=position)))

    def run(self, call: Call[Value]) -> Value:
        return self.connection.run(call)


@pytest.fixture(scope="session")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with served(tmp_path_factory.mktemp("controller") / "strandline.db") as connection:
        yield Controller(connection)


@dataclass
class Written:
    """A stream of the controller, and the log that has its events. An event's value is its time, in digits."""

    controller: Controller
    stream: str
    log: SqliteLog
    open: Callable[[], LogReader]

    def write(self, *events: tuple[str, int]) -> None:
        """Appends events: segment and time of each."""
        self.log.append([Event(b"%d" % time, segment=segment) for segment, time in events])

    def note(self, time: int, writer: str = "w1") -> None:
        """All that is written is older than this, and nothing older follows."""
        position = {segment: offset for segment, offset in self.log.end_offsets().items() if offset}
        self.controller.run(calls.note(self.stream, Note(writer=writer, times={"": time}, position=position)))

    def scale(self, seal: list[str], create: list[NewSegment]) -> None:
        self.controller.run(calls.scale(self.stream, self.log.scale(seal, create), create))

    def seal(self) -> None:
        self.controller.run(calls.seal(self.stream, self.log.seal()))

    def group(self, reader_timeout_ms: int | None = None, **settings: Any) -> str:
        """A new group that reads this stream."""
        name = f"group-{next(self.controller.names)}"
        with ReaderGroup(self.controller.url, name) as group:
            group.create([self.stream], reader_timeout_ms=reader_timeout_ms, **settings)
        return name


@pytest.fixture(params=["sqlite"])
def written(request: pytest.FixtureRequest, controller: Controller, tmp_path: Path) -> Iterator[Callable[..., Written]]:
    """Makes streams with a log of every kind. Another kind of log is added here, and nowhere else."""
    opened: list[Any] = []

    def make(segments: int = 2, config: StreamConfig = AT_ONCE) -> Written:
        stream = controller.stream(segments, config)
        match request.param:
            case "sqlite":
                path = tmp_path / f"{stream}.log"
                log = SqliteLog.create(path, segments)
                opened.append(log)

                def open_reader() -> LogReader:
                    opened.append(SqliteLogReader(path))
                    return opened[-1]  # type: ignore[no-any-return]  # just made

                return Written(controller, stream, log, open_reader)
            case other:
                raise ValueError(f"there is no log {other!r}")

    yield make
    for each in opened:
        each.close()
