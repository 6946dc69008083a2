"""A job of these tests is started again where Spark's bound for starting a Python ended it, and else the test fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.starting import STARTS, TOO_SLOW
from tests.spark_cluster.conftest import Job

pytestmark = pytest.mark.full

SLOW = f"raise SystemExit('failed: {TOO_SLOW}')"


@pytest.fixture
def begin(tmp_path: Path) -> Callable[..., Job]:
    """A job whose starts run these programs, one after the other."""

    def begin(*programs: str) -> Job:
        def start(number: int) -> tuple[subprocess.Popen[bytes], Path]:
            output = tmp_path / str(number)
            with output.open("wb") as file:
                process = subprocess.Popen([sys.executable, "-c", programs[number]], stdout=file, stderr=file)
            return process, output

        return Job(start)

    return begin


def test_a_job_whose_python_was_too_slow_is_started_again(begin: Callable[..., Job]) -> None:
    job = begin(SLOW, SLOW, "import time; print('ready', flush=True); time.sleep(600)", "print('no more')")
    job.wait_for(lambda: "ready" in job.said(), "it is ready")
    job.kill()
    ended = begin(SLOW, "print('bye')")
    ended.wait()
    assert ended.said() == "bye\n"


def test_a_failed_job_fails_the_test_with_its_output(
    begin: Callable[..., Job],
) -> None:
    with pytest.raises(AssertionError, match="status 1; it said the disk is full"):
        begin(SLOW, "raise SystemExit('the disk is full')").wait()
    with pytest.raises(AssertionError, match="status 1; it said failed: Python worker"):
        begin(*[SLOW] * STARTS).wait()
    early = begin("print('bye')")
    with pytest.raises(AssertionError, match=r"the job ended before: a window; it said bye"):
        early.wait_for(lambda: False, "a window")
