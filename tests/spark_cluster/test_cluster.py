"""Every operator is exact on a cluster that loses an executor and then the driver, and through Spark Connect."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.operators import truth

if TYPE_CHECKING:
    from tests.spark_cluster.conftest import Machine, Story

PATIENCE_S = 120

pytestmark = pytest.mark.spark


def wait_for(happened: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def test_every_operator_gives_the_truth_on_a_cluster_that_loses_an_executor_and_then_the_driver(
    cluster: str, machine: Machine, story: Story
) -> None:
    story.write(0, 21_000)
    job = machine.job(story.given(cluster), "job")
    wait_for(lambda: story.has_closed(10_000), "the first windows")
    lost = machine.executors()
    assert len(lost) == 2
    os.kill(lost[0], signal.SIGKILL)
    story.write(21_000, 41_000)
    wait_for(lambda: story.has_closed(30_000), "windows after an executor was lost")
    job.kill()
    story.write(41_000, 61_000)
    again = machine.job(story.given(cluster), "job again")
    wait_for(lambda: story.has_closed(50_000), "windows after the driver was killed")
    story.seal()
    story.stop()
    assert again.wait(PATIENCE_S) == 0
    assert story.rows() == truth(story.events)
    assert story.dropped == 0


def test_every_operator_gives_the_truth_through_spark_connect(
    connect_server: str, machine: Machine, story: Story
) -> None:
    story.write(0, 21_000)
    job = machine.job(story.given(connect_server), "connected")
    story.write(21_000, 41_000)
    story.seal()
    story.stop()
    assert job.wait(PATIENCE_S) == 0
    expected = truth(story.events)
    assert story.rows() == Counter({row: count for row, count in expected.items() if row[0] != "timers"})
    assert story.dropped == 0
