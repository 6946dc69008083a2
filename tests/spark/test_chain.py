"""Two jobs in a row: the first one notes its time on what it writes, and the second one is as exact as the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions

from spark_integration import LogSink, OutputNotes, exact_watermark, read_events
from spark_integration.errors import InvalidOption, WrongColumn
from strandline.client import calls
from strandline.client.retry import CALL_DEADLINE_DEFAULT_MS
from strandline.logs import Event, Memo
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from tests.mute import MuteWire
from tests.spark.queries import Query, dropped, last_progress

Read = Callable[..., DataFrame]

WIDTH_MS, WIDER_MS = 10_000, 30_000

pytestmark = pytest.mark.spark


class Chain:
    """A first job, from the test's stream to an output stream, that can be stopped and started."""

    def __init__(
        self, spark: SparkSession, read: Read, output: Any, folder: Path, notes_through: str | None = None
    ) -> None:
        """`notes_through` is where the first job finds the controller that it notes to."""
        self._spark, self._read, self._folder = spark, read, folder
        self.output, self.path = output, folder / "output.db"
        self._notes_through = output.url if notes_through is None else notes_through
        SqliteLog.create(self.path, 3).close()

    @contextmanager
    def first_job(self) -> Iterator[Callable[[], None]]:
        counts = exact_watermark(self._read(), event_time="event_time").groupBy(
            functions.window("event_time", f"{WIDTH_MS} milliseconds"), "key"
        )
        end = functions.unix_millis("window.end")
        rows = counts.count().select(
            "key", functions.to_json(functions.struct(end.alias("time"), "count")).alias("value")
        )
        notes = OutputNotes(
            self._spark, controller=self._notes_through, stream=self.output.name, writer="job-1", path=self.path,
            seal_at_end=True,
        )  # fmt: skip
        sink = LogSink("job-1", path=self.path)
        writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(self._folder / "first"))
        query = Query(writer.start)
        notes.follow(query.now)
        self.notes, self.query = notes, query

        def settle() -> None:
            query.until_at_rest()
            if (last := last_progress(query.now)) is not None:
                notes.handle_progress(last)
            assert notes.settle(60)

        yield settle
        query.stop()
        assert not dropped(query.progress())
        notes.close()
        sink.close()

    def written(self) -> int:
        with SqliteLogReader(self.path) as log:
            return sum(log.end_offsets().values())

    def second_job(self) -> DataFrame:
        events = read_events(
            self._spark, controller=self.output.url, stream=self.output.name, path=self.path,
            schema="time bigint, count bigint", event_time="time",
        )  # fmt: skip
        wider = events.groupBy(functions.window("time", f"{WIDER_MS} milliseconds"))
        return wider.agg(functions.sum("count").alias("count"))


