"""A job that is killed at any point of its run: the next run ends where the run without the kill ended.

A killed run leaves its checkpoint and its output as they were. So the test runs a job once as a whole, and goes on from
copies of its checkpoint that are cut back:

    batch            0                1                2
    begun        x                                                   its plan is half written
    planned          x                x                x            it runs again
    committed                 x                x                x   the next run goes on after it

Nothing was noted on the output before the kill. An attached job's reader group has read everything by then, as if the
checkpoint came from a backup.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from spark_integration import FilePositions, LogSink, OutputNotes, attach, detach, exact_watermark
from strandline.client import calls
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from tests.kafka import Kafka
from tests.spark.attached import WIDTH_MS, Folder, Topic
from tests.spark.queries import Query, dropped

Windows = dict[int, int]

PATIENCE_S = 240
TIMES = [1_000, 12_000, 3_000, 24_000, 11_000, 31_000]

pytestmark = [pytest.mark.spark, pytest.mark.full]


@dataclass(frozen=True)
class Outcome:
    """What a job's output has: its windows, the last mark, and whether it is sealed."""

    windows: Windows
    mark: int | None
    sealed: bool


class Output:
    """The output stream of a job, with a log."""

    def __init__(self, path: Path, stream: Any) -> None:
        self.path, self.stream = path, stream
        SqliteLog.create(path, 3).close()

    def write(self, windows: Windows) -> None:
        """Writes what a run before has written."""
        with SqliteLog(self.path) as log:
            log.append(Event(b'{"start":%d,"count":%d}' % window, key=b"all") for window in windows.items())

    def outcome(self) -> Outcome:
        with SqliteLogReader(self.path) as log:
            ends = log.end_offsets()
            values = [value for name, end in ends.items() for rows in log.read(name, 0, end) for value in rows["value"]]
        rows = [json.loads(value.as_py()) for value in values]
        windows = {row["start"]: row["count"] for row in rows}
        assert len(windows) == len(values), "a window was written twice"
        marks = self.stream.run(calls.marks(self.stream.name, limit=1000)).marks
        sealed = self.stream.run(calls.describe(self.stream.name)).sealed
        return Outcome(windows, None if sealed or not marks else marks[-1].time, sealed)


class Job:
    """Counts events in windows, writes them to an output stream, and notes its time there."""

    def __init__(self, spark: SparkSession, controller: Any, folder: Path) -> None:
        self._spark, self._controller, self.folder = spark, controller, folder
        self.events: Callable[[Path], DataFrame]

    def output(self, name: str) -> Output:
        return Output(self.folder / f"{name}.db", self._controller.stream())

    def run(self, checkpoint: Path, output: Output, **trigger: Any) -> dict[int, Windows]:
        """Runs until the query ends by itself; returns the windows that each batch emitted."""
        batches: dict[int, Windows] = {}
        sink = LogSink("job", path=output.path)

        def write(batch: DataFrame, batch_id: int) -> None:
            batches[batch_id] = {row["start"]: row["count"] for row in batch.select("start", "count").collect()}
            sink(batch, batch_id)

        counts = self.events(checkpoint).groupBy(functions.window("event_time", f"{WIDTH_MS} milliseconds")).count()
        start = functions.unix_millis("window.start").alias("start")
        rows = counts.select(functions.lit("all").alias("key"), start, "count")
        rows = rows.withColumn("value", functions.to_json(functions.struct("start", "count")))
        notes = OutputNotes(
            self._spark, controller=output.stream.url, stream=output.stream.name, writer="job", path=output.path,
            behind_ms=WIDTH_MS, seal_at_end=True,
        )  # fmt: skip
        writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
        query = Query(writer.trigger(**trigger or {"availableNow": True}).start)
        try:
            notes.follow(query.now)
            assert query.until_ended(PATIENCE_S)
            notes.follow(query.now)
            assert notes.settle(60)
        finally:
            query.stop()
            notes.close()
            sink.close()
        assert not dropped(query.progress())
        return batches

    def check_each_cut(self) -> Outcome:
        """Runs the job as a whole, and from each point of that run. Returns the outcome, the same for all."""
        output = self.output("whole")
        whole = self.run(self.folder / "whole", output)
        outcome = output.outcome()
        assert len(whole) > 2
        begun = self.output("begun")
        self.run(as_begun(self.folder / "whole", self.folder / "begun"), begun)
        assert begun.outcome() == outcome, "begun"
        for batch in whole:
            for committed in (False, True):
                name = f"{batch}-{committed}"
                again = self.output(name)
                for each in range(batch + committed):
                    again.write(whole[each])
                self.run(cut_back(self.folder / "whole", self.folder / name, batch, committed), again)
                assert again.outcome() == outcome, f"batch {batch}, committed: {committed}"
        return outcome


