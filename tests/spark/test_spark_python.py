"""The Python that Spark starts in tests imports pyspark from where it is installed, and finds everything else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.spark_python import spark_python


def test_sparks_archives_are_left_out_of_the_path_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a folder").mkdir()
    python = spark_python(tmp_path / "a folder", sys.executable)
    given = ["/spark/pyspark.zip", "/spark/py4j-0.10-src.zip", "/spark/core.jar", "/mine", "/with a *", "/mine.zip"]
    run = subprocess.run(
        [python, "-c", "import os, sys; print(os.environ['PYTHONPATH'], *sys.argv[1:])", "an argument"],
        env=os.environ | {"PYTHONPATH": ":".join(given)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout == "/mine:/with a *:/mine.zip an argument\n"


@pytest.mark.spark
def test_a_python_that_spark_starts_has_the_installed_pyspark(spark: SparkSession) -> None:
    def where(_: int) -> str:
        import pyspark

        return str(pyspark.__file__)

    assert spark.sparkContext.parallelize([0], 1).map(where).collect() == [pyspark.__file__]
