"""With `late_to` each row is in a window or in a file of late rows, and a job adds them up, as the page shows it."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions

from spark_integration import read_events
from spark_integration.mark_watch import Example
from spark_integration.releases import HAS_LIMITS
from strandline.logs import Event
from tests.readme.pages import blocks_of
from tests.spark.queries import Query, dropped

pytestmark = pytest.mark.spark

EVENTS, EVENTS_AT_REST = 60, 30
START_MS = 100_000


def put(n: int, draw: random.Random, stream: Any, log: Any) -> dict[str, Any]:
    """Appends an event, one in three up to 40 s older than the marks allow and one in ten without a time; and every now
    and then a mark."""
    time = START_MS + n * 1_000 - (draw.randrange(40_000) if n % 3 == 0 else 0)
    event = {"time": None if n % 10 == 9 else time, "customer": f"c{n % 2}", "amount": n}
    log.append([Event(json.dumps(event).encode(), key=b"k", segment="0")])
    if n % 5 == 4:
        stream.mark(START_MS + n * 1_000, {"0": n + 1})
    return event


def truth(events: list[dict[str, Any]]) -> dict[tuple[int, str], float]:
    totals: Counter[tuple[int, str]] = Counter()
    for each in events:
        if each["time"] is not None:
            totals[each["time"] // 10_000 * 10_000, each["customer"]] += each["amount"]
    return dict(totals)


# Data in every batch, so that Spark's own filter is a batch behind; or the query is at rest after each mark.
@pytest.mark.parametrize("at_rest", [False, pytest.param(True, marks=pytest.mark.full)] if HAS_LIMITS else [True])
def test_windows_and_late_rows_are_the_truth(
    spark: SparkSession, stream: Any, event_log: Any, tmp_path: Path, at_rest: bool
) -> None:
    late, unreadable, totals = (str(tmp_path / name) for name in ("late", "unreadable", "totals"))
    count = EVENTS_AT_REST if at_rest else EVENTS
    limit: dict[str, Any] = {} if at_rest else {"maxRowsPerBatch": 4}
    orders = read_events(
        spark, controller=stream.url, stream=stream.name, path=event_log.path, event_time="time",
        schema="time bigint, customer string, amount double", late_to=late, unreadable_to=unreadable,
        **limit,
    )  # fmt: skip
    windows = orders.groupBy(functions.window("time", "10 seconds"), "customer").agg(
        functions.sum("amount").alias("total")
    )
    draw = random.Random(7)
    events = [] if at_rest else [put(n, draw, stream, event_log.log) for n in range(count)]
    writer = windows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = Query(lambda: writer.start(totals))
    while len(events) < count:
        events += [put(n, draw, stream, event_log.log) for n in range(len(events), len(events) + 5)]
        query.until_at_rest()
    query.until_at_rest()
    stream.seal(event_log.log.seal())
    query.until_at_rest()
    query.stop()
    assert dropped(query.progress()) == 0  # Spark has none to drop
    shown = [Example.parse(one.observedMetrics["strandline"]["example"]) for one in query.progress()]
    kinds = {each.kind: each.place for each in shown if each is not None}
    assert kinds.keys() == {"unreadable", "late"} and kinds["unreadable"] == f"offset {count - 1} of segment '0'"
    page: dict[str, Any] = {"functions": functions}
    (block,) = (each for each in blocks_of("docs/spark.md") if "def with_late" in each.text)
    exec(block.text, page)
    found = page["with_late"](spark.read.parquet(totals), spark.read.parquet(late)).collect()
    assert {(epoch_ms(row["window"]["start"]), row["customer"]): row["total"] for row in found} == truth(events)
    kept = spark.read.parquet(late).collect()
    assert kept and all(row["time"] < row["floor"] for row in kept)
    without = spark.read.parquet(unreadable).orderBy("offset").collect()
    assert [(row["segment"], row["offset"], row["amount"]) for row in without] == [
        ("0", n, n) for n in range(9, count, 10)
    ]


def epoch_ms(time: datetime) -> int:
    return round(time.timestamp() * 1_000)
