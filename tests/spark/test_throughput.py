"""The benchmark of rows a second works, and gives a figure for each query beside the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.spark_throughput import Contest, fill, own_kinds

pytestmark = pytest.mark.spark

ROWS = 400


def test_the_exact_watermark_is_measured_beside_sparks_own(
    spark: SparkSession, controller: Any, tmp_path: Path
) -> None:
    fill(controller.connection, tmp_path / "own.db", ROWS)
    kinds = own_kinds(spark, controller.url, tmp_path / "own.db")
    (figure,) = Contest(tmp_path, ROWS, rounds=0).of(kinds)
    assert figure.what == "rows a second in Spark, source strandline, exact_watermark"
    assert figure.beside.startswith("source strandline, withWatermark: ")
    assert float(figure.ratio) > 0
