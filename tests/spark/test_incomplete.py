"""Marks that leave writers out: what the source and the marks of `attach` give under each policy, and the log lines."""

from __future__ import annotations

from pathlib import Path
from time import sleep
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions

from reader_client import EventReader, ReaderGroup, Tumbling
from spark_integration import attach, detach, read_events, read_left_out
from spark_integration.errors import InvalidOption
from spark_integration.mark_source import MarkOptions, MarkReader
from spark_integration.offsets import offset_of
from spark_integration.options import StreamAccess
from spark_integration.positions import FilePositions
from spark_integration.releases import ReadAllAvailable, ReadMaxRows
from spark_integration.rows import SCHEMA
from spark_integration.source import StrandlineSource
from strandline.client import calls, group_calls
from strandline.core.config import StreamConfig
from strandline.core.incomplete import OnIncomplete
from strandline.core.note import Note
from strandline.errors import WritersLeftOut
from strandline.logs import Event
from strandline.logs.sqlite_reader import SqliteLogReader
from tests.spark.attached import Folder, settle

WIDTH_MS = 10_000

pytestmark = pytest.mark.spark


def note(stream: Any, writer: str, time: int, offset: int) -> None:
    stream.run(calls.note(stream.name, Note(writer=writer, times={"": time}, position={"0": offset})))


#   a notes      10      20      30      40      50
#   b notes      10      .  excluded          back: 35   50
#   marks        10      20-b    30-b    40-b           50
@pytest.fixture
def stream(controller: Any) -> Any:
    """A stream with two writers, which both have come to 10 at offset 2."""
    stream = controller.stream(StreamConfig(mark_interval_ms=0, max_ahead_ms=None, min_writers=2), segments=1)
    note(stream, "a", 10, 1)
    note(stream, "b", 10, 2)
    return stream


def go_on_without_b(stream: Any) -> None:
    """Makes marks of 20, 30 and 40, at offsets 3, 4 and 5, which leave out b."""
    stream.run(calls.exclude(stream.name, "b"))
    for time, offset in ((20, 3), (30, 4), (40, 5)):
        note(stream, "a", time, offset)


def bring_b_back(stream: Any) -> None:
    """The mark 50 is complete again, at offset 7."""
    stream.run(calls.include(stream.name, "b"))
    note(stream, "b", 50, 7)
    note(stream, "a", 50, 6)


class Source:
    """Plans batches of the source with the first so many events."""

    def __init__(self, stream: Any, event_log: Any, **options: str) -> None:
        given = {"controller": stream.url, "stream": stream.name, "path": str(event_log.path), **options}
        self._reader: Any = StrandlineSource(given).streamReader(SCHEMA)
        self._log, self.at = event_log, self._reader.initialOffset()

    def batch(self, offset: int, most: int | None = None) -> tuple[int | None, list[str]]:
        self._log.append("0", range(offset - len(self._log.written)))
        self.at = self._reader.latestOffset(self.at, ReadAllAvailable() if most is None else ReadMaxRows(most))
        return self.at["mark"], self.at.get("without", [])

    def close(self) -> None:
        self._reader.stop()


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        ("go_on", [(10, []), (20, ["b"]), (40, ["b"]), (50, [])]),
        ("wait", [(10, []), (10, ["b"]), (10, ["b"]), (50, [])]),
    ],
)
def test_the_source_goes_on_or_waits_for_a_complete_mark_and_the_log_names_who_is_left_out(
    stream: Any, event_log: Any, caplog: pytest.LogCaptureFixture, policy: str, found: list[Any]
) -> None:
    source = Source(stream, event_log, onIncomplete=policy)
    seen = [source.batch(2)]
    go_on_without_b(stream)
    seen += [source.batch(3), source.batch(5)]
    again = Source(stream, event_log, onIncomplete=policy)  # started again, from its checkpoint
    again.at = source.at
    assert again.batch(5) == found[2]
    bring_b_back(stream)
    seen.append(source.batch(7))
    assert seen == found
    lines = [each.getMessage() for each in caplog.records]
    began = f"stream {stream.name!r}: marks leave out b from 1970-01-01T00:00:00.0"
    assert [line.partition("b from")[0] for line in lines[:2]] == [began.partition("b from")[0]] * 2  # once a run
    assert (lines[0].startswith(f"{began}20Z on: ") and "may lack" in lines[0]) or policy == "wait"
    assert "marks leave out b no longer, from 1970-01-01T00:00:00.050Z on" in lines[2]
    assert len(lines) == 3
    source.close()
    again.close()


