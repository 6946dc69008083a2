"""Which releases of Spark work, and a query on those that do not tell a source where its batch begins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from reader_client import ReaderGroup
from spark_integration import exact_watermark
from spark_integration.errors import InvalidOption, SparkMismatch
from spark_integration.options import SourceOptions, check_limits
from spark_integration.releases import HAS_LIMITS, release
from spark_integration.source import ReaderWithoutStarts, StrandlineStreamReader
from spark_integration.spark_settings import AVAILABLE_NOW

WIDTH_MS = 10_000


@pytest.mark.parametrize("version", ["3.5.9", "5.0.0.dev1"])
def test_a_spark_that_does_not_work_is_named_at_import(version: str, tmp_path: Path) -> None:
    with pytest.raises(SparkMismatch, match=rf"^PySpark {version} is installed.*4\.0 or newer, below 5"):
        release(version)
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    (tmp_path / "pyspark" / "version.py").write_text(f"__version__ = {version!r}\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", "import spark_integration"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith(
        f"spark_integration.errors.SparkMismatch: PySpark {version} is installed, and spark_integration works with"
    )


def test_a_spark_without_limits_refuses_each_of_them() -> None:
    check_limits({"maxrowsperbatch": "7"}, has_limits=True)
    for name in ("maxRowsPerBatch", "maxRowsPerBacklogBatch"):
        with pytest.raises(InvalidOption, match=rf"option {name} .*'7': leave it out, or install Spark 4\.2"):
            check_limits({name.lower(): "7"}, has_limits=False)


@pytest.fixture
def reader(stream: Any, event_log: Any) -> Iterator[Callable[[], Any]]:
    """Makes readers of the test's stream, as Spark before 4.2 calls them, one at each start of a query."""
    given = {"controller": stream.url, "stream": stream.name, "path": str(event_log.path)}
    readers: list[Any] = []

    def reader(**more: str) -> Any:
        readers.append(ReaderWithoutStarts(StrandlineStreamReader(SourceOptions.parse({**given, **more}))))
        return readers[-1]

    yield reader
    for each in readers:
        each.stop()


def test_without_a_start_each_batch_follows_the_last(reader: Any, stream: Any, event_log: Any) -> None:
    event_log.append("0", [1, 2, 3])
    stream.mark(50, {"0": 3})
    first = reader()
    one = first.latestOffset()
    assert (one["positions"], one["mark"]) == ({"0": 3}, 50)
    assert json.dumps(first.latestOffset()) == json.dumps(one)  # nothing new: no batch
    event_log.append("1", [4])
    two = first.latestOffset()
    assert two["positions"] == {"0": 3, "1": 1}
    again = reader()  # which Spark shows where the query stood
    assert again.partitions(two, two) == []
    once_more = again.latestOffset()
    assert once_more == {**two, "run": once_more["run"]} != two  # one batch for each run
    assert again.latestOffset() == once_more


def test_the_group_stands_at_what_was_read_when_spark_fixes_a_runs_end_first(
    reader: Any, stream: Any, event_log: Any
) -> None:
    def stands() -> dict[str, int]:
        with ReaderGroup(stream.controller.connection, "nightly") as group:
            return dict(group.get_time_window().streams[stream.name].position)

    event_log.append("0", [1, 2, 3])
    first = reader(group="nightly")
    begin, one = first.initialOffset(), first.latestOffset()
    first.latestOffset()  # for a progress report: the batch has yet to run
    first.partitions(begin, one)
    first.latestOffset()
    assert stands() == {"0": 3}
    event_log.append("0", [4])
    second = reader(group="nightly")
    two = second.latestOffset()
    assert stands() == {"0": 3}
    assert second.partitions(one, one) == []
    second.latestOffset()
    assert stands() == {"0": 3}
    second.partitions(one, two)
    second.latestOffset()
    assert stands() == {"0": 4}


@pytest.mark.spark
def test_the_source_takes_limits_where_spark_passes_them_on(read: Callable[..., DataFrame]) -> None:
    with nullcontext() if HAS_LIMITS else pytest.raises(Exception, match=r"leave it out, or install Spark 4\.2"):
        read(maxRowsPerBatch=7)


@pytest.mark.full
@pytest.mark.spark
def test_available_now_closes_its_windows_with_sparks_wrapper_for_older_sources(
    spark: SparkSession, read: Callable[..., DataFrame], running: Any, stream: Any, event_log: Any
) -> None:
    def run(before: Any = None) -> Any:
        windows = exact_watermark(read(), event_time="event_time").groupBy(
            functions.window("event_time", f"{WIDTH_MS} milliseconds")
        )
        with running(windows.count(), available_now=True, before=before) as run:
            run.finish()
        return run

    spark.conf.set(AVAILABLE_NOW, "true")
    try:
        event_log.append("0", [1_000, 2_000, 12_000])
        stream.mark(11_000, {"0": 2})
        first = run()
        assert first.windows() == {0: 2}
        event_log.append("1", [13_000])
        second = run(first)  # without a new mark
        assert second.windows() == {0: 2}
        event_log.append("0", [25_000])
        stream.seal(event_log.log.seal())
        assert run(second).windows() == event_log.windows(WIDTH_MS)
    finally:
        spark.conf.unset(AVAILABLE_NOW)
