"""The demo's queries go on where Spark's bound for starting a Python ended one of them, and for no other reason."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from strandline.logs import Event
from strandline_demo.job import STARTS, TOO_SLOW, Count, read
from strandline_demo.world import WINDOW_MS

pytestmark = [pytest.mark.spark, pytest.mark.full]


class Failing(Count):
    """Counts windows, once it has failed for each of its reasons."""

    reasons: list[str]

    def _emit(self, batch: DataFrame, batch_id: int) -> None:
        if self.reasons:
            raise RuntimeError(self.reasons.pop())
        super()._emit(batch, batch_id)


@pytest.mark.parametrize(
    ("reasons", "goes_on"), [([TOO_SLOW], True), ([TOO_SLOW] * STARTS, False), (["no more paper"], False)]
)
def test_only_queries_with_a_slow_python_are_started_again(
    spark: SparkSession, stream: Any, event_log: Any, tmp_path: Path, reasons: list[str], goes_on: bool
) -> None:
    event_log.log.append(Event(b'{"time": %d}' % (time * 1_000 + 1), key=b"k") for time in range(5))
    stream.seal(event_log.log.seal())
    exact, plain = Count("exact", 0), Failing("plain", 0)
    plain.reasons = list(reasons)
    options = {"controller": stream.url, "stream": stream.name, "path": str(event_log.path)}
    with nullcontext() if goes_on else pytest.raises(StreamingQueryException, match=reasons[0]):
        read(spark, options, [exact, plain], tmp_path / "checkpoints")
        windows: Any = exact.result()["windows"]
        assert sorted((start, count) for start, count, _ in windows) == [(0, 2), (WINDOW_MS, 2), (2 * WINDOW_MS, 1)]
    assert plain.reasons == []
    assert spark.streams.active == []