def cut_back(whole: Path, to: Path, batch: int, committed: bool) -> Path:
    """A copy of a checkpoint as it was when `batch` was planned, or committed."""
    shutil.copytree(whole, to)
    for kind, last in (("offsets", batch), ("commits", batch if committed else batch - 1)):
        for path in (to / kind).iterdir():
            number = path.name.strip(".").partition(".")[0]
            if number.isdigit() and int(number) > last:
                path.unlink()
    return to


def as_begun(whole: Path, to: Path) -> Path:
    """A copy of a checkpoint as it was when Spark had not wholly written the plan of the first batch."""
    cut_back(whole, to, 0, committed=False)
    shutil.rmtree(to / "state")
    (to / "offsets" / "0").rename(to / "offsets" / ".0.unfinished.tmp")
    return to


def counted(times: list[int]) -> Windows:
    return dict(Counter(time // WIDTH_MS * WIDTH_MS for time in times))


@pytest.fixture
def job(spark: SparkSession, controller: Any, tmp_path: Path) -> Job:
    return Job(spark, controller, tmp_path)


@pytest.fixture
def own(job: Job, read: Callable[..., DataFrame], event_log: Any, stream: Any) -> Job:
    """A job over a stream of two batches."""
    event_log.append("0", TIMES[:3])
    event_log.append("1", TIMES[3:])
    stream.mark(11_000, {"0": 3, "1": 3})
    job.events = lambda checkpoint: exact_watermark(read(maxRowsPerBatch=4), event_time="event_time")
    return job


def test_a_killed_job_over_an_open_stream_closes_windows_and_notes_its_time(own: Job) -> None:
    assert own.check_each_cut() == Outcome({0: 2}, 11_000 - WIDTH_MS, sealed=False)


def test_a_killed_job_over_a_sealed_stream_closes_all_windows_and_seals_its_output(
    own: Job, stream: Any, event_log: Any
) -> None:
    stream.seal(event_log.log.seal())
    assert own.check_each_cut() == Outcome(counted(TIMES), None, sealed=True)


@pytest.fixture
def folder(job: Job, spark: SparkSession, controller: Any) -> Iterator[Folder]:
    """Three files of one segment, read in two batches by a job that attaches them."""
    folder = Folder(job.folder / "events", controller.stream(segments="open"))
    for begin in range(0, len(TIMES), 2):
        folder.put("one", TIMES[begin : begin + 2])
    folder.mark(11_000)

    def events(checkpoint: Path) -> DataFrame:
        raw = spark.readStream.schema("time bigint").option("maxFilesPerTrigger", "2").json(str(folder.path))
        return attach(
            spark, raw.withColumn("event_time", functions.timestamp_millis("time")), event_time="event_time",
            controller=controller.url, stream=folder.stream.name, positions=FilePositions(checkpoint),
        )  # fmt: skip

    job.events = events
    yield folder
    detach(spark)


def test_a_killed_job_over_open_attached_files_closes_windows_and_notes_its_time(job: Job, folder: Folder) -> None:
    assert job.check_each_cut() == Outcome({0: 2}, 11_000 - WIDTH_MS, sealed=False)


def test_a_killed_job_over_attached_files_closes_all_windows_and_seals_its_output(job: Job, folder: Folder) -> None:
    folder.seal()
    assert job.check_each_cut() == Outcome(counted(TIMES), None, sealed=True)


def test_a_killed_job_over_an_attached_topic_closes_all_windows_and_seals_its_output(
    job: Job, spark: SparkSession, spark_kafka_jars: Path, kafka: Kafka, controller: Any
) -> None:
    topic = Topic(spark, kafka, controller.stream(segments="open"))
    topic.send(*TIMES)
    topic.mark(11_000)
    topic.seal()
    job.events = lambda checkpoint: topic.attached()
    assert job.check_each_cut() == Outcome(counted(TIMES), None, sealed=True)
    detach(spark)


def test_runs_of_one_batch_each_close_every_window_in_the_end(own: Job, stream: Any, event_log: Any) -> None:
    stream.seal(event_log.log.seal())
    output = own.output("once")
    for _ in range(3):  # the last run finds its output sealed
        own.run(own.folder / "once", output, once=True)
    assert output.outcome() == Outcome(counted(TIMES), None, sealed=True)
