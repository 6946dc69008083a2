"""Two streams, each with a time key of its own, in one join: whose watermark holds where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, functions

from spark_integration import exact_watermark
from spark_integration.watermark import WATERMARK_TAG
from strandline.client import calls
from strandline.core.note import Note
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog

Read = Callable[..., DataFrame]

pytestmark = [pytest.mark.spark, pytest.mark.full]


def tagged(df: DataFrame) -> set[str]:
    return {field.name for field in df.schema if WATERMARK_TAG in field.metadata}


class Keyed:
    """A stream whose events have two times, of which one is noted far ahead of the other."""

    def __init__(self, controller: Any, path: Path, key: str) -> None:
        self.stream, self.path, self.key = controller.stream(segments=1), path, key
        self._log = SqliteLog.create(path, 1)
        self._count = 0

    def write(self, *rows: tuple[int, int]) -> None:
        self._log.append(Event(b"%d" % time, key=b"%d" % number, segment="0") for number, time in rows)
        self._count += len(rows)

    def note(self, time: int, other_time: int) -> None:
        times = {self.key: time, "other_time": other_time}
        self.stream.run(calls.note(self.stream.name, Note(writer="w", times=times, position={"0": self._count})))

    def seal(self) -> None:
        self.stream.seal(self._log.seal())
        self._log.close()

    def read(self, read: Read, number: str, time: str) -> DataFrame:
        raw = read(stream=self.stream.name, path=self.path, timeKey=self.key)
        columns = raw.select(
            functions.col("key").cast("string").alias(number), functions.col("event_time").alias(time), "mark", "floor"
        )
        return exact_watermark(columns, event_time=time, observation=self.key)


#   order_time   0 s ·   ·  12 s · 21 s        each side waits for its own key, and a window of order_time
#   ship_time    0 s   · 9 s   ·   25 s        for the least of the two; after it ship_time is a plain value
def test_a_join_of_two_keys_is_exact_through_a_window(
    read: Read, running: Any, controller: Any, tmp_path: Path
) -> None:
    orders, ships = (Keyed(controller, tmp_path / f"{key}.db", key) for key in ("order_time", "ship_time"))
    left, right = orders.read(read, "number", "order_time"), ships.read(read, "shipped", "ship_time")
    near = "number = shipped and ship_time between order_time and order_time + interval 5 seconds"
    joined = left.join(right, functions.expr(near))
    assert tagged(joined) == {"order_time", "ship_time"}
    windows = joined.groupBy(functions.window("order_time", "10 seconds")).agg(
        functions.count("*").alias("count"), functions.max("ship_time").alias("last_ship_time")
    )
    assert tagged(windows) == {"window"}
    again = windows.groupBy(functions.window("last_ship_time", "20 seconds")).count()
    with pytest.raises(AnalysisException, match=r"[Aa]ppend output mode not supported|watermark"):
        again.writeStream.outputMode("append").format("noop").option("checkpointLocation", str(tmp_path / "no")).start()

    with running(windows.select("window", "count")) as run:
        orders.write((1, 1_000), (2, 8_000), (3, 12_000))
        orders.note(12_000, 90_000)
        ships.write((1, 4_000))
        ships.note(5_000, 90_000)
        assert run.settle() == {}  # the orders are past ten seconds, what is shipped is not
        ships.write((2, 8_500), (3, 16_000))
        ships.note(17_000, 99_000)
        orders.write((4, 20_000))
        orders.note(19_000, 99_000)
        assert run.settle() == {0: 2}
        ships.write((4, 25_000))
        orders.seal()
        assert run.settle() == {0: 2}
        ships.seal()
        assert run.settle() == {0: 2, 10_000: 1, 20_000: 1}
