"""Settings of Spark that would lose rows are refused, and keys of duplicates are kept as long as somebody asks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions

from spark_integration import attach, detach, read_events
from spark_integration.errors import InvalidOption, WrongSetting
from spark_integration.listener import ReportListener, listen
from spark_integration.mark_watch import REDEFINED
from spark_integration.positions import FilePositions
from spark_integration.spark_settings import NO_DATA_BATCHES, POLICY
from strandline.logs import Event
from tests.spark.attached import Folder, settle
from tests.spark.queries import Query

pytestmark = pytest.mark.spark


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before or "")


@pytest.fixture
def load(spark: SparkSession, stream: Any, event_log: Any) -> Callable[..., DataFrame]:
    def load(**options: Any) -> DataFrame:
        place = {"controller": stream.url, "stream": stream.name, "path": event_log.path}
        return read_events(spark, **place, schema="at bigint, id bigint", event_time="at", **options)

    return load


def test_the_greatest_watermark_of_several_streams_is_refused(
    spark: SparkSession, stream: Any, load: Callable[..., DataFrame], tmp_path: Path
) -> None:
    files = spark.readStream.schema("at timestamp").json(str(tmp_path))
    with setting(spark, POLICY, "max"):
        with pytest.raises(WrongSetting, match=r"multipleWatermarkPolicy cannot be 'max': .* Leave it at min"):
            load()
        with pytest.raises(WrongSetting, match="Leave it at min"):
            attach(spark, files, controller=stream.url, stream=stream.name, event_time="at")
    assert load().isStreaming


def test_a_session_without_batches_without_data_has_a_line_in_the_log(
    spark: SparkSession, load: Callable[..., DataFrame], caplog: pytest.LogCaptureFixture
) -> None:
    with setting(spark, NO_DATA_BATCHES, "false"):
        load()
    (line,) = (each.getMessage() for each in caplog.records)
    assert "noDataMicroBatches.enabled is false: a window closes only" in line
    load()
    assert len(caplog.records) == 1


class Ends(ReportListener):
    """Sees the end of a query."""

    def __init__(self, ended: threading.Event) -> None:
        self._ended = ended

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  # Spark's name
        self._ended.set()


def test_a_second_watermark_ends_the_query_and_the_log_says_what_to_do(
    spark: SparkSession,
    load: Callable[..., DataFrame],
    stream: Any,
    event_log: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    event_log.log.append([Event(b'{"at": 20000, "id": 1}', key=b"k", segment="0")])
    counts = load().withWatermark("at", "1 second").groupBy(functions.window("at", "10 seconds")).count()
    writer = counts.writeStream.foreachBatch(lambda batch, _: batch.foreach(print))
    query = Query(lambda: writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start())
    query.until_at_rest()
    stream.mark(15_000, {"0": 1})
    ended = threading.Event()
    listening = listen(spark, Ends(ended))
    with pytest.raises(StreamingQueryException, match=REDEFINED):
        query.until_at_rest()
    assert ended.wait(60)  # which is after the watch, that was added first
    listening.close()
    (line,) = (each.getMessage() for each in caplog.records if each.name.endswith("mark_watch"))
    assert "take out the withWatermark after read_events" in line


@pytest.mark.parametrize(
    ("way", "within", "passed"),
    [
        ("source", 0, [1_000, 4_000, 40_000]),
        ("source", "10 seconds", [1_000, 40_000]),
        ("attach", "10 seconds", [1_000, 40_000]),
    ],
)
def test_a_duplicate_with_a_later_time_is_dropped_for_as_long_as_its_key_is_kept(
    spark: SparkSession,
    stream: Any,
    event_log: Any,
    tmp_path: Path,
    load: Any,
    way: str,
    within: Any,
    passed: list[int],
) -> None:
    """The same event at 1 s, at 4 s, and at 40 s, when the watermark is at 20 s and its key has been forgotten."""
    folder = Folder(tmp_path / "events", stream)
    if way == "source":
        events = load(duplicates_within=within)
    else:
        raw = spark.readStream.schema("time bigint").json(str(folder.path))
        events = attach(
            spark,
            raw.withColumn("at", functions.timestamp_millis("time")).withColumn("id", functions.lit(1).cast("bigint")),
            controller=stream.url,
            stream=stream.name,
            event_time="at",
            positions=FilePositions(tmp_path / "checkpoint"),
            duplicates_within=within,
        )
    once = events.dropDuplicatesWithinWatermark(["id"])
    found: dict[int, list[int]] = {}

    def keep(batch: DataFrame, number: int) -> None:
        found[number] = [row["t"] for row in batch.select(functions.unix_millis("at").alias("t")).collect()]

    writer = once.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = Query(writer.start)

    class Run:
        def settle(self) -> dict[int, int]:
            query.until_at_rest()
            return {}

        @property
        def query(self) -> Any:
            return query.now

    for time in (1_000, 4_000, 40_000):
        event_log.log.append([Event(json.dumps({"at": time, "id": 1}).encode(), key=b"k", segment="0")])
        folder.put("0", [time])
        stream.mark(20_000 if time == 4_000 else time + 1, {"0": len(folder.written)})
        settle(spark, Run()) if way == "attach" else Run().settle()
    query.stop()
    if way == "attach":
        detach(spark)
    assert sorted(time for times in found.values() for time in times) == passed


def test_windows_close_as_before_where_keys_are_kept(
    load: Callable[..., DataFrame], stream: Any, event_log: Any, running: Any
) -> None:
    events = load(duplicates_within="1 hour")
    with running(events.groupBy(functions.window("at", "10 seconds")).count()) as run:
        for time in (1_000, 11_000, 9_999, 21_000):
            event_log.log.append([Event(json.dumps({"at": time, "id": 1}).encode(), key=b"k", segment="0")])
        stream.mark(10_001, {"0": 3})
        assert run.settle() == {0: 2}
        stream.mark(20_001, {"0": 4})
        assert run.settle() == {0: 2, 10_000: 1}


def test_a_duration_that_is_none_is_refused(load: Callable[..., DataFrame]) -> None:
    with pytest.raises(InvalidOption, match="duplicates_within"):
        load(duplicates_within="soon")
