"""Every stateful operator of Spark at once gives exactly the truth, through all that writers and a job go through."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession, functions
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from logs.sqlite import SqliteLog
from logs.sqlite_reader import SqliteLogReader
from spark_integration import read_events
from strandline.config import StreamConfig
from writer_client import Event, Writer

Rows = Counter[tuple[str, str, int, int]]  # operator, key, time, and what it says there

SECOND_MS = 1_000
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS = "spark.sql.shuffle.partitions"
STATES = "org.apache.spark.sql.execution.streaming.state"
BASE_MS = 100_000  # to Spark, what is not after 1970 began is late
CONFIG = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=3_600_000)

pytestmark = pytest.mark.spark


class Devices:
    """Writers of events with a time, an identity, and a kind: "a", or "b", which follows the "a" of its identity."""

    def __init__(self, controller: Any, stream: Any, path: Path, opened: ExitStack) -> None:
        self._connection, self._stream, self._path, self._opened = controller.connection, stream, path, opened
        self._identities = 0
        self.events: list[dict[str, Any]] = []

    def writer(self, name: str) -> Writer:
        writer = Writer(
            self._connection, self._stream.name, name, log=self._opened.enter_context(SqliteLog(self._path))
        )
        writer.register()
        return writer

    def write(self, writer: Writer, times: Iterable[int]) -> None:
        """An "a" at each time; a "b" behind every other one; and one in four "a"s twice."""
        events: list[dict[str, Any]] = []
        for time in (BASE_MS + each for each in times):
            self._identities += 1
            number = self._identities
            events.append({"t": time, "id": number, "kind": "a"})
            if number % 2:
                events.append({"t": time + number % 7 * SECOND_MS, "id": number, "kind": "b"})
            if number % 4 == 0:
                events.append({"t": time, "id": number, "kind": "a"})
        writer.write([Event(json.dumps(each).encode(), key=b"k%d" % (each["id"] % 3)) for each in events])
        self.events += [{**each, "key": f"k{each['id'] % 3}"} for each in events]

    def note(self, writer: Writer, time: int) -> None:
        writer.note_time(BASE_MS + time)

    def seal(self) -> None:
        with SqliteLog(self._path) as log:
            self._stream.seal(log.seal())


def truth(events: list[dict[str, Any]]) -> Rows:
    """What all operators are to say of these events, in plain Python."""
    found: Rows = Counter()
    of_a = [each for each in events if each["kind"] == "a"]
    for name, width, slide in (("tumbling", 10, 10), ("sliding", 20, 5), ("timers", 10, 10)):
        counts = Counter(
            (each["key"], start * SECOND_MS)
            for each in events
            for start in range(-width, 1_000, slide)
            if start * SECOND_MS <= each["t"] < (start + width) * SECOND_MS
        )
        found.update((name, key, start, count) for (key, start), count in counts.items())
    for key in {each["key"] for each in events}:
        session: list[int] = []
        for time in [*sorted(each["t"] for each in events if each["key"] == key), 10**9]:
            if session and time > session[-1] + 3 * SECOND_MS:  # one at the very end still belongs to it
                found["session", key, session[0], len(session)] += 1
                session = []
            session.append(time)
    unique = {(each["key"], each["id"], each["t"]) for each in of_a}
    found.update(("unique", key, time, number) for key, number, time in unique)
    ends = Counter((each["t"] // 5_000 * 5_000) // 20_000 * 20_000 for each in events)
    found.update(("chained", "all", start, count) for start, count in ends.items())
    for one in of_a:
        follows = [
            each for each in events
            if each["kind"] == "b" and each["id"] == one["id"] and one["t"] <= each["t"] <= one["t"] + 4 * SECOND_MS
        ]  # fmt: skip
        found.update(("joined", one["key"], one["t"], each["t"]) for each in follows)
        found["joined", one["key"], one["t"], -1] += not follows
    return +found


def said(df: DataFrame, operator: str, key: Column, time: Column, value: Column) -> DataFrame:
    return df.select(
        functions.lit(operator).alias("operator"), key.alias("key"),
        functions.unix_millis(time).alias("time"), value.cast("bigint").alias("value"),
    )  # fmt: skip


def operators(read: Callable[[str], DataFrame]) -> DataFrame:
    """Everything in one query. Each operator has the stream to itself."""
    key, count, start = functions.col("key").cast("string"), functions.col("count"), functions.col("window.start")

    def windows(name: str, *window: str) -> DataFrame:
        events = read(name)
        return said(events.groupBy(functions.window("t", *window), "key").count(), name, key, start, count)

    sessions = read("session").groupBy(functions.session_window("t", "3 seconds").alias("window"), "key").count()
    unique = read("unique").where("kind = 'a'").dropDuplicates(["key", "id", "t"])
    narrow = read("chained").groupBy(functions.window("t", "5 seconds"), "key").count()
    wide = narrow.groupBy(functions.window(functions.window_time("window"), "20 seconds"))
    left = read("left").where("kind = 'a'").select("key", "id", "t")
    right = (
        read("right").where("kind = 'b'").select(functions.col("id").alias("other"), functions.col("t").alias("then"))
    )
    within = functions.expr("id = other and then between t and t + interval 4 seconds")
    then = functions.coalesce(functions.unix_millis("then"), functions.lit(-1))
    parts = [
        windows("tumbling", "10 seconds"),
        windows("sliding", "20 seconds", "5 seconds"),
        said(sessions, "session", key, start, count),
        said(unique, "unique", key, functions.col("t"), functions.col("id")),
        said(wide.agg(functions.sum("count").alias("count")), "chained", functions.lit("all"), start, count),
        said(left.join(right, within, "left_outer"), "joined", key, functions.col("t"), then),
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    return whole


class Timers(StatefulProcessor):
    """Counts a key's events in steps of ten seconds, and emits a step when the watermark passes its end."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._counts = handle.getMapState("counts", "step bigint", "count bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803  # Spark's names
        for row in rows:
            step = (row["time"] // 10_000 * 10_000,)
            before = self._counts.getValue(step)
            if before is None:
                self._handle.registerTimer(step[0] + 10_000)
            self._counts.updateValue(step, (1 if before is None else before[0] + 1,))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803  # Spark's names
        step = expiredTimerInfo.getExpiryTimeInMs() - 10_000
        (count,) = self._counts.getValue((step,)) or (0,)
        self._counts.removeKey((step,))
        yield Row(operator="timers", key=key[0], time=step, value=count)

    def close(self) -> None:
        """Nothing is open."""


def timers(read: Callable[[str], DataFrame]) -> DataFrame:
    events = (
        read("timers").withColumn("time", functions.unix_millis("t")).withColumn("key", functions.expr("string(key)"))
    )
    return events.groupBy("key").transformWithState(
        statefulProcessor=Timers(),
        outputStructType="operator string, key string, time bigint, value bigint",
        outputMode="Append",
        timeMode="EventTime",
    )


class Job:
    """A query that keeps what it emits, over several runs."""

    def __init__(self, checkpoint: Path, store: str) -> None:
        self._checkpoint, self._store = checkpoint, f"{STATES}.{store}"
        self._batches: dict[int, Rows] = {}
        self.query: Any = None

    @contextmanager
    def running(self, df: DataFrame) -> Iterator[None]:
        writer = df.writeStream.outputMode("append").foreachBatch(self._keep)
        settings = {STATE_STORE: self._store, PARTITIONS: "1"}  # for each of eight operators that keep state
        before = {name: df.sparkSession.conf.get(name) for name in settings}
        for name, value in settings.items():
            df.sparkSession.conf.set(name, value)
        self.query = writer.option("checkpointLocation", str(self._checkpoint)).start()
        for name, usual in before.items():
            df.sparkSession.conf.set(name, usual or "")
        try:
            yield
        finally:
            self.query.stop()
        dropped = [one.numRowsDroppedByWatermark for each in self.query.recentProgress for one in each.stateOperators]
        assert dropped and not any(dropped)

    def _keep(self, batch: DataFrame, number: int) -> None:
        found: Rows = Counter((row["operator"], row["key"], row["time"], row["value"]) for row in batch.collect())
        assert self._batches.setdefault(number, found) == found

    def settle(self) -> Rows:
        self.query.processAllAvailable()
        return sum(self._batches.values(), Counter())


@pytest.fixture
def scene(controller: Any, tmp_path: Path) -> Iterator[tuple[Any, Path, Devices]]:
    stream, path = controller.stream(CONFIG, segments=2), tmp_path / "devices.db"
    SqliteLog.create(path, 2).close()
    with ExitStack() as opened:
        yield stream, path, Devices(controller, stream, path, opened)


@pytest.fixture
def read(spark: SparkSession, scene: tuple[Any, Path, Devices]) -> Callable[[str], DataFrame]:
    stream, path, _ = scene
    return lambda observation: read_events(
        spark, controller=stream.url, stream=stream.name, path=path,
        schema="t bigint, id bigint, kind string", event_time="t", observation=observation,
    )  # fmt: skip


#   seconds   0         10        20        30        40        50
#   fast      ========= 1 ========|======= 2 ==========|==== 3 ===|
#   slow      =====|====|=====|                             behind its backlog: ====|
#   away      =====|  silent; comes back with all of it after the job was restarted ====|
#   sleeper   =====|  idle             wakes at 45 ·|
def test_every_operator_gives_the_truth_through_skew_idleness_absence_ties_and_a_restart(
    scene: tuple[Any, Path, Devices], read: Callable[[str], DataFrame], tmp_path: Path
) -> None:
    _, path, devices = scene
    fast, slow, away, sleeper = (devices.writer(name) for name in ("fast", "slow", "away", "sleeper"))
    jobs = {
        Job(tmp_path / "all", "HDFSBackedStateStoreProvider"): operators,
        Job(tmp_path / "timers", "RocksDBStateStoreProvider"): timers,  # which timers need
    }

    def settle() -> Rows:
        return sum((job.settle() for job in jobs), Counter())

    with ExitStack() as running:
        for job, made in jobs.items():
            running.enter_context(job.running(made(read)))
        for writer in (slow, away, sleeper):
            devices.write(writer, range(0, 5_000, 900))
            devices.note(writer, 5_000)
        devices.write(fast, range(0, 21_000, 700))
        devices.note(fast, 21_000)
        sleeper.idle()
        devices.write(slow, range(5_000, 13_000, 1_100))
        devices.note(slow, 13_000)
        assert not any(
            time >= BASE_MS + 5_000 for name, _, time, _ in settle() if name != "unique" and name != "joined"
        )
        devices.write(slow, [13_000, 13_000])  # at the time of its own note
    with ExitStack() as running:
        for job, made in jobs.items():
            running.enter_context(job.running(made(read)))
        devices.write(away, range(5_000, 45_000, 1_300))
        devices.note(away, 45_000)
        assert {("tumbling", "k0", BASE_MS), ("timers", "k0", BASE_MS)} <= {each[:3] for each in settle()}
        devices.write(fast, range(21_000, 45_000, 1_700))
        devices.note(fast, 45_000)
        devices.write(slow, range(13_000, 45_000, 1_900))
        devices.note(slow, 45_000)
        settle()
        sleeper.register()
        devices.write(sleeper, [45_000, 45_000])  # the very time of the mark
        devices.write(away, [45_000, 52_000])
        for writer in (fast, slow, away, sleeper):
            writer.close()
        devices.seal()
        assert settle() == truth(devices.events)
    with SqliteLogReader(path) as log:
        assert sum(log.end_offsets().values()) == len(devices.events)
