"""Every stateful operator and output mode of Spark gives exactly the truth, through all that writers and a job go
through."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_integration import read_events
from strandline.core.config import StreamConfig
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from tests.spark.operators import HAS_TIMERS, SCHEMA, Rows, made, operators, states, timers, truth
from tests.spark.queries import Job
from writer_client import Event, Writer

BASE_MS = 100_000  # to Spark, what is not after 1970 began is late
CONFIG = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=3_600_000)

pytestmark = [pytest.mark.spark, pytest.mark.full]


class Devices:
    """Writers of events with a time, an identity, and a kind: "a", or "b", which follows the "a" of its identity."""

    def __init__(self, controller: Any, stream: Any, path: Path, opened: ExitStack) -> None:
        self._connection, self._stream, self._path, self._opened = controller.connection, stream, path, opened
        self._identities = 0
        self.events: list[dict[str, Any]] = []

    def writer(self, name: str) -> Writer:
        writer = Writer(
            self._connection, self._stream.name, name, log=self._opened.enter_context(SqliteLog(self._path))
        )
        writer.register()
        return writer

    def write(self, writer: Writer, times: Iterable[int]) -> None:
        events = made([BASE_MS + each for each in times], self._identities + 1)
        self._identities = events[-1]["id"]
        writer.write([Event(json.dumps(each).encode(), key=each["key"].encode()) for each in events])
        self.events += events

    def note(self, writer: Writer, time: int) -> None:
        writer.note_time(BASE_MS + time)

    def seal(self) -> None:
        with SqliteLog(self._path) as log:
            self._stream.seal(log.seal())


@pytest.fixture
def scene(controller: Any, tmp_path: Path) -> Iterator[tuple[Any, Path, Devices]]:
    stream, path = controller.stream(CONFIG, segments=2), tmp_path / "devices.db"
    SqliteLog.create(path, 2).close()
    with ExitStack() as opened:
        yield stream, path, Devices(controller, stream, path, opened)


@pytest.fixture
def read(spark: SparkSession, scene: tuple[Any, Path, Devices]) -> Callable[[str], DataFrame]:
    stream, path, _ = scene
    return lambda observation: read_events(
        spark, controller=stream.url, stream=stream.name, path=path,
        schema=SCHEMA, event_time="t", observation=observation,
    )  # fmt: skip


#   seconds   0         10        20        30        40        50
#   fast      ========= 1 ========|======= 2 ==========|==== 3 ===|
#   slow      =====|====|=====|                             behind its backlog: ====|
#   away      =====|  silent; comes back with all of it after the job was restarted ====|
#   sleeper   =====|  idle             wakes at 45 ·|
#   controller                                               killed, and started again
def test_every_operator_gives_the_truth_through_disturbances_and_a_restart(
    scene: tuple[Any, Path, Devices], read: Callable[[str], DataFrame], controller: Any, tmp_path: Path
) -> None:
    _, path, devices = scene
    fast, slow, away, sleeper = (devices.writer(name) for name in ("fast", "slow", "away", "sleeper"))
    jobs: dict[Job, Callable[..., DataFrame]] = {
        Job(tmp_path / "all"): operators,
        Job(tmp_path / "states"): states,
        Job(tmp_path / "updated", "update"): partial(operators, which=["updated"]),
        Job(tmp_path / "whole", "complete"): partial(operators, which=["whole"]),
    }
    closed = {(name, "k0", BASE_MS) for name in ("tumbling", "states", "updated", "whole")}
    if HAS_TIMERS:
        jobs[Job(tmp_path / "timers", store="RocksDBStateStoreProvider")] = timers  # which timers need
        closed.add(("timers", "k0", BASE_MS))

    def settle() -> Rows:
        return sum((job.settle() for job in jobs), Counter())

    with ExitStack() as running:
        for job, query in jobs.items():
            running.enter_context(job.running(query(read)))
        for writer in (slow, away, sleeper):
            devices.write(writer, range(0, 5_000, 900))
            devices.note(writer, 5_000)
        devices.write(fast, range(0, 21_000, 700))
        devices.note(fast, 21_000)
        sleeper.idle()
        devices.write(slow, range(5_000, 13_000, 1_100))
        devices.note(slow, 13_000)
        at_once = ("unique", "first", "joined", "updated", "whole")
        assert not any(time >= BASE_MS + 5_000 for name, _, time, _ in settle() if name not in at_once)
        devices.write(slow, [13_000, 13_000])  # at the time of its own note
    with ExitStack() as running:
        for job, query in jobs.items():
            running.enter_context(job.running(query(read)))
        devices.write(away, range(5_000, 45_000, 1_300))
        devices.note(away, 45_000)
        assert closed <= {each[:3] for each in settle()}
        controller.crash()
        controller.start()
        devices.write(fast, range(21_000, 45_000, 1_700))
        devices.note(fast, 45_000)
        devices.write(slow, range(13_000, 45_000, 1_900))
        devices.note(slow, 45_000)
        settle()
        sleeper.register()
        devices.write(sleeper, [45_000, 45_000])  # the very time of the mark
        devices.write(away, [45_000, 52_000])
        for writer in (fast, slow, away, sleeper):
            writer.close()
        devices.seal()
        assert settle() == truth(devices.events)
    with SqliteLogReader(path) as log:
        assert sum(log.end_offsets().values()) == len(devices.events)
