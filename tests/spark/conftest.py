"""Real Spark, a real log, and the real controller in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import pytest

from benchmarks.starting import patiently
from strandline.client import calls
from strandline.client.calls import Call
from strandline.client.http import Connection
from strandline.client.retry import Patience
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import NewSegment
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from tests.spark.connector import connector_jars
from tests.spark.queries import Query, dropped
from tests.spark_python import ready_spark_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

Value = TypeVar("Value")

PATIENCE_S = 240
WHOLE_STAGE = "spark.sql.codegen.wholeStage"

# A mark for every advance, no bound to the times, and no writer is ever given up.
AT_ONCE = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None)


class Controller:
    """`strandline serve` on a loopback port. It may crash, and come back on the same port with the same store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = 0
        self._names = count(1)
        self.start()
        self.connection = Connection(self.url, patience=Patience(deadline_ms=120_000))

    def start(self) -> None:
        command = [sys.executable, "-m", "controller", "serve", "--database", str(self._folder / "store.db")]
        with (self._folder / "log").open("a") as errors:
            self._process = subprocess.Popen(
                [*command, "--port", str(self._port)],
                stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert " at http://" in line, f"it did not start: {line}{(self._folder / 'log').read_text()}"
        self.url = line.rpartition(" at ")[2].strip()
        self._port = int(self.url.rpartition(":")[2])

    def crash(self) -> None:
        """Ends it at once, as a power cut would (SIGKILL)."""
        self._process.kill()
        self._finish()

    def stop(self) -> None:
        self.connection.close()
        self._process.terminate()
        self._finish()

    def _finish(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.wait(30)

    def stream(self, config: StreamConfig = AT_ONCE, segments: int | Literal["open"] = 3) -> Stream:
        """A new stream."""
        name = f"stream-{next(self._names)}"
        self.connection.run(calls.create_stream(name, segments, config))
        return Stream(self, name)


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of the controller. A test that scripts its marks does it as one writer, who notes them."""

    controller: Controller
    name: str

    @property
    def url(self) -> str:
        return self.controller.url

    def run(self, call: Call[Value]) -> Value:
        return self.controller.connection.run(call)

    def mark(self, time: int, cut: Mapping[str, int]) -> None:
        """Brings about a mark: everything older than `time` lies below `cut`, joined with the cuts before."""
        answer = self.run(calls.note(self.name, Note(writer="script", times={"": time}, position=cut)))
        assert [mark.time for mark in answer.marks] == [time]

    def scale(self, seal: Mapping[str, int], create: Sequence[NewSegment]) -> None:
        self.run(calls.scale(self.name, seal, create))

    def seal(self, final: Mapping[str, int]) -> None:
        """The stream ends at `final`."""
        self.run(calls.seal(self.name, final))


@pytest.fixture(scope="session")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """One process for all; each test takes a stream of its own."""
    started = Controller(tmp_path_factory.mktemp("controller"))
    yield started
    started.stop()


@pytest.fixture
def stream(controller: Controller) -> Stream:
    return controller.stream()


@dataclass
class EventLog:
    """A log whose events are times in ms, and what was written to it, for plain-Python truths."""

    path: Path
    log: SqliteLog
    written: list[int] = field(default_factory=list)

    @classmethod
    def create(cls, path: Path) -> EventLog:
        return cls(path, SqliteLog.create(path, 3))

    def append(self, segment: str, times: Iterable[int]) -> None:
        times = list(times)
        self.log.append(Event(b"%d" % time, key=b"k%d" % (time % 3), segment=segment) for time in times)
        self.written += times

    def windows(self, width_ms: int) -> dict[int, int]:
        """The truth: how many events each tumbling window has, by its start."""
        counts: dict[int, int] = {}
        for time in self.written:
            start = time // width_ms * width_ms
            counts[start] = counts.get(start, 0) + 1
        return counts


@pytest.fixture
def event_log(tmp_path: Path) -> Iterator[EventLog]:
    created = EventLog.create(tmp_path / "orders.db")
    yield created
    created.log.close()


@pytest.fixture(scope="session")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What Spark starts where it needs a Python."""
    with ready_spark_python(tmp_path_factory.mktemp("python")) as program:
        yield program


@pytest.fixture(scope="session")
def spark(pythons: str) -> Iterator[SparkSession]:
    """One small local session for all modules, with the source registered. Tests put back what they set in it."""
    from pyspark.sql import SparkSession

    from spark_integration import prepare, register

    before = dict(os.environ)
    os.environ["PYSPARK_PYTHON"] = pythons
    prepare()
    session: SparkSession = (
        SparkSession.builder.master("local[2]")
        .appName("strandline tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config(WHOLE_STAGE, "false")  # compiling each plan costs more than so few rows gain
        .config("spark.python.worker.reuse", "true")
        .config("spark.sql.streaming.pollingDelay", "100ms")
        .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
        .config("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")  # as docs/spark.md asks for
        # Hadoop starts a process for the rights of each file that it makes, those with checksums among them.
        .config("spark.sql.streaming.checkpoint.fileChecksum.enabled", "false")
        .config("spark.hadoop.fs.AbstractFileSystem.file.impl", "org.apache.hadoop.fs.local.RawLocalFs")
        .config("spark.jars", connector_jars())
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    os.environ.clear()  # Spark has read it, and other tests' processes are not to
    os.environ.update(before)
    register(session)
    yield session
    session.stop()


@pytest.fixture
def read(spark: SparkSession, stream: Stream, event_log: EventLog) -> Callable[..., DataFrame]:
    """The test's stream as a DataFrame, its event time parsed from the value as a user would: `read(option=…)`."""
    from pyspark.sql import functions

    def read(**options: object) -> DataFrame:
        given = {"controller": stream.url, "stream": stream.name, "path": event_log.path, **options}
        reader = spark.readStream.format("strandline")
        for name, value in given.items():
            reader = reader.option(name, str(value))
        text = functions.col("value").cast("string").cast("bigint")
        return patiently(reader.load).withColumn("event_time", functions.timestamp_millis(text))

    return read


class Run:
    """A query over windows that keeps what it emits, and can be fed step by step. It may go on where one stopped."""

    def __init__(
        self,
        windows: DataFrame,
        checkpoint: Path,
        available_now: bool,
        before: Run | None,
    ) -> None:
        self.batches: dict[int, dict[int, int]] = {} if before is None else dict(before.batches)
        writer = windows.writeStream.outputMode("append").foreachBatch(self._keep)
        writer = writer.option("checkpointLocation", str(checkpoint))
        triggered = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="0 seconds")
        self._running = Query(triggered.start)

    def _keep(self, batch: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions

        rows = batch.select(functions.unix_millis("window.start").alias("start"), "count").collect()
        emitted = {row["start"]: row["count"] for row in rows}
        # A batch that was stopped half-way runs again, and is then to be what it was.
        assert self.batches.setdefault(batch_id, emitted) == emitted

    def settle(self) -> dict[int, int]:
        """Waits until all that is there now is processed, and gives every window that was emitted so far."""
        self._running.until_at_rest()
        return self.windows()

    def finish(self) -> dict[int, int]:
        """Waits until an `available_now` query has ended, and gives every window that was emitted."""
        assert self._running.until_ended(PATIENCE_S)
        return self.windows()

    @property
    def query(self) -> StreamingQuery:
        return self._running.now

    def windows(self) -> dict[int, int]:
        """Every window that was emitted so far, by its start: how many events it has."""
        emitted = [window for batch in self.batches.values() for window in batch.items()]
        windows = dict(emitted)
        assert len(windows) == len(emitted), "a window was emitted twice"
        return windows

    def progress(self) -> list[StreamingQueryProgress]:
        return self._running.progress()

    def dropped(self) -> int:
        """How many rows Spark dropped as late, over all batches and operators."""
        return dropped(self.progress())


@pytest.fixture
def running(tmp_path: Path) -> Callable[..., AbstractContextManager[Run]]:
    """Runs a query while the block lasts: `with running(windows) as run`. An exact one drops nothing."""

    @contextmanager
    def running(
        windows: DataFrame,
        checkpoint: str = "checkpoint",
        *,
        available_now: bool = False,
        exact: bool = True,
        before: Run | None = None,
    ) -> Iterator[Run]:
        run = Run(windows, tmp_path / checkpoint, available_now, before)
        try:
            yield run
        finally:
            run.query.stop()
        assert not (exact and run.dropped()), "rows were dropped"

    return running
