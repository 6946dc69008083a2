"""A script that is interrupted as the page about Spark shows ends with one sentence."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.readme.pages import ROOT, blocks_of

JOB = """
import sys
from pyspark.sql import SparkSession, functions
from strandline import prepare, read_events

prepare()
small = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.ui.showConsoleProgress": "false"}
spark = SparkSession.builder.master("local[1]").config(map=small).getOrCreate()
url, stream, log, checkpoint = sys.argv[1:]
events = read_events(spark, controller=url, stream=stream, path=log, schema="time bigint", event_time="time")
counts = events.groupBy(functions.window("time", "10 seconds")).count()
query = counts.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
BLOCK
while query.lastProgress is None:
    query.awaitTermination(0.1)

class Awaited:
    # The query, which says that it is awaited: from then on the script can be interrupted.

    def awaitTermination(self, seconds):
        print("it runs", flush=True)
        self.awaitTermination = query.awaitTermination
        return self.awaitTermination(seconds)

    def stop(self):
        query.stop()

until_interrupted(Awaited())
"""

PLANNER = "python_streaming_source_runner.py"
SOCKET_BROKE = re.compile(r"^(ConnectionResetError|BrokenPipeError|EOFError)\b", re.MULTILINE)

pytestmark = [pytest.mark.spark, pytest.mark.full]


def test_ctrl_c_in_a_script_for_spark_ends_it_with_one_sentence(
    pythons: str, stream: Any, event_log: Any, tmp_path: Path
) -> None:
    (block,) = (each.text for each in blocks_of("docs/spark.md") if "def until_interrupted" in each.text)
    event_log.append("0", [1_000])
    stream.mark(500, {"0": 1})
    given = [stream.url, stream.name, str(event_log.path), str(tmp_path / "checkpoint")]
    job = subprocess.Popen(
        [sys.executable, "-c", JOB.replace("BLOCK", block), *given], cwd=tmp_path, text=True, start_new_session=True,
        env=os.environ | {"PYSPARK_PYTHON": pythons, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert job.stdout is not None
    assert job.stdout.readline() == "it runs\n"
    os.killpg(job.pid, signal.SIGINT)  # as a terminal does
    printed, errors = job.communicate(timeout=120)
    assert printed == "The job is stopped. Started again, it goes on from its checkpoint.\n"
    assert job.returncode == 0
    assert "ERROR" not in errors, errors
    # Where the machine is busy, the Python that planned the batches sees its socket reset before Spark has ended it.
    _, *traces = errors.split("Traceback (most recent call last)")
    assert all(PLANNER in trace and SOCKET_BROKE.search(trace) for trace in traces), errors