def test_a_replay_that_passes_all_marks_at_once_has_the_watermark_of_the_live_run(stream: Any, event_log: Any) -> None:
    go_on_without_b(stream)
    for rows in (1, 2, 3, 4, 5):
        source = Source(stream, event_log, onIncomplete="wait")
        assert [source.batch(5, rows)[0] for _ in range(5)][-1] == 10
        source.close()
    bring_b_back(stream)
    for policy in OnIncomplete:  # of which none has to know what lies between
        source = Source(stream, event_log, onIncomplete=policy)
        assert source.batch(7) == (50, [])
        source.close()


def test_the_source_that_is_to_fail_names_the_writers_and_goes_on_once_marks_are_complete(
    stream: Any, event_log: Any
) -> None:
    source = Source(stream, event_log, onIncomplete="fail")
    assert source.batch(2) == (10, [])
    go_on_without_b(stream)
    with pytest.raises(WritersLeftOut, match=r"mark 40 of stream .* leaves out b, and the last complete is 10"):
        source.batch(5)
    bring_b_back(stream)
    assert source.batch(7) == (50, [])
    source.close()


def test_the_end_of_a_sealed_stream_ends_the_wait(stream: Any, event_log: Any) -> None:
    source = Source(stream, event_log, onIncomplete="wait")
    go_on_without_b(stream)
    assert source.batch(5) == (10, ["b"])
    stream.seal({"0": 5})
    mark, without = source.batch(5)
    assert (mark or 0) > 50 and without == []
    source.close()


def test_a_word_that_is_no_policy_is_refused(stream: Any, event_log: Any) -> None:
    with pytest.raises(InvalidOption, match=r"onIncomplete .* cannot be 'stop': go_on or wait or fail"):
        Source(stream, event_log, onIncomplete="stop")


