"""What the README shows works as it stands there: its calls against a real controller, its code on real Spark."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where a controller listens that was started as the README says, but for the port."""
    (serve,) = [line for block in blocks("sh") for line in block.splitlines() if line.endswith("strandline serve")]
    command = [serve.replace(".venv/bin", str(Path(sys.executable).parent)), *["--port", "0"]]
    process = subprocess.Popen(" ".join(command).split(), cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        ready = re.search(r"http://(127\.0\.0\.1:\d+)", process.stdout.readline())
        assert ready is not None, "the controller did not start"
        yield ready[1]
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert (tmp_path / "strandline.db").is_file()


def test_the_four_calls_answer_as_the_readme_says(address: str) -> None:
    assert shutil.which("curl"), "the README shows curl: apt-get install -y curl"
    (calls,) = [block for block in blocks("sh") if "curl" in block]
    answers: list[Any] = []
    for call in calls.splitlines():
        command = call.replace("curl ", "curl --silent --show-error ").replace("localhost:8433", address)
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        answers.append(json.loads(done.stdout))
    created, noted, marks, window = answers
    assert "code" not in created
    assert [mark["time"] for mark in noted["marks"]] == [100]
    assert marks["marks"] == noted["marks"]
    assert (window["lower"], window["complete"]) == (100, True)


SESSION = """
from pyspark.sql import SparkSession
from spark_integration import prepare
prepare()
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
"""
RUN = """
import httpx
httpx.post("http://127.0.0.1:8433/v1/streams/orders/seal", json={"final": {}}).raise_for_status()
query = windows.writeStream.outputMode("append").format("memory").queryName("closed").trigger(availableNow=True).start()
query.awaitTermination(120)
print("closed", spark.sql("select count from closed").collect()[0][0])
spark.stop()
"""


@pytest.mark.spark
def test_the_writer_and_the_spark_job_of_the_readme_count_the_event_that_was_written(
    address: str, tmp_path: Path
) -> None:
    writer, job = blocks("python")
    create = (
        'import httpx\nhttpx.put("http://127.0.0.1:8433/v1/streams/orders", json={"segments": 2}).raise_for_status()\n'
    )
    script = tmp_path / "readme.py"
    script.write_text("".join([create, writer, SESSION, job, RUN]).replace("127.0.0.1:8433", address))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, textwrap.shorten(done.stderr[-2_000:], 2_000)
    assert "closed 1" in done.stdout
