"""Windows on real Spark are exactly the truth, with marks that a test writes down: none early or late, no row lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.listener import QueryTerminatedEvent

from spark_integration import exact_watermark, register
from spark_integration.listener import ReportListener
from strandline.core.segment import NewSegment

Read = Callable[..., DataFrame]
Warnings = Callable[[], list[str]]

WIDTH_MS = 10_000

pytestmark = pytest.mark.spark


def count_windows(df: DataFrame) -> DataFrame:
    return df.groupBy(functions.window("event_time", f"{WIDTH_MS} milliseconds")).count()


def exact_windows(df: DataFrame, **options: Any) -> DataFrame:
    return count_windows(exact_watermark(df, event_time="event_time", **options))


def positions(progress: Any) -> dict[str, int]:
    """The positions at which a batch ends, of a query with one source, as Spark reports them."""
    (source,) = progress.sources
    found: dict[str, int] = json.loads(source.endOffset)["positions"]
    return found


def events(progress: Any) -> int:
    return int(progress.observedMetrics["strandline"]["events"])


class Ended(ReportListener):
    """Counts the queries that ended. Listeners hear of all that came before it, in the order in which they came."""

    def __init__(self) -> None:
        self.queries = threading.Semaphore(0)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        self.queries.release()


@pytest.fixture
def warnings(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> Iterator[Warnings]:
    """What the driver was warned of, once one more query has ended: `warnings()`."""
    ended = Ended()
    spark.streams.addListener(ended)

    def warnings() -> list[str]:
        assert ended.queries.acquire(timeout=60)
        found = [record.getMessage() for record in caplog.records if record.name.startswith("spark_integration")]
        caplog.clear()
        return found

    yield warnings
    spark.streams.removeListener(ended)


#   time       0 s               10 s              20 s
#   events     ······9.999|10.000 (one is there, three are to come)
#   marks                 M1=10.000  M2=10.001               end
def test_a_window_ending_at_a_mark_closes_with_the_next(read: Read, running: Any, stream: Any, event_log: Any) -> None:
    at_once = exact_windows(read(), only_windows=True)
    with running(exact_windows(read())) as run, running(at_once, checkpoint="at once") as early:
        event_log.append("0", [9_999, 10_000])
        stream.mark(10_000, {"0": 1})
        assert (run.settle(), early.settle()) == ({}, {0: 1})
        event_log.append("0", [10_000, 10_000])  # at the time of the mark, and late in neither
        event_log.append("1", [10_000])
        stream.mark(10_001, {"0": 4, "1": 1})
        assert (run.settle(), early.settle()) == ({0: 1}, {0: 1})
        event_log.append("2", [10_001])
        stream.seal(event_log.log.seal())
        assert run.settle() == early.settle() == event_log.windows(WIDTH_MS) == {0: 1, 10_000: 5}


def test_a_mark_that_moves_without_data_closes_windows(read: Read, running: Any, stream: Any, event_log: Any) -> None:
    event_log.append("0", [1_000, 11_000, 21_000])
    with running(exact_windows(read())) as run:
        assert run.settle() == {}
        stream.mark(10_500, {"0": 1})
        assert run.settle() == {0: 1}
        stream.mark(20_500, {"0": 2})
        assert run.settle() == {0: 1, 10_000: 1}
        quiet = run.progress()[-1].batchId
        assert run.settle() == {0: 1, 10_000: 1}  # it looked again, and nothing moved: no batch
        assert run.progress()[-1].batchId == quiet


def test_a_planned_unfinished_batch_runs_again_with_its_mark(
    read: Read, running: Any, stream: Any, event_log: Any, tmp_path: Path
) -> None:
    def fail(batch: DataFrame, batch_id: int) -> None:
        batch.count()
        raise RuntimeError("the sink is away")

    event_log.append("0", [1_000, 2_000, 3_000])
    stream.mark(3_000, {"0": 2})
    writer = exact_windows(read()).writeStream.outputMode("append").foreachBatch(fail)
    first = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(StreamingQueryException, match="the sink is away"):
        first.awaitTermination(60)
    stream.mark(9_000, {"0": 3})
    event_log.append("0", [9_500, 10_500])
    with running(exact_windows(read()), checkpoint="checkpoint") as second:
        second.settle()
        repeated = next(one for one in second.progress() if one.batchId == 0)
        assert repeated.numInputRows == 4  # three events and the mark row, as before
        assert repeated.observedMetrics["strandline"].asDict() == {
            "events": 3, "unreadable": 0, "mark": 3_000, "late": 0, "backlog": 0, "incomplete": 0,
            "example": None,
        }  # fmt: skip
        stream.seal(event_log.log.seal())
        assert second.settle() == event_log.windows(WIDTH_MS)


#   segment "0" ──┬── "3" ──┬── "5"      what follows is read when all before it is
#                 └── "4" ──┘
@pytest.mark.full
def test_splits_and_merges_are_read_in_order_and_close_windows(
    read: Read, running: Any, stream: Any, event_log: Any
) -> None:
    event_log.append("0", range(0, 8_000, 100))
    halves = [NewSegment("3", 0.0, 1 / 6), NewSegment("4", 1 / 6, 1 / 3)]
    stream.scale(event_log.log.scale(["0"], halves), halves)
    event_log.append("3", range(8_000, 15_000, 500))
    stream.mark(15_000, {"3": 14})  # which says that "0" is wholly below
    with running(exact_windows(read(maxRowsPerBatch=50))) as run:
        assert run.settle() == {0: 84}
        first, second = (one for one in run.progress() if events(one))
        assert (positions(first), positions(second)) == ({"0": 50}, {"0": 80, "3": 14})
        assert [one.observedMetrics["strandline"]["mark"] for one in (first, second)] == [None, 15_000]
        assert json.loads(first.sources[0].latestOffset)["positions"] == {"0": 80, "3": 14}  # what was still to come
        whole = [NewSegment("5", 0.0, 1 / 3)]
        event_log.append("4", range(15_000, 27_000, 200))  # more than a batch
        stream.scale(event_log.log.scale(["3", "4"], whole), whole)
        event_log.append("5", range(27_000, 35_000, 1_000))
        stream.mark(35_000, {"5": 8})  # which says the same of "3" and "4"
        assert run.settle() == {0: 84, 10_000: 35, 20_000: 38}
        third, fourth = (one for one in run.progress()[-4:] if positions(one).get("4") and events(one))
        assert (positions(third), positions(fourth)) == (
            {"0": 80, "3": 14, "4": 50}, {"0": 80, "3": 14, "4": 60, "5": 8}
        )  # fmt: skip
        stream.seal(event_log.log.seal())
        assert run.settle() == event_log.windows(WIDTH_MS)


def test_of_two_streams_the_one_that_is_behind_closes_the_windows(
    read: Read, running: Any, controller: Any, stream: Any, event_log: Any, tmp_path: Path, warnings: Warnings
) -> None:
    other, other_log = controller.stream(), type(event_log).create(tmp_path / "other.db")
    event_log.append("0", range(0, 25_000, 1_000))
    other_log.append("1", range(0, 25_000, 5_000))
    both = exact_watermark(read(), event_time="event_time").union(
        exact_watermark(read(stream=other.name, path=other_log.path), event_time="event_time", observation="the other")
    )
    with running(count_windows(both)) as run:
        stream.mark(24_000, {"0": 24})
        assert run.settle() == {}
        other.mark(15_000, {"1": 3})
        assert run.settle() == {0: 12}
        stream.seal(event_log.log.seal())
        assert run.settle() == {0: 12}
        other.seal(other_log.log.seal())
        assert run.settle() == {0: 12, 10_000: 12, 20_000: 6}
    assert warnings() == []  # batches to which one of them gave no mark are no reason to
    other_log.log.close()


class TestFilters:
    def test_filters_after_the_call_change_what_is_counted_and_nothing_else(
        self,
        read: Read,
        running: Any,
        stream: Any,
        event_log: Any,
        capsys: pytest.CaptureFixture[str],
        warnings: Warnings,
    ) -> None:
        event_log.append("0", range(0, 21_000, 250))
        stream.mark(20_000, {"0": 80})
        df = exact_watermark(read(), event_time="event_time")
        kept = df.where("key = 'k1'").where("event_time >= timestamp_millis(5000)").where("segment is not null")
        with running(count_windows(kept)) as run:
            run.settle()
            stream.seal(event_log.log.seal())
            found = run.settle()
            run.query.explain(extended=True)
        event_log.written = [time for time in event_log.written if time % 3 == 1 and time >= 5_000]
        assert found == event_log.windows(WIDTH_MS)
        assert warnings() == []
        # The plan of a batch is made again, and in it too the barrier stands on the watermark.
        plan = capsys.readouterr().out.split("== Optimized Logical Plan ==")[1].split("== Physical Plan ==")[0]
        kinds = [line.strip(" +-:~").split(" ")[0] for line in plan.strip().splitlines()]
        at = kinds.index("EventTimeWatermark")
        assert kinds[at - 2 : at] == ["Filter", "CollectMetrics"]
        assert "Filter" not in kinds[at:]

    def test_an_early_filter_stalls_the_watermark_and_warns_once(
        self, spark: SparkSession, read: Read, running: Any, stream: Any, event_log: Any, warnings: Warnings
    ) -> None:
        register(spark)  # a second time: that gives no second warning
        event_log.append("0", range(0, 21_000, 250))
        early = read().where("event_time >= timestamp_millis(0)")
        with running(exact_windows(early)) as run:
            run.settle()  # there is no mark yet, so none is lost
            stream.mark(12_000, {"0": 48})
            run.settle()
            stream.mark(20_000, {"0": 80})
            assert run.settle() == {}
            stream.seal(event_log.log.seal())
            assert run.settle() == {}  # not even now
            query = run.query.id
        (warning,) = warnings()
        assert warning.startswith(f"query {query}: the source yielded mark 12000 in batch 1, but it did not arrive at")


def test_columns_are_those_of_the_log(read: Read, stream: Any, event_log: Any, tmp_path: Path) -> None:
    event_log.append("1", [1_234])
    stream.mark(1_000, {})
    raw = read()
    assert raw.schema.simpleString() == (
        "struct<key:binary,value:binary,segment:string,offset:bigint,appended_at:timestamp,"
        "mark:timestamp,floor:timestamp,event_time:timestamp>"
    )
    rows: list[Any] = []
    query = (
        raw.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    event, mark = sorted(rows, key=lambda row: row["mark"] is not None)
    assert (bytes(event["key"]), bytes(event["value"]), event["segment"], event["offset"], event["mark"]) == (
        b"k1",
        b"1234",
        "1",
        0,
        None,
    )
    assert event["appended_at"] is not None
    assert mark["mark"].timestamp() == 1.0
    assert [mark[name] for name in mark.asDict() if name != "mark"] == [None] * 7
