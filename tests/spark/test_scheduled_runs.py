"""One query over two sources, in runs by schedule of which each finds events of only one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from spark_integration import attach, detach, exact_watermark
from spark_integration.positions import FilePositions
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from tests.spark.attached import WIDTH_MS, Folder, finish

pytestmark = [pytest.mark.spark, pytest.mark.full]

# What the runs find, and of whom. Each source ends at 110 s: eleven windows are complete after the last run.
RUNS = (
    ("one", range(0, 60_000, 2_000)),
    ("other", range(1_000, 60_000, 5_000)),
    ("one", range(60_000, 111_000, 2_000)),
    ("other", range(60_000, 111_000, 5_000)),
)
COMPLETE = [start * WIDTH_MS for start in range(11)]


@pytest.fixture
def folders(controller: Any, tmp_path: Path) -> dict[str, Folder]:
    return {name: Folder(tmp_path / name, controller.stream(segments="open")) for name in ("one", "other")}


@pytest.fixture
def detached(spark: SparkSession) -> Iterator[None]:
    yield
    detach(spark)


def windows(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.union(other).groupBy(functions.window("event_time", f"{WIDTH_MS} milliseconds")).count()


def run_all(
    running: Any,
    inputs: Callable[[], list[DataFrame]],
    put: Callable[[str, list[int]], None],
    end: Callable[[Any], None],
) -> dict[int, int]:
    """The windows that were closed in all of the runs."""
    run = None
    for name, times in RUNS:
        put(name, list(times))
        with running(windows(*inputs()), available_now=True, before=run, exact=False) as run:
            end(run)
    assert run is not None and run.dropped() == 0
    closed: dict[int, int] = run.windows()
    return closed


def files(spark: SparkSession, folder: Folder) -> DataFrame:
    raw = spark.readStream.schema("time bigint").json(str(folder.path))
    return raw.select(functions.timestamp_millis("time").alias("event_time"))


def expected(times: Callable[[str], list[int]]) -> dict[int, int]:
    everything = [time for name in ("one", "other") for time in times(name)]
    return {start: sum(start <= time < start + WIDTH_MS for time in everything) for start in COMPLETE}


def test_attached_sources_close_every_complete_window(
    spark: SparkSession, running: Any, folders: dict[str, Folder], tmp_path: Path, detached: None
) -> None:
    def attached() -> list[DataFrame]:
        return [
            attach(
                spark, files(spark, each), event_time="event_time", controller=each.stream.url,
                stream=each.stream.name, positions=FilePositions(tmp_path / "checkpoint", folder=each.path),
            )
            for each in folders.values()
        ]  # fmt: skip

    def put(name: str, times: list[int]) -> None:
        folders[name].put("a", times)
        folders[name].mark(times[-1] + 1)

    closed = run_all(running, attached, put, lambda run: finish(spark, run))
    assert closed == expected(lambda name: folders[name].written)


def test_the_source_closes_every_complete_window(
    read: Callable[..., DataFrame], running: Any, controller: Any, tmp_path: Path
) -> None:
    streams = {name: controller.stream(segments=1) for name in ("one", "other")}
    paths = {name: tmp_path / f"{name}.db" for name in streams}
    logs = {name: SqliteLog.create(path, 1) for name, path in paths.items()}
    written: dict[str, list[int]] = {name: [] for name in streams}

    def exact() -> list[DataFrame]:
        return [
            exact_watermark(
                read(stream=streams[name].name, path=paths[name]), event_time="event_time", observation=name
            )
            for name in streams
        ]

    def put(name: str, times: list[int]) -> None:
        logs[name].append(Event(b"%d" % time, segment="0") for time in times)
        written[name] += times
        streams[name].mark(times[-1] + 1, {"0": len(written[name])})

    closed = run_all(running, exact, put, lambda run: run.finish())
    assert closed == expected(written.__getitem__)
    for log in logs.values():
        log.close()
