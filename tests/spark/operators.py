"""Every stateful operator of Spark over the same events, and what each is to say of them, in plain Python.

A job on a cluster loads this file as well, so it knows nothing of the tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import reduce
from typing import Any

import pandas
from pyspark.sql import Column, DataFrame, GroupedData, Row, functions
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

Rows = Counter[tuple[str, str, int, int]]  # operator, key, time, and what it says there

OPERATORS = (
    "tumbling",
    "sliding",
    "session",
    "unique",
    "first",
    "chained",
    "joined",
)  # all that can be in one query
HAS_TIMERS = hasattr(GroupedData, "transformWithState")  # since Spark 4.1
SECOND_MS = 1_000
SCHEMA = "t bigint, id bigint, kind string"


def made(times: Iterable[int], first: int) -> list[dict[str, Any]]:
    """Events, identities from `first` on: an "a" at each time; a "b" behind every other one; and one in four "a"s
    twice."""
    events: list[dict[str, Any]] = []
    for number, time in enumerate(times, first):
        key = f"k{number % 3}"
        events.append({"t": time, "id": number, "kind": "a", "key": key})
        if number % 2:
            events.append({"t": time + number % 7 * SECOND_MS, "id": number, "kind": "b", "key": key})
        if number % 4 == 0:
            events.append({"t": time, "id": number, "kind": "a", "key": key})
    return events


def truth(events: list[dict[str, Any]]) -> Rows:
    """What all operators are to say of these events, in plain Python."""
    found: Rows = Counter()
    of_a = [each for each in events if each["kind"] == "a"]
    tens = ["tumbling", "states", "updated", "whole", *(["timers"] if HAS_TIMERS else [])]
    for name, width, slide in [*((name, 10, 10) for name in tens), ("sliding", 20, 5)]:
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
    for name in ("unique", "first"):
        found.update((name, key, time, number) for key, number, time in unique)
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


def operators(read: Callable[[str], DataFrame], which: Collection[str] = OPERATORS) -> DataFrame:
    """All of these in one query. Each operator has the stream to itself."""
    key, count, start = functions.col("key").cast("string"), functions.col("count"), functions.col("window.start")

    def windows(name: str, *window: str) -> DataFrame:
        events = read(name)
        return said(events.groupBy(functions.window("t", *window), "key").count(), name, key, start, count)

    def sessions() -> DataFrame:
        events = read("session").groupBy(functions.session_window("t", "3 seconds").alias("window"), "key")
        return said(events.count(), "session", key, start, count)

    def unique() -> DataFrame:
        events = read("unique").where("kind = 'a'").dropDuplicates(["key", "id", "t"])
        return said(events, "unique", key, functions.col("t"), functions.col("id"))

    def first() -> DataFrame:
        events = read("first").where("kind = 'a'").dropDuplicatesWithinWatermark(["key", "id"])
        return said(events, "first", key, functions.col("t"), functions.col("id"))

    def chained() -> DataFrame:
        narrow = read("chained").groupBy(functions.window("t", "5 seconds"), "key").count()
        wide = narrow.groupBy(functions.window(functions.window_time("window"), "20 seconds"))
        return said(wide.agg(functions.sum("count").alias("count")), "chained", functions.lit("all"), start, count)

    def joined() -> DataFrame:
        left = read("left").where("kind = 'a'").select("key", "id", "t")
        right = read("right").where("kind = 'b'").selectExpr("id as other", "t as then")
        within = functions.expr("id = other and then between t and t + interval 4 seconds")
        then = functions.coalesce(functions.unix_millis("then"), functions.lit(-1))
        return said(left.join(right, within, "left_outer"), "joined", key, functions.col("t"), then)

    parts = {
        "tumbling": lambda: windows("tumbling", "10 seconds"),
        "updated": lambda: windows("updated", "10 seconds"),  # for a query in update mode
        "whole": lambda: windows("whole", "10 seconds"),  # for a query in complete mode
        "sliding": lambda: windows("sliding", "20 seconds", "5 seconds"),
        "session": sessions,
        "unique": unique,
        "first": first,
        "chained": chained,
        "joined": joined,
    }
    return reduce(DataFrame.union, (parts[name]() for name in which))


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


def states(read: Callable[[str], DataFrame]) -> DataFrame:
    """Counts as timers do, with a state for each key and step that times out when the watermark passes its end."""
    start = functions.expr("unix_millis(t) div 10000 * 10000").alias("start")
    events = read("states").select("t", functions.col("key").cast("string"), start)
    return events.groupBy("key", "start").applyInPandasWithState(
        _count_step, "operator string, key string, time bigint, value bigint", "count bigint", "append",
        GroupStateTimeout.EventTimeTimeout,
    )  # fmt: skip


def _count_step(step: tuple[str, int], frames: Iterator[Any], state: Any) -> Iterator[Any]:
    key, start = step
    (before,) = state.get if state.exists else (0,)
    if state.hasTimedOut:
        state.remove()
        yield pandas.DataFrame([("states", key, start, before)], columns=["operator", "key", "time", "value"])
    else:
        state.update((before + sum(len(frame) for frame in frames),))
        state.setTimeoutTimestamp(int(start) + 10_000)  # which is a number of NumPy
