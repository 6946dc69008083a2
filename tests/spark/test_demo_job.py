"""A query of the demo goes on where Spark's bound for starting a Python ended it, and for no other reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, functions

from spark_integration import exact_watermark
from strandline_demo.job import QueryInProgress
from strandline_demo.messages import Emitted, Message
from strandline_demo.starting import STARTS, TOO_SLOW

WINDOWS = ((0, 2), (10_000, 1))

pytestmark = pytest.mark.spark


class Told:
    """Takes what a query tells, once it has failed with each of these words."""

    def __init__(self, *failures: str) -> None:
        self._failures = list(failures)
        self.windows: list[tuple[int, int]] = []

    def __call__(self, message: Message) -> None:
        if self._failures:
            raise RuntimeError(self._failures.pop())
        assert isinstance(message, Emitted)
        self.windows += message.windows


@pytest.fixture
def begin(read: Callable[..., DataFrame], stream: Any, event_log: Any, tmp_path: Path) -> Callable[[Told], Any]:
    event_log.append("0", [1_000, 2_000, 12_000])
    stream.seal(event_log.log.seal())

    def begin(told: Told) -> QueryInProgress:
        exact = exact_watermark(read(), event_time="event_time")
        counts = exact.groupBy(functions.window("event_time", "10 seconds")).count()
        return QueryInProgress("exact", counts, tmp_path, told)

    return begin


def test_a_query_whose_python_was_too_slow_is_started_again_and_tells_of_every_batch_once(
    begin: Callable[[Told], Any],
) -> None:
    told = Told(TOO_SLOW)
    query = begin(told)
    query.until_at_rest()
    assert sorted(told.windows) == sorted(WINDOWS)
    batches = [each.batch for each in query.all_progress()]
    assert batches == sorted(set(batches)) and batches[0] == 0
    query.stop()


@pytest.mark.parametrize("failures", [("no more paper",), (TOO_SLOW,) * STARTS], ids=["another reason", "each time"])
def test_a_query_that_ends_for_another_reason_or_too_often_says_why(
    begin: Callable[[Told], Any], failures: tuple[str, ...]
) -> None:
    told = Told(*failures)
    query = begin(told)
    with pytest.raises(StreamingQueryException, match=failures[0]):
        query.until_at_rest()
    assert told.windows == []
