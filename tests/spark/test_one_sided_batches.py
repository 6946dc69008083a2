"""Every operator with state gives what the same query gives as a batch, whichever side of it has data in which batch.

Spark plans each batch anew. A source without rows is an empty relation in that plan, and the optimizer concludes from
what remains. That must not reach the state which later batches need.

A story has a word for each moment at which the query comes to rest: "l" and "r" put rows on the left and on the right,
"m" notes a time for both, "" leaves a query without data, and "|" starts it again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from spark_integration import attach, detach, read_events
from spark_integration.attachment import reporter
from spark_integration.positions import FilePositions
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from tests.spark.operators import HAS_TIMERS, Rows, said, states, timers
from tests.spark.queries import Job, last_progress

FIELDS = "t bigint, id bigint, key string"
BASE_MS, STEP_MS = 100_000, 10_000
END = -1  # the identity of a row at the end of time, which a watermark of Spark's own needs

Load = Callable[[str], DataFrame]

pytestmark = pytest.mark.spark


@dataclass
class Side:
    """One input: rows that are put into it at once, and a mark below which they are."""

    stream: Any
    folder: Path
    log: SqliteLog | None
    rows: list[dict[str, Any]] = field(default_factory=list)
    _files: int = 0

    def put(self, rows: list[dict[str, Any]]) -> None:
        self.rows += rows
        if self.log is not None:
            self.log.append([Event(json.dumps(row).encode(), key=b"k", segment="0") for row in rows])
            return
        hidden = self.folder / f".{self._files}"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        hidden.rename(self.folder / f"one-{self._files:06d}.json")
        self._files += 1

    @property
    def position(self) -> dict[str, int]:
        return {"0": len(self.rows)} if self.log is not None else {"one": self._files}

    def batch(self, spark: SparkSession) -> DataFrame:
        rows = [(row["t"], row["id"], row["key"]) for row in self.rows]
        return _timed(spark.createDataFrame(rows, FIELDS))


def _timed(raw: DataFrame) -> DataFrame:
    return raw.withColumn("t", functions.timestamp_millis("t"))


def _windows(name: str, left: Load, right: Load) -> DataFrame:
    found = left(name).groupBy(functions.window("t", "10 seconds")).count()
    return said(found, name, functions.lit(""), functions.col("window.start"), functions.col("count"))


def _keyed(name: str, left: Load, right: Load) -> DataFrame:
    found = left(name).groupBy(functions.window("t", "20 seconds", "10 seconds"), "key").count()
    return said(found, name, functions.col("key"), functions.col("window.start"), functions.col("count"))


def _sessions(name: str, left: Load, right: Load) -> DataFrame:
    found = left(name).groupBy(functions.session_window("t", "12 seconds").alias("window"), "key").count()
    return said(found, name, functions.col("key"), functions.col("window.start"), functions.col("count"))


def _unique(name: str, left: Load, right: Load) -> DataFrame:
    found = left(name).dropDuplicates(["id", "t"])
    return said(found, name, functions.col("key"), functions.col("t"), functions.col("id"))


def _first(name: str, left: Load, right: Load) -> DataFrame:
    events = left(name)
    found = (events.dropDuplicatesWithinWatermark if events.isStreaming else events.dropDuplicates)(["id"])
    return said(found, name, functions.col("key"), functions.col("t"), functions.col("id"))


def _pairs(left: DataFrame, right: DataFrame, kind: str) -> DataFrame:
    there = right.selectExpr("t as then", "id as other")
    within = functions.expr("id = other and then between t - interval 30 seconds and t + interval 30 seconds")
    return left.join(there, within, kind)


def _join(kind: str, name: str, left: Load, right: Load) -> DataFrame:
    found = _pairs(left(f"{name} left"), right(f"{name} right"), kind)
    if kind == "left_semi":
        return said(found, name, functions.lit(""), functions.col("t"), functions.col("id"))
    found = found.where(functions.coalesce("id", "other") != END)
    key = functions.concat_ws(" ", "id", "other")
    return said(found, name, key, functions.col("t"), functions.unix_millis("then"))


def _union_below_a_join(name: str, left: Load, right: Load) -> DataFrame:
    moved = left(f"{name} moved").withColumn("id", functions.col("id") + 1)
    return _join("left_outer", name, lambda side: left(side).union(moved), right)


def _windows_of_pairs(name: str, left: Load, right: Load) -> DataFrame:
    pairs = _pairs(left(f"{name} left"), right(f"{name} right"), "inner").select("t")
    return _windows(name, lambda _: pairs, right)


def _join_of_windows(name: str, left: Load, right: Load) -> DataFrame:
    counts = [
        load(f"{name} {side}").groupBy(functions.window("t", "10 seconds")).agg(functions.count("*").alias(side))
        for side, load in (("left", left), ("right", right))
    ]
    found = counts[0].join(counts[1], "window")
    return said(
        found, name, functions.col("left").cast("string"), functions.col("window.start"), functions.col("right")
    )


def _stepwise(name: str, left: Load, right: Load) -> DataFrame:
    """The timers of transformWithState, or the time-outs of applyInPandasWithState; a batch has windows for them."""
    if left(name).isStreaming:
        return (timers if name == "timers" else states)(left)
    found = left(name).groupBy(functions.window("t", "10 seconds"), "key").count()
    return said(found, name, functions.col("key"), functions.col("window.start"), functions.col("count"))


OPERATORS: dict[str, Callable[[str, Load, Load], DataFrame]] = {
    "windows": _windows,
    "keyed": _keyed,
    "sessions": _sessions,
    "unique": _unique,
    "first": _first,
    **{kind: partial(_join, kind) for kind in ("inner", "left_outer", "right_outer", "full_outer", "left_semi")},
    "union below a join": _union_below_a_join,
    "windows of pairs": _windows_of_pairs,
    "join of windows": _join_of_windows,
}
JOINS = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
STEPWISE = ("states", *(["timers"] if HAS_TIMERS else []))


def together(names: Iterable[str], left: Load, right: Load) -> DataFrame:
    parts = [(_stepwise if name in STEPWISE else OPERATORS[name])(name, left, right) for name in names]
    return reduce(DataFrame.union, parts)


class Scene:
    """Two streams, and a query over both by one way: `attach`, `read_events`, or `attach` on the left alone."""

    def __init__(self, spark: SparkSession, controller: Any, folder: Path, way: str, opened: ExitStack) -> None:
        self._spark, self._way, self._checkpoint = spark, way, folder / "checkpoint"
        self.sides = []
        for name in ("left", "right"):
            (folder / name).mkdir(parents=True)
            log = None
            if way == "read":
                log = opened.enter_context(SqliteLog.create(folder / f"{name}.db", 1))
            stream = controller.stream(segments=1 if way == "read" else "open")
            self.sides.append(Side(stream, folder / name, log))
        self._step = 0

    def load(self, side: Side, observation: str) -> DataFrame:
        spark, stream = self._spark, side.stream
        if side.log is not None:
            return read_events(
                spark, controller=stream.url, stream=stream.name, path=side.log.path, schema=FIELDS, event_time="t",
                observation=observation,
            ).select("t", "id", "key")  # fmt: skip
        raw = _timed(spark.readStream.schema(FIELDS).json(str(side.folder)))
        if self._way == "left alone" and side is self.sides[1]:
            return raw.withWatermark("t", "1 hour")
        positions = FilePositions(self._checkpoint, folder=side.folder.name)
        return attach(
            spark, raw, controller=stream.url, stream=stream.name, event_time="t", positions=positions
        )  # fmt: skip

    def query(self, names: Iterable[str]) -> DataFrame:
        return together(names, *(partial(self.load, side) for side in self.sides))

    def truth(self, names: Iterable[str]) -> Rows:
        rows = together(names, *((lambda _, side=side: side.batch(self._spark)) for side in self.sides)).collect()
        return Counter((row["operator"], row["key"], row["time"], row["value"]) for row in rows)

    def act(self, word: str) -> None:
        """Does what a word of a story says."""
        self._step += 1
        step, start = self._step, BASE_MS + self._step * STEP_MS
        left, right = self.sides
        for letter in word:
            match letter:
                case "l":
                    here = [(start + 1_000, step), (start + 4_000, 100 + step), (start + 1_000, step)]
                    left.put([{"t": t, "id": number, "key": f"k{number % 2}"} for t, number in here])
                case "r":
                    there = [(start + 2_000, step - 1), (start + 5_000, step), (start + 7_000, step + 1)]
                    right.put([{"t": t, "id": number, "key": f"k{number % 2}"} for t, number in there])
                case "m":
                    for side in self.sides:
                        side.stream.mark(start + STEP_MS, side.position)

    def end(self) -> None:
        self.act("m")  # names the segments of a stream in which nothing was noted
        for side in self.sides:
            if self._way == "left alone":
                side.put([{"t": BASE_MS + 10_000_000, "id": END, "key": "end"}])
                side.stream.mark(BASE_MS + 10_000_000, side.position)
            side.stream.seal(side.position)

    def settle(self, job: Job) -> Rows:
        found = job.settle()
        if self._way != "read":
            for _ in range(2):  # the listener, which reports what the batch has read, and the batch that this brings
                last = last_progress(job.query)
                if last is not None:
                    reporter(self._spark).handle_progress(last)
                assert reporter(self._spark).settle(60)
                found = job.settle()
        return found

    def tell(self, names: tuple[str, ...], story: Iterable[str]) -> Rows:
        """Runs a query through a story and to the end of its streams; gives all that it emitted."""
        store = "RocksDBStateStoreProvider" if "timers" in names else "HDFSBackedStateStoreProvider"
        job, words = Job(self._checkpoint, store=store), iter(story)
        while True:
            with job.running(self.query(names)):
                for word in words:
                    if word != "|":
                        self.act(word)
                    self.settle(job)
                    if word == "|":
                        break
                else:
                    self.end()
                    return self.settle(job)


@pytest.fixture
def scene(spark: SparkSession, controller: Any, tmp_path: Path) -> Iterator[Callable[[str], Scene]]:
    with ExitStack() as opened:
        count = iter(range(1_000))
        yield lambda way: Scene(spark, controller, tmp_path / str(next(count)), way, opened)
    detach(spark)


#                                    rows on one side, on the other, marks alone, nothing, a restart, all at once
STORY = ("l", "r", "m", "", "|", "lm", "mr", "lrm")
SHORT_STORY = ("l", "r", "m", "|", "lm", "r")
# Several operators in one query: each has its own state, and its own empty inputs.
TOGETHER = (
    ("windows", "keyed", "sessions"),
    ("unique", "first"),
    JOINS,
    ("union below a join", "windows of pairs", "join of windows"),
    *((name,) for name in STEPWISE),
)
EACH_WAY = [*((names, "attach") for names in TOGETHER), (("full_outer", "left_semi"), "read")]


def test_no_row_is_lost_where_batches_have_one_side(scene: Callable[[str], Scene]) -> None:
    names = ("full_outer", "unique")
    told = scene("attach")
    assert told.tell(names, SHORT_STORY) == told.truth(names)


# Each operator over our own source has the truth in test_operators.py; of batches with one side a join is what remains.
@pytest.mark.full
@pytest.mark.parametrize(("names", "way"), EACH_WAY)
def test_each_operator_gives_what_a_batch_gives(
    scene: Callable[[str], Scene], names: tuple[str, ...], way: str
) -> None:
    told = scene(way)
    assert told.tell(names, STORY) == told.truth(names)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["full_outer", "left_semi"])
def test_a_join_with_a_side_that_is_not_attached_gives_what_a_batch_gives(
    scene: Callable[[str], Scene], kind: str
) -> None:
    told = scene("left alone")
    assert told.tell((kind,), STORY) == told.truth((kind,))