def truth(written: list[int]) -> dict[int, int]:
    """By the start of the wider windows, in which each narrow one lies with its end."""
    counts: dict[int, int] = {}
    for time in written:
        end = time // WIDTH_MS * WIDTH_MS + WIDTH_MS
        counts[end // WIDER_MS * WIDER_MS] = counts.get(end // WIDER_MS * WIDER_MS, 0) + 1
    return counts


#   seconds         0         10        20        30        40       end
#   first job       ··········|·········|·········|·········|·········
#   its windows' ends         x         x         x         x         x
#   second job      ······························|··················
def test_a_chains_second_job_is_exact_though_the_first_restarts(
    spark: SparkSession,
    read: Read,
    running: Any,
    stream: Any,
    controller: Any,
    event_log: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    chain = Chain(spark, read, controller.stream(), tmp_path)
    with running(chain.second_job(), "second") as second:
        with chain.first_job() as settle:
            event_log.append("0", range(0, 34_000, 700))
            event_log.append("1", range(0, 26_000, 900))
            stream.mark(25_000, {"0": 36, "1": 28})
            settle()
            assert chain.written() == 6  # three keys, two windows
            assert second.settle() == {}
            stream.mark(33_000, {"0": 49, "1": 29})
            settle()
            # The narrow window that ends at 30 s is out, and belongs to the wide one that begins there.
            assert second.settle() == {0: len([time for time in event_log.written if time < 20_000])}
        with chain.first_job() as settle:
            event_log.append("2", range(33_000, 55_000, 1_100))
            stream.seal(event_log.log.seal())
            settle()
            assert second.settle() == truth(event_log.written)
    caplog.clear()
    with chain.first_job() as settle:  # once more, when all is done
        settle()
    (told,) = (each.getMessage() for each in caplog.records if each.name.startswith("spark_integration"))
    assert (
        told
        == f"stream {chain.output.name} is sealed: an earlier run of this job finished it, and this one adds nothing"
    )
    assert chain.written() == 3 * 6


@pytest.mark.full
def test_a_job_with_lost_answers_is_refused_nothing_afterwards(
    spark: SparkSession,
    read: Read,
    stream: Any,
    controller: Any,
    event_log: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    output = controller.stream()
    with closing(MuteWire(urlsplit(controller.url).port or 0)) as wire:
        chain = Chain(spark, read, output, tmp_path, notes_through=f"http://127.0.0.1:{wire.port}")
        with chain.first_job() as settle:
            event_log.append("0", range(0, 30_000, 1_000))
            stream.mark(10_000, {"0": 10})
            settle()
            wire.losing = 1_000_000
            stream.mark(20_000, {"0": 20})
            chain.query.until_at_rest()
            last = last_progress(chain.query.now)
            assert last is not None
            chain.notes.handle_progress(last)
            chain.notes.onQueryIdle(chain.query.now)  # type: ignore[arg-type]  # Spark's own event has no more than its id
            assert not chain.notes.settle(CALL_DEADLINE_DEFAULT_MS / 1000 + 5)  # it gave up once, and tries again
            wire.losing = 0
            assert chain.notes.settle(60)
    assert "is repeated" in caplog.text
    assert "refused" not in caplog.text
    assert output.run(calls.marks(output.name, limit=1000)).marks[-1].time == 20_000


def run_once(rows: DataFrame, write: Callable[[DataFrame, int], None], folder: Path) -> None:
    """Runs a query from the checkpoint in a folder until it has read what is there."""
    writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(folder))
    writer.trigger(availableNow=True).start().awaitTermination(60)


def test_a_batch_that_runs_again_with_other_rows_is_appended_once(
    spark: SparkSession, read: Read, event_log: Any, stream: Any, tmp_path: Path
) -> None:
    path = tmp_path / "output.db"
    SqliteLog.create(path, 1).close()
    sink = LogSink("job", path=path)
    ended = list[int]()

    def write(batch: DataFrame, batch_id: int) -> None:
        sink(batch, batch_id)
        ended.append(batch_id)
        if len(ended) == 1:
            raise RuntimeError("killed before Spark knows of the batch")

    event_log.append("0", [1_000, 2_000])
    rows = read().selectExpr("'0' AS segment", "uuid() AS value")
    for folder in ("first", "first", "new"):  # a new checkpoint begins anew, with the same number
        with suppress(StreamingQueryException):
            run_once(rows, write, tmp_path / folder)
    assert ended[:2] == [0, 0]
    with SqliteLogReader(path) as log:
        assert log.end_offsets() == {"0": 4}
    sink.close()


def test_a_sink_that_is_called_twice_for_a_batch_is_refused(
    spark: SparkSession, read: Read, event_log: Any, stream: Any, tmp_path: Path
) -> None:
    path = tmp_path / "output.db"
    SqliteLog.create(path, 1).close()
    sink = LogSink("job", path=path)

    def write(batch: DataFrame, batch_id: int) -> None:
        sink(batch, batch_id)
        sink(batch.withColumn("value", functions.lit("other")), batch_id)

    event_log.append("0", [1_000])
    rows = read().selectExpr("'0' AS segment", "'one' AS value")
    for _ in range(2):  # the second run finds the batch in the log
        with pytest.raises(StreamingQueryException, match="called once for each batch"):
            run_once(rows, write, tmp_path / "job")
    sink.close()


def test_a_column_that_no_log_takes_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "output.db"
    SqliteLog.create(path, 1).close()
    sink = LogSink("job", path=path)
    rows = spark.range(3)  # `bytes(3)` would be three zero bytes
    with pytest.raises(WrongColumn, match="'value' is of type long: cast it to string, or to binary"):
        sink(rows.withColumnRenamed("id", "value"), 0)
    with pytest.raises(WrongColumn, match="'segment' is of type long: cast it to string"):
        sink(rows.selectExpr("'x' AS value", "id AS segment"), 0)
    sink.close()


def test_a_sink_named_like_the_owner_of_another_memo_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "output.db"
    with SqliteLog.create(path, 1) as log, log.begin() as transaction:
        transaction.write([Event(b"x", segment="0")])
        transaction.commit(Memo("job", '{"times":{"":5}}'))
    sink = LogSink("job", path=path)
    with pytest.raises(InvalidOption, match=r"name .* cannot be 'job': the log has the memo of a writer"):
        sink(spark.sql("SELECT 'k' AS key, 'x' AS value"), 0)
    sink.close()


def test_output_notes_follow_one_query(spark: SparkSession, stream: Any, tmp_path: Path) -> None:
    path = tmp_path / "output.db"
    SqliteLog.create(path, 1).close()
    notes = OutputNotes(spark, controller=stream.url, stream=stream.name, writer="job", path=path)
    first, second = (
        Query(spark.readStream.format("rate").load().writeStream.format("noop").queryName(name).start)
        for name in ("first", "second")
    )
    notes.follow(first.now)
    notes.follow(first.now)
    with pytest.raises(InvalidOption, match=f"these notes follow query {first.now.id}"):
        notes.follow(second.now)
    for query in (first, second):
        query.stop()
    notes.close()
