"""From writers to windows on real parts: every window is the truth of the log, and is out when the marks say so."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, functions

from reader_client import TimeWindows
from spark_integration import exact_watermark
from strandline.core.config import StreamConfig
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from writer_client import Event, Writer

Read = Callable[..., DataFrame]

WIDTH_MS = 10_000
# A writer that is away for less than an hour is waited for.
CONFIG = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=3_600_000)

pytestmark = [pytest.mark.spark, pytest.mark.full]


def count_windows(df: DataFrame) -> DataFrame:
    return df.groupBy(functions.window("event_time", f"{WIDTH_MS} milliseconds")).count()


def exact(df: DataFrame) -> DataFrame:
    return count_windows(exact_watermark(df, event_time="event_time"))


def made(times: Iterable[int]) -> list[Event]:
    """Events at these times, whose keys spread them over the segments."""
    return [Event(b"%d" % time, key=b"%d" % (time % 101)) for time in times]


class Scene:
    """A stream with several writers, each with its own view of the log, and what the log says of them all."""

    def __init__(self, controller: Any, stream: Any, path: Path, opened: ExitStack) -> None:
        self._controller, self._stream, self._path, self._opened = controller, stream, path, opened
        self._windows = TimeWindows(controller.connection, stream.name)
        self._reader = opened.enter_context(SqliteLogReader(path))

    def writer(self, name: str) -> Writer:
        """A registered writer."""
        log = self._opened.enter_context(SqliteLog(self._path))
        writer = Writer(self._controller.connection, self._stream.name, name, log=log)
        writer.register()
        return writer

    def truth(self) -> dict[int, int]:
        """How many events each window has, counted from the log as it is now."""
        ends = self._reader.end_offsets().items()
        times = (int(event.value or b"") for name, end in ends for event in self._reader.rows(name, 0, end))
        return dict(Counter(time // WIDTH_MS * WIDTH_MS for time in times))

    def watermark(self) -> int | None:
        """What the controller says of one who has read all of the log."""
        return self._windows.get_time_window(self._reader.end_offsets()).lower

    def closed(self) -> dict[int, int]:
        """The windows that are to be out now, neither fewer nor more: those that end before the watermark."""
        watermark = self.watermark()
        if watermark is None:
            return {}
        return {start: count for start, count in self.truth().items() if start + WIDTH_MS < watermark}

    def seal(self) -> None:
        """Nothing follows."""
        with SqliteLog(self._path) as log:
            self._stream.seal(log.seal())


@pytest.fixture
def stream(controller: Any) -> Any:
    return controller.stream(CONFIG)


@pytest.fixture
def scene(controller: Any, stream: Any, event_log: Any) -> Iterator[Scene]:
    with ExitStack() as opened:
        yield Scene(controller, stream, event_log.path, opened)


class Pace:
    """Lets writers take some steps for each batch that Spark makes: they go on while it reads, and no longer."""

    STEPS_PER_BATCH = 40

    def __init__(self) -> None:
        self._steps = threading.Semaphore(self.STEPS_PER_BATCH)
        self._batches = threading.Semaphore(0)
        self._over = False

    def after_batch(self) -> None:
        self._steps.release(self.STEPS_PER_BATCH)
        self._batches.release()

    def wait_for_batches(self, batches: int) -> None:
        for _ in range(batches):
            assert self._batches.acquire(timeout=60), "the query stands still"

    def end(self, writers: int) -> None:
        self._over = True
        self._steps.release(writers)

    def goes_on(self) -> bool:
        """Waits for the next step; whether there is one."""
        assert self._steps.acquire(timeout=60), "the query stands still"
        return not self._over


class Errand:
    """What one writer does, by chance: it goes on and notes, is away and keeps what it has, or is idle for a while."""

    def __init__(self, scene: Scene, name: str, seed: int) -> None:
        self._writer = scene.writer(name)
        self._chance = random.Random(f"{seed} {name}")
        self._idle = False
        self._time = 0
        self._kept: list[int] = []

    def run(self, pace: Pace) -> None:
        while pace.goes_on():
            match self._chance.randrange(8):
                case 0:
                    self._go_on()
                case 1:
                    self._come()
                    self._writer.idle()
                    self._idle = True
                case 2 if self._idle:
                    pass
                case _:
                    self._go_on()
                    self._come()
        self._come()
        self._writer.close()

    def _wake(self) -> None:
        """Time went on without it: what it makes from here on is not older than its floor."""
        if self._idle:
            self._writer.register()
            self._time = max(self._time, self._writer.floor or 0)
            self._idle = False

    def _go_on(self) -> None:
        self._wake()
        self._kept += [self._time + self._chance.randrange(3_000) for _ in range(self._chance.randrange(12))]
        self._time += self._chance.choice([0, 500, 2_000])

    def _come(self) -> None:
        self._wake()
        self._writer.write(made(self._kept))
        self._kept = []
        self._writer.note_time(self._time)


@pytest.mark.parametrize("seed", [1])
def test_random_writers_and_kills_leave_the_logs_true_windows(
    scene: Scene, read: Read, running: Any, controller: Any, seed: int
) -> None:
    errands = [Errand(scene, name, seed) for name in ("one", "two", "three", "four")]
    pace = Pace()
    with ThreadPoolExecutor(len(errands)) as pool:
        under_way = [pool.submit(errand.run, pace) for errand in errands]
        with running(exact(read(maxRowsPerBatch=60)), after_batch=pace.after_batch) as first:  # it falls behind
            pace.wait_for_batches(4)
            controller.crash()
            controller.start()
            pace.wait_for_batches(4)
        with running(exact(read()), before=first, after_batch=pace.after_batch) as run:
            pace.wait_for_batches(3)
            pace.end(len(errands))
            for each in under_way:
                each.result(60)
            assert run.settle() == scene.closed()
            scene.seal()
            assert run.settle() == scene.truth()
