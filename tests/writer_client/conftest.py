"""The real controller, both kinds of writer, and what goes wrong between them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from strandline.client import calls
from strandline.client.calls import Request
from strandline.client.http import (
    Connection,
    HttpTransport,
    Seams,
)
from strandline.client.retry import Patience
from strandline.logs import Position, Transaction
from strandline.logs.sqlite import SqliteLog
from strandline.testing import Fault, FaultyTransport
from strandline.testing.faults import Entry
from strandline.wire.streams import StreamDescription, WireMark
from tests.served import Outside, served
from writer_client import AsyncWriter, Background, BackgroundWriter, Event, Writer
from writer_client.transactions import AsyncWriterTransaction

Value = TypeVar("Value")


OpenLog = Callable[[], SqliteLog]


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[OpenLog]:
    """Opens the log, as another process would."""
    opened: list[SqliteLog] = []

    def open_it() -> SqliteLog:
        opened.append(SqliteLog.create(tmp_path / "log.db", 3))
        return opened[-1]

    yield open_it
    for log in opened:
        log.close()


class Controller(Outside):
    """The controller of these tests, and what became of their streams."""

    def describe(self, stream: str) -> StreamDescription:
        return self.run(calls.describe(stream))

    def states(self, stream: str) -> dict[str, int]:
        """How many of its writers are in which state."""
        return dict(self.describe(stream).writers)

    def marks(self, stream: str, key: str = "") -> tuple[WireMark, ...]:
        return self.run(calls.marks(stream, key=key, limit=1000)).marks


@pytest.fixture(scope="session")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with served(tmp_path_factory.mktemp("controller") / "strandline.db") as connection:
        yield Controller(connection, segments=3)


FAULTS: dict[str, Entry] = {"": None, "away": Fault.CONTROLLER_AWAY, "lost": Fault.ANSWER_LOST}


@dataclass
class Wire:
    """What lies between a writer and the controller: notes down every request, and can lose it or its answer."""

    requests: list[Request] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)  # for each of the next requests: "", "away" or "lost"
    happened: list[str] = field(default_factory=list)  # requests, and what a log adds

    @property
    def lines(self) -> list[str]:
        return [f"{request.method} {request.path.split('/', 4)[-1]}" for request in self.requests]

    def take(self, request: Request) -> Entry:
        self.requests.append(request)
        self.happened.append(f"{request.method} {request.path.split('/', 4)[-1]}")
        return FAULTS[self.faults.pop(0)] if self.faults else None


async def _no_sleep(seconds: float) -> None: ...


AT_ONCE_AGAIN = Patience(first_pause_ms=1, pause_bound_ms=1)
PATIENT = Patience(deadline_ms=60_000, first_pause_ms=1, pause_bound_ms=1)
INSTANT = Seams(sleep=lambda seconds: None, sleep_async=_no_sleep, random=lambda: 0.0)


class Looping:
    """An AsyncWriter, or its transaction, that is used like a Writer's: its event loop runs in another thread."""

    def __init__(self, writer: AsyncWriter | AsyncWriterTransaction, loop: asyncio.AbstractEventLoop) -> None:
        self._writer, self._loop = writer, loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._writer, name)
        return partial(self._run, value) if asyncio.iscoroutinefunction(value) else value

    def _run(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any, **named: Any) -> Any:
        result = asyncio.run_coroutine_threadsafe(function(*arguments, **named), self._loop).result(60)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop).result(60)  # the loop holds the result no more
        return Looping(result, self._loop) if isinstance(result, AsyncWriterTransaction) else result

    def __enter__(self) -> Looping:
        self._run(self._writer.__aenter__)
        return self

    def __exit__(self, *left: Any) -> None:
        self._run(self._writer.__aexit__, *left)


@contextlib.contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


MakeWriter = Callable[..., Any]


