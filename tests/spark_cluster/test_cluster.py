"""Exact windows on a cluster that loses an executor and then the driver, and through Spark Connect."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.spark_cluster.conftest import Machine, Story

PATIENCE_S = 120

pytestmark = pytest.mark.spark


def wait_for(happened: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def test_a_cluster_that_loses_an_executor_and_then_the_driver_gives_the_truth(
    cluster: str, machine: Machine, story: Story
) -> None:
    story.write(0, 25_000)
    job = machine.job(story.given(cluster), "job")
    wait_for(lambda: len(story.windows()) == 2, "the first windows")
    lost = machine.executors()
    assert len(lost) == 2
    os.kill(lost[0], signal.SIGKILL)
    story.write(25_000, 45_000)
    wait_for(lambda: len(story.windows()) == 4, "windows after an executor was lost")
    job.kill()
    story.write(45_000, 65_000)
    again = machine.job(story.given(cluster), "job again")
    wait_for(lambda: len(story.windows()) == 6, "windows after the driver was killed")
    story.seal()
    story.stop()
    assert again.wait(PATIENCE_S) == 0
    assert story.windows() == story.truth()
    assert story.dropped == 0


def test_spark_connect_gives_the_truth(connect_server: str, machine: Machine, story: Story) -> None:
    story.write(0, 25_000)
    job = machine.job(story.given(connect_server), "connected")
    story.write(25_000, 45_000)
    story.seal()
    story.stop()
    assert job.wait(PATIENCE_S) == 0
    assert story.windows() == story.truth()
    assert story.dropped == 0
