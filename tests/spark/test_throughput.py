"""The benchmark of rows a second works, and gives a figure for each query beside the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.spark_throughput import Contest, fill, own_kinds

pytestmark = [pytest.mark.spark, pytest.mark.full]

ROWS = 400


def test_the_exact_watermark_is_measured_beside_sparks_own(
    spark: SparkSession, controller: Any, tmp_path: Path
) -> None:
    fill(controller.connection, tmp_path / "own.db", ROWS)
    kinds = own_kinds(spark, controller.url, tmp_path / "own.db")
    *figures, start_up = Contest(tmp_path, ROWS, rounds=0).of(kinds)
    assert {each.what for each in figures} == {"rows a second in Spark, source strandline, exact_watermark"}
    assert [each.beside.partition(": ")[0] for each in figures] == [
        "Spark's Parquet stream, withWatermark",
        "Spark's JSON stream, withWatermark",
        "source strandline, withWatermark",
    ]
    assert start_up.what == "start-up in Spark, source strandline, exact_watermark"
    assert all(float(each.ratio) > 0 for each in figures)