@pytest.mark.parametrize(
    ("policy", "found"),
    [(OnIncomplete.GO_ON, [(10, ()), (40, ("b",)), (50, ())]), (OnIncomplete.WAIT, [(10, ()), (10, ("b",)), (50, ())])],
)
def test_the_marks_of_an_attached_source_follow_the_same_policies_with_the_same_lines(
    stream: Any, policy: Any, found: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    access = StreamAccess(controller=stream.url, stream=stream.name)
    reader = MarkReader(MarkOptions(access=access, group=stream.name, source="orders", on_incomplete=policy))
    at = reader.initialOffset()
    _, at = reader.read(at)
    seen = []
    for offset, act in ((2, None), (5, go_on_without_b), (7, bring_b_back)):
        if act is not None:
            act(stream)
        read = {stream.name: {"0": offset}}
        stream.run(group_calls.report(stream.name, stream.name, at["epoch"], read, None))
        _, at = reader.read(at)
        seen.append((at["mark"], tuple(at["without"])))
    assert seen == found
    began, ceased = caplog.messages
    assert f"stream {stream.name!r}: marks leave out b from" in began
    assert "marks leave out b no longer, from 1970-01-01T00:00:00.050Z on" in ceased


class Input:
    """The stream's events as a query reads them: from the log by the source, or from a folder that is attached."""

    def __init__(self, spark: SparkSession, stream: Any, event_log: Any, path: Path, way: str) -> None:
        self._spark, self._stream, self._log, self._way = spark, stream, event_log, way
        self._folder, self._checkpoint = Folder(path / "events", stream), path / "checkpoint"

    def events(self, policy: str) -> DataFrame:
        given: dict[str, Any] = {"controller": self._stream.url, "stream": self._stream.name, "on_incomplete": policy}
        given |= {"event_time": "time", "only_windows": True}
        if self._way == "source":
            return read_events(self._spark, **given, path=self._log.path, schema="time bigint")
        raw = self._spark.readStream.schema("time bigint").json(str(self._folder.path))
        return attach(self._spark, raw, **given, time_unit="ms", positions=FilePositions(self._checkpoint))

    def put(self, *times: int) -> None:
        for time in times:
            self._log.log.append([Event(b'{"time": %d}' % time, key=b"k", segment="0")])
            self._folder.put("0", [time])

    def settle(self, run: Any) -> dict[int, int]:
        found: dict[int, int] = run.settle() if self._way == "source" else settle(self._spark, run)
        return found

    def close(self) -> None:
        if self._way == "attach":
            detach(self._spark)


@pytest.mark.parametrize("way", ["source", "attach"])
def test_no_window_closes_without_a_writer_that_is_waited_for(
    spark: SparkSession, stream: Any, event_log: Any, running: Any, tmp_path: Path, way: str
) -> None:
    given = Input(spark, stream, event_log, tmp_path, way)
    windows = given.events("wait").groupBy(functions.window("time", "10 milliseconds")).count()
    with running(windows) as run:
        given.put(1, 2)
        assert given.settle(run) == {0: 2}
        go_on_without_b(stream)  # before the events, which one batch reads: marks alone make none while it waits
        given.put(11, 21, 31)
        assert given.settle(run) == {0: 2}
        if way == "source":
            found = [one.observedMetrics["strandline"].asDict() for one in run.progress() if one.observedMetrics]
            assert [one["incomplete"] for one in found if one["mark"]] == [0, 1]
        else:
            offsets = [offset_of(each.endOffset) for one in run.progress() for each in one.sources]
            assert [one.without for one in offsets if one is not None and one.mark is not None][-1] == ("b",)
        given.put(15, 45)  # of b, and no row is dropped
        bring_b_back(stream)
        assert given.settle(run) == {0: 2, 10: 2, 20: 1, 30: 1, 40: 1}
    given.close()


@pytest.mark.parametrize("way", ["source", "attach"])
def test_a_query_that_is_to_fail_ends_with_the_names(
    spark: SparkSession, stream: Any, event_log: Any, running: Any, tmp_path: Path, way: str
) -> None:
    given = Input(spark, stream, event_log, tmp_path, way)
    windows = given.events("fail").groupBy(functions.window("time", "10 milliseconds")).count()
    given.put(*range(1, 6))
    go_on_without_b(stream)
    with running(windows) as run, pytest.raises(StreamingQueryException, match="leaves out b, and the last complete"):
        given.settle(run)
    given.close()


#   events    1 2 |   12    |   22    | 34 35 |   41
#   marks    10   | 20 -b   | 30 -b   | 40    | 50        b is timed out, and comes back
def timed_out_and_back(controller: Any) -> Any:
    settings = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, min_writers=2, writer_timeout_ms=1_000)
    stream = controller.stream(settings, segments=1)
    note(stream, "a", 10, 1)
    note(stream, "b", 10, 2)
    while stream.run(calls.describe(stream.name)).latest_marks[""].time < 20:
        note(stream, "a", 20, 3)
        sleep(0.1)
    note(stream, "a", 30, 4)
    for time, offset in ((40, 6), (50, 7)):
        note(stream, "b", time, offset)
        note(stream, "a", time, offset)
    return stream


