"""The real controller, with streams that have marks."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from reader_client import AsyncEventReader, AsyncGroupReader, EventReader, ReaderGroup
from strandline.client import calls
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import NewSegment
from strandline.logs import Event, Log, LogReader
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from strandline.paced_log import OF_THE_PROCESS
from tests.served import AT_ONCE, Outside, served

Value = TypeVar("Value")


class Controller(Outside):
    """The controller of these tests; `note` brings about a mark where one writer alone says so."""

    def note(self, stream: str, time: int, position: Mapping[str, int], key: str = "") -> None:
        self.run(calls.note(stream, Note(writer="w1", times={key: time}, position=position)))


@pytest.fixture(scope="session")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with served(tmp_path_factory.mktemp("controller") / "strandline.db") as connection:
        yield Controller(connection)


@dataclass
class Written:
    """A stream of the controller, and the log that has its events. An event's value is its time, in digits."""

    controller: Controller
    stream: str
    log: Log
    open: Callable[[], LogReader]

    def write(self, *events: tuple[str, int]) -> None:
        """Appends events: segment and time of each."""
        self.log.append([Event(b"%d" % time, segment=segment) for segment, time in events])
        self.log.flush()

    def note(self, time: int, writer: str = "w1") -> None:
        """All that is written is older than this, and nothing older follows."""
        position = {segment: offset for segment, offset in self.log.end_offsets().items() if offset}
        self.controller.run(calls.note(self.stream, Note(writer=writer, times={"": time}, position=position)))

    def scale(self, seal: list[str], create: list[NewSegment]) -> None:
        """For the embedded log: Kafka's partitions do not end."""
        assert isinstance(self.log, SqliteLog)
        self.controller.run(calls.scale(self.stream, self.log.scale(seal, create), create))

    def seal(self) -> None:
        final = self.log.seal() if isinstance(self.log, SqliteLog) else self.log.end_offsets()
        self.controller.run(calls.seal(self.stream, final))

    def group(self, reader_timeout_ms: int | None = None, **settings: Any) -> str:
        """A new group that reads this stream."""
        name = f"readers-{next(self.controller.names)}"
        with ReaderGroup(self.controller.url, name) as group:
            group.create([self.stream], reader_timeout_ms=reader_timeout_ms, **settings)
        return name


class Making:
    """Makes streams with a log of one kind."""

    def __init__(self, controller: Controller, folder: Path, kafka: Any) -> None:
        self._controller, self._folder, self._kafka = controller, folder, kafka
        self._opened: list[Any] = []

    def __call__(self, segments: int = 2, config: StreamConfig = AT_ONCE) -> Written:
        stream = self._controller.stream(segments, config)
        log, open_reader = self._on_kafka(stream, segments) if self._kafka else self._in_a_file(stream, segments)
        self._opened.append(log)

        def open_and_keep() -> LogReader:
            self._opened.append(open_reader())
            return self._opened[-1]  # type: ignore[no-any-return]  # just made

        return Written(self._controller, stream, log, open_and_keep)

    def close(self) -> None:
        for each in self._opened:
            each.close()

    def _in_a_file(self, stream: str, segments: int) -> tuple[Log, Callable[[], LogReader]]:
        path = self._folder / f"{stream}.log"
        return SqliteLog.create(path, segments), lambda: SqliteLogReader(path)

    def _on_kafka(self, stream: str, segments: int) -> tuple[Log, Callable[[], LogReader]]:
        from strandline.logs.kafka import KafkaLog
        from strandline.logs.kafka_reader import KafkaLogReader

        servers, topic = self._kafka.servers, f"readers-{stream}"
        self._kafka.create_topic(topic, segments)
        return KafkaLog.connect(servers, topic), lambda: KafkaLogReader(servers, topic)


@pytest.fixture
def written(controller: Controller, tmp_path: Path) -> Iterator[Making]:
    """Makes streams with an embedded log."""
    making = Making(controller, tmp_path, None)
    yield making
    making.close()


@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.full)])
def written_anywhere(request: pytest.FixtureRequest, controller: Controller, tmp_path: Path) -> Iterator[Making]:
    """Makes streams with a log: the test runs once on each kind of log, in `make test` on the embedded one. Another
    kind is added here."""
    kafka = request.getfixturevalue("kafka") if request.param == "kafka" else None
    making = Making(controller, tmp_path, kafka)
    yield making
    making.close()


class Blocking:
    """Something for asyncio, used as if it were not: every coroutine runs to its end."""

    def __init__(self, asynchronous: Any, runner: asyncio.Runner) -> None:
        self._asynchronous, self._runner = asynchronous, runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._asynchronous, name)
        if not inspect.iscoroutinefunction(found):
            return found

        def run(*given: Any, **named: Any) -> Any:
            result = self._runner.run(found(*given, **named))
            return Blocking(result, self._runner) if isinstance(result, AsyncGroupReader) else result

        return run


@pytest.fixture(params=["sync", "async"])
def either(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """One of two twins, the second of them for asyncio: `either(kind, async_kind)` takes what they take, and what it
    makes answers as the first one does. It is closed at the end."""
    with asyncio.Runner() as runner, contextlib.ExitStack() as made:

        def choose(kind: Any, async_kind: Any) -> Callable[..., Any]:
            def make(*given: Any, **named: Any) -> Any:
                is_sync = request.param == "sync"
                one = kind(*given, **named) if is_sync else Blocking(async_kind(*given, **named), runner)
                made.callback(one.close)
                return one

            return make

        yield choose


@pytest.fixture
def event_reader(either: Any) -> Callable[..., Any]:
    """Either kind of event reader."""
    maker: Callable[..., Any] = either(EventReader, AsyncEventReader)
    return maker


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What readers have logged so far."""
    OF_THE_PROCESS.refill()
    caplog.set_level(logging.WARNING, "reader_client")
    return lambda: [each.getMessage() for each in caplog.records if each.name == "reader_client"]
