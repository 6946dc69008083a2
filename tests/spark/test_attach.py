"""Sources that are not ours: with `attach` their windows are the truth as well, one batch later."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions

from reader_client import GroupBacklog, ReaderGroup
from spark_integration import attach, detach
from spark_integration.errors import InvalidOption, NotStreaming, WrongSetting
from spark_integration.options import BACKLOG_THRESHOLD
from spark_integration.positions import FilePositions
from spark_integration.releases import HAS_LIMITS
from spark_integration.spark_settings import AVAILABLE_NOW
from strandline.core.backlog import CallableStrategy
from strandline.errors import UnknownStream
from tests.spark.attached import WIDTH_MS, Folder, finish, settle

DAY_MS = 24 * 3_600_000

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(controller: Any, tmp_path: Path) -> Folder:
    return Folder(tmp_path / "events", controller.stream(segments="open"))


@pytest.fixture
def attached(spark: SparkSession, folder: Folder, tmp_path: Path) -> Iterator[Callable[..., DataFrame]]:
    def attached(session: SparkSession = spark, checkpoint: str = "checkpoint", **options: Any) -> DataFrame:
        raw = session.readStream.schema("time bigint").option("maxFilesPerTrigger", "2").json(str(folder.path))
        events = raw.withColumn("event_time", functions.timestamp_millis("time"))
        exact = attach(
            session,
            events,
            controller=folder.stream.url,
            stream=folder.stream.name,
            event_time="event_time",
            positions=FilePositions(tmp_path / checkpoint),
            **options,
        )
        return exact.groupBy(functions.window("event_time", f"{WIDTH_MS} milliseconds")).count()

    yield attached
    detach(spark)


def test_no_filter_goes_below_the_columns_that_a_query_computes(
    attached: Callable[..., DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    attached().explain(extended=True)
    plan = capsys.readouterr().out.split("== Optimized Logical Plan ==")[1].split("== Physical Plan ==")[0]
    operators = [line.strip(" +-:~") for line in plan.strip().splitlines()]
    kinds = [each.split(" ")[0] for each in operators]
    assert kinds[kinds.index("Filter") :] == [
        "Filter", "Project", "Union", "Project", "StreamingRelation",
        "Project", "Filter", "Project", "EventTimeWatermark", "StreamingRelationV2",
    ]  # fmt: skip
    assert operators[-4].startswith("Filter isnull(mark")


def test_of_late_events_alone_the_log_has_a_line_with_sparks_count_of_rows_and_the_watermark(
    spark: SparkSession, folder: Folder, attached: Callable[..., DataFrame], running: Any, caplog: Any
) -> None:
    windows = attached()
    caplog.clear()  # of what older releases of Spark lack
    with running(windows, exact=False) as run:
        assert settle(spark, run) == {}  # a folder without a file is no reason for a warning
        folder.put("one", [1_000, 12_000])
        folder.mark(11_000)
        assert settle(spark, run) == {0: 1}
        assert caplog.messages == []
        folder.put("one", [1, 2, 3, 4, 5])
        assert settle(spark, run) == {0: 1}
    (line,) = caplog.messages
    assert ": 1 rows came late, and Spark dropped them: " in line  # which an aggregation had made of the five
    assert "is at or before the watermark 1970-01-01T00:00:10.999Z. " in line


def test_two_queries_of_a_session_that_attach_one_stream_have_positions_of_their_own(
    spark: SparkSession, folder: Folder, attached: Callable[..., DataFrame], running: Any
) -> None:
    slow = attached()
    fast = attached(checkpoint="fast")
    folder.put("one", [1_000, 12_000])
    folder.mark(11_000)
    with running(slow) as run:
        settle(spark, run)
        for time in (21_000, 31_000, 41_000):
            folder.put("one", [time - 1_000, time])
            folder.mark(time)
        with running(fast, "fast") as other:
            assert settle(spark, other) == {0: 1, 10_000: 1, 20_000: 2, 30_000: 2}
        assert settle(spark, run) == {0: 1, 10_000: 1, 20_000: 2, 30_000: 2}


@pytest.mark.full
def test_a_file_stream_is_exact_through_a_restart_and_to_its_end(
    spark: SparkSession, folder: Folder, attached: Callable[..., DataFrame], running: Any, tmp_path: Path
) -> None:
    with running(attached(group="files")) as run:
        folder.put("one", [1_000, 12_000])
        folder.put("two", [9_000, 4_000])
        folder.put("two", [11_000])
        assert settle(spark, run) == {}
        folder.mark(11_000)
        assert settle(spark, run) == {0: 3}
        folder.put("one", [11_000, 11_500])  # at the time of the mark, and not late
        folder.put("one", [25_000])
        assert settle(spark, run) == {0: 3}
        folder.mark(21_000)
        assert settle(spark, run) == {0: 3, 10_000: 4}
    folder.put("two", [21_000, 31_000])
    folder.mark(31_000)
    with running(attached(group="files"), before=run) as again:
        assert settle(spark, again) == {0: 3, 10_000: 4, 20_000: 2}
        folder.put("two", [31_000])
        folder.seal()
        assert settle(spark, again) == folder.truth()
    # A query that begins again is not told what another one has read, though it reports to the same group.
    shutil.rmtree(tmp_path / "checkpoint")
    with running(attached(group="files")) as again:
        assert settle(spark, again) == folder.truth()


def test_a_batch_that_runs_again_has_the_same_mark(
    spark: SparkSession, folder: Folder, attached: Callable[..., DataFrame], running: Any, tmp_path: Path
) -> None:
    def marks(run: Any) -> dict[int, str]:
        return {one.batchId: one.eventTime["max"] for one in run.progress() if "max" in one.eventTime}

    with running(attached()) as run:
        folder.put("one", [1_000, 12_000])
        settle(spark, run)
        folder.mark(19_999)  # a millisecond before the end of the second window
        assert settle(spark, run) == {0: 1}
    batch, mark = max(marks(run).items())
    for kind, first in (("commits", batch), ("offsets", batch + 1)):  # as if the driver had died within the batch
        for path in (tmp_path / "checkpoint" / kind).iterdir():
            if int(path.name.strip(".").partition(".")[0]) >= first:
                path.unlink()
    with running(attached(), before=run) as again:
        assert settle(spark, again) == {0: 1}
        assert marks(again)[batch] == mark
        folder.seal()
        assert settle(spark, again) == folder.truth()


def test_available_now_runs_close_what_is_complete_at_their_end(
    spark: SparkSession, folder: Folder, attached: Callable[..., DataFrame], running: Any
) -> None:
    def run(before: Any = None) -> Any:
        with running(attached(), available_now=True, before=before) as run:
            finish(spark, run)
        return run

    folder.put("one", [1_000, 12_000])
    folder.mark(11_000)
    first = run()
    third = first if HAS_LIMITS else run(run(first))
    assert third.windows() == {0: 1}
    folder.put("one", [13_000])
    folder.seal()
    last = run(third)
    assert (last if HAS_LIMITS else run(run(last))).windows() == folder.truth()


def test_sparks_wrapper_for_available_now_is_refused_where_runs_would_fail(
    spark: SparkSession, attached: Callable[..., DataFrame]
) -> None:
    spark.conf.set(AVAILABLE_NOW, "true")
    try:
        with (
            nullcontext() if HAS_LIMITS else pytest.raises(WrongSetting, match=r"Wrapper.* cannot be 'true': .*Spark 4")
        ):
            attached()
    finally:
        spark.conf.unset(AVAILABLE_NOW)


@pytest.mark.full
def test_a_second_session_of_one_spark_attaches_as_well(
    spark: SparkSession, folder: Folder, attached: Callable[..., DataFrame], running: Any
) -> None:
    assert attached().isStreaming  # in the first session, which stays the active one
    session, java = spark.newSession(), cast(Any, spark)
    with running(attached(session)) as run:
        active = java._jvm.org.apache.spark.sql.classic.SparkSession.getActiveSession()
        assert active.get().equals(java._jsparkSession)
        folder.put("one", [1_000, 12_000])
        folder.mark(11_000)
        assert settle(session, run) == {0: 1}
        folder.seal()
        assert settle(session, run) == folder.truth()
    detach(session)


@pytest.mark.full
@pytest.mark.parametrize("lag", ["5 seconds", 5_000])
def test_the_longest_delay_of_an_event_is_taken_off_each_mark(
    folder: Folder, attached: Callable[..., DataFrame], spark: SparkSession, running: Any, lag: str | int
) -> None:
    with running(attached(max_event_time_lag=lag)) as run:
        folder.put("one", [1_000, 12_000])
        folder.mark(14_999)
        assert settle(spark, run) == {}
        folder.put("one", [9_999])  # it took five seconds to be written
        folder.mark(15_001)
        assert settle(spark, run) == {0: 2}
        folder.seal()  # nothing follows, however long it may take
        assert settle(spark, run) == folder.truth()


def test_a_delay_that_is_none_is_refused_before_a_query_starts(attached: Callable[..., DataFrame]) -> None:
    with pytest.raises(InvalidOption, match=r"option maxEventTimeLag .* cannot be 'long': milliseconds, or a number"):
        attached(max_event_time_lag="long")


@pytest.mark.full
def test_an_attached_query_reports_backlog_by_its_groups_settings(
    spark: SparkSession, folder: Folder, attached: Callable[..., DataFrame], running: Any
) -> None:
    told, said = list[bool](), [False]
    backlog = GroupBacklog(strategies=[CallableStrategy(lambda: said[-1])], on_change=told.append)
    spark.conf.set(BACKLOG_THRESHOLD, "1 hour")
    try:
        windows = attached(group="attached-behind", backlog=backlog)
    finally:
        spark.conf.unset(BACKLOG_THRESHOLD)
    now = time.time_ns() // 1_000_000
    with running(windows) as run, ReaderGroup(folder.stream.controller.connection, "attached-behind") as group:
        folder.put("one", [now - 30 * DAY_MS])
        settle(spark, run)
        assert (told, group.describe().backlog_threshold_ms) == ([True], 3_600_000)  # there is no watermark yet
        folder.mark(now - 2 * DAY_MS)
        settle(spark, run)
        assert told == [True]
        group.change(backlog_threshold_ms=3 * DAY_MS)  # as an operator does it
        folder.put("one", [now - 2 * DAY_MS])
        settle(spark, run)
        assert told == [True, False]
        group.change(backlog_threshold_ms=DAY_MS)
        folder.put("one", [now - 2 * DAY_MS])
        settle(spark, run)
        assert told == [True, False, True]
        group.change(backlog_threshold_ms=None)
        said.append(True)
        folder.put("one", [now - 2 * DAY_MS])
        settle(spark, run)
        assert told == [True, False, True]  # the strategy still says so
        said.append(False)
        folder.put("one", [now - 2 * DAY_MS])
        settle(spark, run)
        assert told == [True, False, True, False]


@pytest.mark.full
def test_a_query_whose_group_lost_its_stream_ends_until_restarted(
    spark: SparkSession, controller: Any, folder: Folder, attached: Callable[..., DataFrame], running: Any
) -> None:
    other = controller.stream(segments="open")
    with running(attached(group="moved")) as run, ReaderGroup(controller.connection, "moved") as group:
        folder.put("one", [1_000])
        settle(spark, run)
        group.change(streams=[other.name])
        with pytest.raises(StreamingQueryException, match=f"no longer reads '{folder.stream.name}'; start the query"):
            run.settle()
    with running(attached(group="moved"), before=run) as again:
        folder.mark(10_001)
        assert settle(spark, again) == folder.truth()


def test_remaining_offsets_need_a_source_that_reports_its_end(
    attached: Callable[..., DataFrame],
) -> None:
    with pytest.raises(InvalidOption, match="only Kafka's connector reports where its log ends"):
        attached(backlog=GroupBacklog(remaining_offsets=5))


def test_a_batch_dataframe_and_a_mistyped_stream_are_refused_before_a_query_starts(
    spark: SparkSession, folder: Folder
) -> None:
    given = {"controller": folder.stream.url, "event_time": "event_time"}
    (folder.path / "one.json").write_text('{"time": 1}')
    time = functions.timestamp_millis("time")
    batch = spark.read.schema("time bigint").json(str(folder.path)).withColumn("event_time", time)
    with pytest.raises(NotStreaming, match=r"attach needs a streaming DataFrame.* begin with spark\.readStream"):
        attach(spark, batch, stream=folder.stream.name, **given)
    streaming = spark.readStream.schema("time bigint").json(str(folder.path)).withColumn("event_time", time)
    with pytest.raises(UnknownStream, match="there is no stream 'ordres'"):
        attach(spark, streaming, stream="ordres", **given)