def test_rows_say_of_windows_what_windows_in_python_say_and_are_there_once(
    spark: SparkSession, controller: Any, event_log: Any, running: Any, tmp_path: Path
) -> None:
    stream, log = timed_out_and_back(controller), event_log.log
    place = {"controller": stream.url, "stream": stream.name}
    windows, logs = dict[int, tuple[str, ...]](), {stream.name: SqliteLogReader(event_log.path)}
    with ReaderGroup(stream.controller.connection, stream.name) as group:
        group.create([stream.name])
    options: dict[str, Any] = {"time_domain": "event", "event_time": lambda each: int(each.value[9:-1]), "report_ms": 1}
    with EventReader(stream.url, stream.name, "r", logs, **options) as reader:
        closed = reader.windows(Tumbling(10), state=tmp_path / "state")
        for times in ((1, 2), (12,), (22,), (34, 35), (41,)):  # so that it passes each mark
            log.append(Event(b'{"time": %d}' % each, key=b"k", segment="0") for each in times)
            window = next(closed)
            windows[window.start] = window.without
    assert windows == {0: (), 10: ("b",), 20: ("b",), 30: (), 40: ()}

    side = tmp_path / "left out"
    options = {"path": event_log.path, "schema": "time bigint", "event_time": "time", "only_windows": True}
    events = read_events(spark, **place, **options, left_out_to=str(side), maxRowsPerBatch=1)
    counts = events.groupBy(functions.window("time", "10 milliseconds")).count()
    with running(counts, available_now=True) as run:
        run.finish()
    for folder, most in (("offsets", 3), ("commits", 4)):  # it goes on from where b was left out, and came back
        batches = (tmp_path / "checkpoint" / folder).glob("[0-9]*")
        for each in sorted(batches, key=lambda path: int(path.name))[-most:]:
            each.unlink()
    with running(counts, available_now=True, before=run) as again:
        assert again.finish().keys() == windows.keys()
    spark.read.parquet(str(side)).createOrReplaceTempView("beside")
    asked = {**place, "read": "leftOut"}
    given = ", ".join(f"{name} '{value}'" for name, value in asked.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_marks USING strandline OPTIONS ({given})")
    for view in ("beside", "of_marks"):
        found = spark.sql(
            "WITH windows AS (SELECT start, timestamp_millis(start + 10) AS end FROM range(0, 50, 10) AS each(start)) "
            f"SELECT start, flatten(collect_list(writers)) AS without FROM windows "
            f"LEFT JOIN {view} ON (`from` IS NULL OR `from` < end) AND (open OR end <= until) GROUP BY start"
        )
        assert {row["start"]: tuple(row["without"]) for row in found.collect()} == windows
    (row,) = read_left_out(spark, **place, start=25).collect()  # from the mark 20 on
    assert (row["from"], row["until"].timestamp(), row["key"], list(row["writers"])) == (None, 0.03, "", ["b"])
    assert not row["open"]
    (row,) = read_left_out(spark, **place, start=5, maxEventTimeLag="20").collect()
    assert (row["from"], row["until"].timestamp()) == (None, 0.01)
    (row,) = read_left_out(spark, **place, maxEventTimeLag="5").collect()
    assert (row["from"].timestamp(), row["until"].timestamp()) == (0.005, 0.025)
    with pytest.raises(InvalidOption, match=r"endingTime.*left out with read=leftOut"):
        read_left_out(spark, **place, endingTime=30)
    with pytest.raises(InvalidOption, match="read_left_out reads the intervals"):
        read_events(spark, **place, **options, read="leftOut")
    with pytest.raises(InvalidOption, match=r"read .* cannot be 'left': events or leftOut"):
        StrandlineSource({**place, "read": "left"})
    with pytest.raises(InvalidOption, match="leftOutTo is for a stream"):
        StrandlineSource(asked).streamReader(SCHEMA)
    with pytest.raises(InvalidOption, match=r"leftOutTo .* it is for spark\.readStream"):
        StrandlineSource({**place, "path": event_log.path, "leftOutTo": str(side)}).reader(SCHEMA)
