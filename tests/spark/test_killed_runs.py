"""A query that is killed at any point of its run: the next run ends where the run without the kill ended.

A killed run leaves its checkpoint as it was. So the test copies the checkpoint of a whole run, and cuts it back:

    batch         0                1                2
    planned       x                x                x            it runs again
    committed              x                x                x   the next run goes on after it
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, functions

from spark_integration import exact_watermark
from tests.spark.queries import Query, dropped

Windows = dict[int, int]

WIDTH_MS = 10_000
PATIENCE_S = 240

pytestmark = pytest.mark.spark


class Job:
    """Counts events in windows, and keeps what each batch emits."""

    def __init__(self, events: Callable[[Path], DataFrame]) -> None:
        self._events = events

    def run(self, checkpoint: Path, **trigger: Any) -> dict[int, Windows]:
        """Runs until the query ends by itself; returns the windows by batch."""
        batches: dict[int, Windows] = {}

        def keep(batch: DataFrame, batch_id: int) -> None:
            rows = batch.select(functions.unix_millis("window.start").alias("start"), "count").collect()
            batches[batch_id] = {row["start"]: row["count"] for row in rows}

        counts = self._events(checkpoint).groupBy(functions.window("event_time", f"{WIDTH_MS} milliseconds")).count()
        writer = counts.writeStream.outputMode("append").foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger or {"availableNow": True})
        query = Query(writer.start)
        try:
            assert query.until_ended(PATIENCE_S)
        finally:
            query.stop()
        assert not dropped(query.progress())
        return batches


def merged(batches: dict[int, Windows]) -> Windows:
    emitted = [window for batch in batches.values() for window in batch.items()]
    windows = dict(emitted)
    assert len(windows) == len(emitted), "a window was emitted twice"
    return windows


def cut_back(whole: Path, to: Path, batch: int, committed: bool) -> Path:
    """A copy of a checkpoint as it was when `batch` was planned, or committed."""
    shutil.copytree(whole, to)
    for kind, last in (("offsets", batch), ("commits", batch if committed else batch - 1)):
        for path in (to / kind).iterdir():
            number = path.name.strip(".").partition(".")[0]
            if number.isdigit() and int(number) > last:
                path.unlink()
    return to


def check_each_cut(job: Job, folder: Path, truth: Windows) -> None:
    """Runs the job once as a whole, and then from each point of that run."""
    whole = job.run(folder / "whole")
    assert merged(whole) == truth
    assert len(whole) > 2
    for batch in whole:
        for committed in (False, True):
            checkpoint = cut_back(folder / "whole", folder / f"{batch}-{committed}", batch, committed)
            before = {each: windows for each, windows in whole.items() if each < batch + committed}
            assert merged(before | job.run(checkpoint)) == truth, f"batch {batch}, committed: {committed}"


@pytest.fixture
def own(read: Callable[..., DataFrame], stream: Any, event_log: Any) -> Job:
    """A job over a stream of three batches that is sealed."""
    event_log.append("0", [1_000, 12_000, 24_000, 31_000])
    event_log.append("1", [3_000, 11_000, 22_000])
    stream.mark(11_000, {"0": 2, "1": 2})
    stream.seal(event_log.log.seal())
    return Job(lambda checkpoint: exact_watermark(read(maxRowsPerBatch=3), event_time="event_time"))


def test_a_killed_query_of_the_source_closes_every_window_in_its_next_run(
    own: Job, event_log: Any, tmp_path: Path
) -> None:
    check_each_cut(own, tmp_path, event_log.windows(WIDTH_MS))


def test_runs_of_one_batch_each_close_every_window_in_the_end(own: Job, event_log: Any, tmp_path: Path) -> None:
    first, second = (own.run(tmp_path / "once", once=True) for _ in range(2))
    assert merged(first | second) == event_log.windows(WIDTH_MS)