@contextlib.contextmanager
def _making(kind: str, controller: Controller) -> Iterator[MakeWriter]:
    """Makes writers of one kind; all are used in the same way: `make(stream, name, wire=…, log=…, on_report=…, …)`.
    What they do by themselves goes on meanwhile."""
    with contextlib.ExitStack() as made:
        loop = made.enter_context(running_loop())

        def make(
            stream: str, name: str = "w1", *, wire: Wire | None = None, patience: Patience = PATIENT, **options: Any
        ) -> Any:
            wire = wire if wire is not None else Wire()
            transport = FaultyTransport(HttpTransport(controller.url), wire)
            # One attempt of a call in the background, so that what is repeated is repeated by the background.
            patience = Patience(attempts=1) if kind == "background" else patience
            connection = Connection(controller.url, transport=transport, patience=patience, seams=INSTANT)
            made.callback(connection.close)
            if kind == "awaiting":
                writer: Any = Looping(AsyncWriter(connection, stream, name, **options), loop)
            elif kind == "waiting":
                writer = Writer(connection, stream, name, **options)
            else:
                background = made.enter_context(Background(connection, patience=AT_ONCE_AGAIN))
                writer = BackgroundWriter(background, stream, name, **options)
            made.callback(writer.release)
            return writer

        yield make


@pytest.fixture(params=["waiting", "awaiting"])
def make_writer(request: pytest.FixtureRequest, controller: Controller) -> Iterator[MakeWriter]:
    """Makes writers whose calls return with the answer."""
    with _making(request.param, controller) as make:
        yield make


@pytest.fixture
def make_background(controller: Controller) -> Iterator[MakeWriter]:
    """Makes background writers."""
    with _making("background", controller) as make:
        yield make


@pytest.fixture(params=["background", "waiting", "awaiting"])
def make_any(request: pytest.FixtureRequest, controller: Controller) -> Iterator[MakeWriter]:
    """Makes writers of all three kinds."""
    with _making(request.param, controller) as make:
        yield make


@pytest.fixture
def wire() -> Wire:
    return Wire()


class LateLog:
    """A log that acknowledges only when flushed, like one behind a network, and not before a test lets it; what a test
    sets to fail, fails."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._ends: Position = {}
        self._sent: Position = {}
        self._acknowledged: Position = {}
        self.failure: Exception | None = None  # of what is under way
        self.refusal: Exception | None = None  # of an append
        self.flushes = threading.Event()  # set while someone waits for what is acknowledged
        self.acknowledges = threading.Event()
        self.acknowledges.set()

    def append(self, events: Iterable[Event]) -> Position:
        if self.refusal is not None:
            raise self.refusal
        for event in events:
            segment = event.segment if event.segment is not None else "0"
            self._ends[segment] = self._sent[segment] = self._ends.get(segment, 0) + 1
        self._wire.happened.append("append")
        return dict(self._acknowledged)

    def flush(self) -> Position:
        sent = dict(self._sent)
        self.flushes.set()
        assert self.acknowledges.wait(30), "no test keeps acknowledgements for longer"
        self.flushes.clear()
        if self.failure is not None:
            raise self.failure
        self._wire.happened.append("flush")
        self._acknowledged.update(sent)
        return self.positions()

    def positions(self) -> Position:
        return dict(self._acknowledged)

    def end_offsets(self) -> Position:
        return dict(self._ends)

    def forget_own(self) -> None:
        """What was appended so far was someone else's."""
        self._sent.clear()
        self._acknowledged.clear()

    def begin(self) -> Transaction:
        raise NotImplementedError("this log has no transactions")

    def in_transaction(self, besides: Transaction | None = None) -> bool:
        return False

    def memo(self, name: str) -> str | None:
        return None

    def close(self) -> None: ...


class BlockedLog(LateLog):
    """Appends when a test lets it."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self.appends = threading.Event()
        self.lets = threading.Event()

    def append(self, events: Iterable[Event]) -> Position:
        self.appends.set()
        assert self.lets.wait(30)
        return super().append(events)


@pytest.fixture
def late_log(wire: Wire) -> LateLog:
    return LateLog(wire)
