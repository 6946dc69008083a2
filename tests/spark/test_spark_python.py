"""The Python that Spark starts in tests imports pyspark from where it is installed, and is one in every other way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.spark_python import HASH_SEED, ready_spark_python, spark_python

PRINTING = "import os, sys; print(os.environ['PYTHONPATH'], *sys.argv[1:])"
SLEEPING = "import time; print('it runs', flush=True); time.sleep(600)"
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module", params=["itself", "a fork"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Runs modules itself, or lets a fork run them."""
    folder = tmp_path_factory.mktemp("a folder")
    if request.param == "itself":
        yield spark_python(folder, sys.executable)
    else:
        with ready_spark_python(folder, sys.executable) as program:
            yield program


@pytest.fixture
def start(program: str, tmp_path: Path) -> Start:
    """Starts it with the module `part`."""

    def start(code: str, *arguments: str, paths: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        (tmp_path / "part.py").write_text(code)
        environment = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": HASH_SEED}
        return subprocess.Popen(
            [program, "-m", "part", *arguments], cwd=tmp_path, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    return start


def test_sparks_archives_are_left_out_of_the_path_and_nothing_else(start: Start) -> None:
    given = ("/spark/pyspark.zip", "/spark/py4j-0.10-src.zip", "/spark/core.jar", "/mine", "/with a *", "/mine.zip")
    said, wrong = start(PRINTING, "an argument", paths=given).communicate(timeout=60)
    assert said == "/mine:/with a *:/mine.zip an argument\n", wrong


@pytest.mark.parametrize(
    ("code", "status", "wrong"),
    [
        ("import sys; sys.exit(len(sys.stdin.read()))", 3, ""),
        ("import sys; sys.exit('the disk is full')", 1, "the disk is full\n"),
        ("print(0 / 0)", 1, "ZeroDivisionError: division by zero\n"),
        ("", 0, ""),
    ],
)
def test_it_reads_its_input_and_ends_as_its_module_does(start: Start, code: str, status: int, wrong: str) -> None:
    process = start(code)
    said = process.communicate("abc", timeout=60)
    assert (process.returncode, said[0]) == (status, "")
    assert said[1].endswith(wrong) and bool(said[1]) == bool(wrong)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_when_it_is_ended_nothing_of_it_goes_on(start: Start, how: signal.Signals) -> None:
    process = start(SLEEPING)
    assert process.stdout is not None
    assert process.stdout.readline() == "it runs\n"
    process.send_signal(how)
    assert process.stdout.read() == ""  # which comes with the end of all who could write
    assert process.wait(60) == -how


@pytest.mark.spark
def test_a_python_that_spark_starts_has_the_installed_pyspark(spark: SparkSession) -> None:
    def where(_: int) -> str:
        import pyspark

        return str(pyspark.__file__)

    assert spark.sparkContext.parallelize([0], 1).map(where).collect() == [pyspark.__file__]
