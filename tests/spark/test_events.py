"""`read_events` and `read_between`, late rows, and a job with a backlog: in one call what takes several steps."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions

from reader_client import ReaderGroup
from spark_integration import exact_watermark, read_between, read_events, register
from spark_integration.errors import InvalidOption, WrongColumn
from spark_integration.offsets import SourceOffset
from spark_integration.options import BACKLOG_THRESHOLD
from strandline.client import calls
from strandline.core.note import Note
from strandline.core.segment import NewSegment
from strandline.errors import InvalidConfig, UnknownStream
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog

WIDTH_MS = 10_000
NOW_MS = 4_000_000_000_000  # a time of events that is not behind the clock

pytestmark = pytest.mark.spark


@pytest.fixture
def append(event_log: Any) -> Callable[..., None]:
    def append(segment: str, *times: int) -> None:
        event_log.log.append(
            Event(json.dumps({"at": time, "device": f"d{time % 2}"}).encode(), key=b"k", segment=segment)
            for time in times
        )
        event_log.written += times

    return append


@pytest.fixture
def place(stream: Any, event_log: Any) -> dict[str, Any]:
    return {
        "controller": stream.url, "stream": stream.name, "path": event_log.path,
        "schema": "at bigint, device string", "event_time": "at",
    }  # fmt: skip


def counted(df: DataFrame) -> DataFrame:
    return df.groupBy(functions.window("at", f"{WIDTH_MS} milliseconds")).count()


def metrics(run: Any) -> list[dict[str, Any]]:
    return [one.observedMetrics["strandline"].asDict() for one in run.progress() if one.observedMetrics]


def test_who_uses_only_read_events_has_the_watch_and_nothing_of_attach(
    spark: SparkSession, place: dict[str, Any]
) -> None:
    session = spark.newSession()
    manager: Any = session.streams
    threads, listeners = set(threading.enumerate()), len(manager._jsqm.listListeners())
    assert read_events(session, **place).isStreaming
    assert len(manager._jsqm.listListeners()) == listeners + 1
    assert not {each.name for each in set(threading.enumerate()) - threads if each.name.startswith("strandline")}


def test_late_rows_are_kept_and_counted_and_the_group_advances(
    spark: SparkSession, running: Any, stream: Any, event_log: Any, append: Any, place: Any, tmp_path: Path
) -> None:
    side = tmp_path / "late rows"
    events = read_events(spark, **place, late_to=str(side), group="jobs")
    assert events.columns == ["at", "device", "key", "segment", "offset", "appended_at"]
    with running(counted(events), exact=False) as run:
        append("0", 1_000, 11_000)
        append("2", -5_000)  # on time, and older than Spark's watermark at its beginning
        stream.mark(10_500, {"0": 2, "2": 1})
        assert run.settle() == {0: 1}
        append("1", 10_500, 9_000, 10_499)  # the second and the third break the promise that the mark was made of
        nanoseconds = b'{"at": 1767225600000000000}'
        event_log.log.append([Event(b"nonsense", segment="2"), Event(nanoseconds, segment="2")])
        run.settle()
        stream.mark(20_001, {"0": 2, "1": 3, "2": 3})
        assert run.settle() == {0: 1, 10_000: 2}  # and not what is late, though it was open
        late = [one["late"] for one in metrics(run)]
        assert (sum(late), sum(one["unreadable"] for one in metrics(run))) == (3, 2)
        with ReaderGroup(stream.controller.connection, "jobs") as group:
            assert group.get_time_window().streams[stream.name].position == {"0": 2, "1": 3, "2": 3}
    kept = spark.read.parquet(str(side)).orderBy("offset").collect()
    assert [(row["segment"], row["offset"], row["at"].timestamp(), row["device"]) for row in kept] == [
        ("2", 0, -5.0, "d0"),
        ("1", 1, 9.0, "d0"),
        ("1", 2, 10.499, "d1"),
    ]


def test_what_a_new_segment_brings_to_a_running_query_opens_no_window_again(
    spark: SparkSession, running: Any, stream: Any, event_log: Any, append: Any, place: Any
) -> None:
    with running(counted(read_events(spark, **place)), exact=False) as run:
        append("0", 1_000, 11_000)
        stream.mark(10_500, {"0": 2})
        assert run.settle() == {0: 1}
        halves = [NewSegment("3", 0.0, 1 / 6), NewSegment("4", 1 / 6, 1 / 3)]
        stream.scale(event_log.log.scale(["0"], halves), halves)
        append("3", 9_000, 12_000)
        stream.mark(20_001, {"3": 2})
        assert run.settle() == {0: 1, 10_000: 2}
        assert sum(one["late"] for one in metrics(run)) == 1


def test_streams_and_queries_keep_their_late_rows_in_one_folder(
    spark: SparkSession, running: Any, controller: Any, stream: Any, event_log: Any, place: Any, tmp_path: Path
) -> None:
    other, other_log = controller.stream(), SqliteLog.create(tmp_path / "others.db", 3)
    side = tmp_path / "late"
    events = read_events(spark, **place, late_to=str(side))
    others = place | {"stream": other.name, "path": tmp_path / "others.db"}
    both = events.union(read_events(spark, **others, late_to=str(side), observation="others"))

    def append(time: int) -> None:
        for log in (event_log.log, other_log):
            log.append([Event(b'{"at": %d}' % time, key=b"k", segment="0")])

    with running(counted(both), exact=False) as run, running(counted(events), "alone", exact=False) as alone:
        append(11_000)
        for each in (stream, other):
            each.mark(10_500, {"0": 1})
        run.settle(), alone.settle()
        append(9_000)
        run.settle(), alone.settle()
    assert [row["at"].timestamp() for row in spark.read.parquet(str(side)).collect()] == [9.0] * 3
    max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name)).unlink()
    with running(counted(both), before=run, exact=False) as again:  # its last batch runs again
        again.settle()
    assert spark.read.parquet(str(side)).count() == 3
    other_log.close()


def test_read_between_gives_exactly_the_events_and_refuses_incomplete_ranges(
    spark: SparkSession, stream: Any, append: Any, place: Any
) -> None:
    append("0", 1_000, 25_000, 11_000, 19_999, 20_000)
    append("1", 10_000, 9_999, 30_000)
    newest = {"": 30_000}
    stream.run(calls.note(stream.name, Note(writer="w", times={"": 20_000}, position={"0": 4, "1": 3}, newest=newest)))
    found = read_between(spark, **place, start=10_000, end=20_000)
    times = sorted(row["at"].timestamp() for row in found.collect())
    assert times == [10.0, 11.0, 19.999]
    second = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=10)
    found = read_between(
        spark, **place, start=second + timedelta(microseconds=500), end=second + timedelta(microseconds=9_998_500)
    )
    assert sorted(row["at"].timestamp() for row in found.collect()) == [11.0]
    with pytest.raises(InvalidConfig, match="a datetime with a time zone"):
        read_between(spark, **place, start=datetime(1970, 1, 1), end=second)  # noqa: DTZ001  # what is refused
    with pytest.raises(AnalysisException, match=r"not complete up to 20001: its marks have reached 20000, and w holds"):
        read_between(spark, **place, start=10_000, end=20_001).collect()
    with pytest.raises(WrongColumn, match="'when' is not there: the schema has at, device"):
        read_between(spark, **{**place, "event_time": "when"}, start=0, end=1)
    with pytest.raises(WrongColumn, match="'OFFSET' is a field of the schema: rename it, or leave out late_to"):
        read_events(spark, **{**place, "schema": "at bigint, OFFSET bigint"}, late_to="late")
    columns = read_events(spark, **{**place, "schema": "At bigint, Offset bigint"}).columns
    assert columns == ["At", "Offset", "key", "segment", "appended_at"], "names are those that Spark tells apart"
    for schema, wanted in (
        (
            "device string, sale struct<when: timestamp>",
            r'pull it up with df\.withColumn\("when", .*col\("sale\.when"\)',
        ),
        ("when timestamp_ntz", 'timestamp_ntz: the schema needs "when timestamp" for text .* "when double" with time_'),
        ("when double", 'is of type double, which may be in any unit: add time_unit="s" if it has seconds'),
    ):
        with pytest.raises(WrongColumn, match=wanted):
            read_events(spark, **{**place, "event_time": "when", "schema": schema})
    with pytest.raises(InvalidOption, match=r"time_unit .* cannot be 'sec': s or ms or us or ns"):
        read_events(spark, **place, time_unit="sec")


NOON_S = 1_767_268_800


@pytest.mark.parametrize(
    ("kind", "unit", "values"),
    [
        ("double", "s", [NOON_S, NOON_S + 1.001, f"{NOON_S}.0029999", -1.5]),
        ("decimal(20,6)", "s", [NOON_S, NOON_S + 1.001, f'"{NOON_S}.0029999"', -1.5]),
        ("bigint", "s", [NOON_S, NOON_S + 1.001, f"{NOON_S}.0029999", -1.5]),
        ("bigint", "ns", [NOON_S * 10**9, NOON_S * 10**9 + 1_001_999_999, NOON_S * 10**9 + 2_000_001, -(15 * 10**8)]),
        ("timestamp", None, [NOON_S, '"2026-01-01T13:00:01.001+01:00"', f"{NOON_S}.0029999", -1.5]),
        (
            "string",
            None,
            [f'"2026-01-01T{at}Z"' for at in ("12:00:00", "12:00:01.001", "12:00:00.002")] + ['"12:30:00"'],
        ),
    ],
)
def test_times_in_any_unit_with_a_fraction_and_as_text_are_read(
    spark: SparkSession, stream: Any, event_log: Any, place: Any, kind: str, unit: str | None, values: list[Any]
) -> None:
    event_log.log.append(Event(f'{{"at": {value}}}'.encode(), key=b"k", segment="0") for value in values)
    noon, end = NOON_S * 1_000, 4_102_444_800_000  # in 2100: today is not what a time without a date is taken for
    note = Note(writer="w", times={"": end}, position={"0": 4}, newest={"": end})
    stream.run(calls.note(stream.name, note))
    found = read_between(spark, **{**place, "schema": f"at {kind}"}, time_unit=unit, start=-2_000, end=end)
    times = [row["t"] for row in found.select(functions.unix_millis("at").alias("t")).collect()]
    assert sorted(times) == sorted([noon, noon + 1_001, noon + 2] + ([] if kind == "string" else [-1_500]))


def test_a_fraction_below_a_mark_is_late_and_one_below_the_end_of_a_window_is_in_it(
    spark: SparkSession, running: Any, stream: Any, event_log: Any, place: Any
) -> None:
    def append(*times: str) -> None:
        event_log.log.append(Event(b'{"at": %s}' % time.encode(), key=b"k", segment="0") for time in times)

    raw = spark.readStream.format("strandline").options(
        **{name: place[name] for name in ("controller", "stream", "path")}
    )
    seconds = functions.get_json_object(functions.col("value").cast("string"), "$.at").cast("double")
    events = exact_watermark(raw.load().withColumn("at", seconds), event_time="at", time_unit="s", only_windows=True)
    with running(counted(events), exact=False) as run:
        append("9.9996", "10.0000", "19.9999999")
        stream.mark(10_000, {"0": 1})
        assert run.settle() == {0: 1}
        append("9.9999", "10.0001")
        stream.mark(20_000, {"0": 5})
        assert run.settle() == {0: 1, 10_000: 3}
        assert sum(one["late"] for one in metrics(run)) == 1


def test_batches_are_large_in_backlog_and_small_when_caught_up(
    spark: SparkSession, running: Any, stream: Any, append: Any, place: Any
) -> None:
    spark.conf.set(BACKLOG_THRESHOLD, "1 hour")
    try:
        register(spark)
        events = read_events(spark, **place, group="behind", maxRowsPerBatch=10, maxRowsPerBacklogBatch=100)
    finally:
        spark.conf.unset(BACKLOG_THRESHOLD)
        register(spark)
    append("0", *range(1_000, 151_000, 1_000))
    stream.mark(100_000, {"0": 100})
    with running(counted(events), available_now=True) as run:
        run.finish()
        old = [one["events"] for one in metrics(run) if one["events"]]
        assert {one["backlog"] for one in metrics(run) if one["mark"]} == {1}
        assert SourceOffset.from_json(json.loads(run.progress()[0].sources[0].endOffset)).backlog
        with ReaderGroup(stream.controller.connection, "behind") as group:
            assert group.get_time_window().backlog
    append("0", *range(NOW_MS, NOW_MS + 35))
    stream.mark(NOW_MS, {"0": 151})
    with running(counted(events), before=run) as again:
        again.settle()
        append("0", *range(NOW_MS + 50, NOW_MS + 85))
        again.settle()
        new = [one["events"] for one in metrics(again) if one["events"]]
        assert metrics(again)[-1]["backlog"] == 0
        with ReaderGroup(stream.controller.connection, "behind") as group:
            assert not group.get_time_window().backlog
    assert (old, new) == ([100, 50], [35, 10, 10, 10, 5])


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        ({"stream": "ordres"}, UnknownStream, "there is no stream 'ordres'"),
        ({"maxRowPerBatch": 5}, InvalidOption, "did you mean maxRowsPerBatch"),
        ({"log": "orders.log"}, InvalidOption, "option log .* cannot be 'orders.log'"),
    ],
    ids=["stream", "option", "log"],
)
def test_what_is_mistyped_is_an_error_of_the_call_before_a_query_starts(
    spark: SparkSession, place: Any, change: dict[str, Any], error: type[Exception], told: str
) -> None:
    given = {**place, **change}
    with pytest.raises(error, match=told):
        read_events(spark, **given)
    with pytest.raises(error, match=told):
        read_between(spark, **given, start=0, end=1)


def test_a_start_after_the_end_is_an_error_of_the_call(spark: SparkSession, place: Any) -> None:
    with pytest.raises(InvalidOption, match=r"endingTime .* cannot be 9: a time from startingTime on, which is 10"):
        read_between(spark, **place, start=10, end=9)
    assert read_between(spark, **place, start=9, end=9).schema  # an empty range is one


def test_an_option_that_an_argument_has_is_refused_instead_of_ignored(spark: SparkSession, place: Any) -> None:
    with pytest.raises(
        InvalidOption, match=r"onIncomplete .* cannot be 'wait': left out: it is the argument on_incompl"
    ):
        read_events(spark, **place, onIncomplete="wait")
    with pytest.raises(InvalidOption, match=r"endingtime .* cannot be '5': left out: it is the argument end= here"):
        read_between(spark, **place, start=0, end=1, endingtime=5)
