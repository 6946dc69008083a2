"""Phones out of order: nothing is lost live, in an uneven replay, in batches of another size; with a delay much is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.disorder import PhoneEvent, devices_of, faster, generate, load
from benchmarks.spark_exactness import Phones, measure, replay
from tests.summary import skip

ROOT = Path(__file__).resolve().parents[2]
RECORDING = Path(os.environ.get("STRANDLINE_RECORDINGS", ROOT.parent / "shared" / "data")) / "phones-d-1.csv"

pytestmark = pytest.mark.spark


@pytest.fixture(params=["generated", "recorded"])
def events(request: pytest.FixtureRequest) -> list[PhoneEvent]:
    if request.param == "generated":
        return generate(3, devices=4, events=240)
    if not RECORDING.is_file():
        skip(f"there is no {RECORDING.name}", "set STRANDLINE_RECORDINGS to the folder that has it")
    return load(RECORDING)


def test_phones_lose_nothing_live_in_an_uneven_replay_and_in_batches_of_another_size(
    spark: SparkSession, controller: Any, events: list[PhoneEvent], tmp_path: Path
) -> None:
    live = Phones(controller.connection, tmp_path, events)
    found = measure(spark, live, tmp_path, delays_s=[], steps=5)
    assert (found.windows, found.dropped, found.lost["exact"]) == (live.truth(), 0, 0)
    again, _ = replay(spark, live, tmp_path, rows=len(events) // 5)
    assert again == found.windows

    uneven = Phones(controller.connection, tmp_path, events)
    order = faster(events, devices_of(events)[0], 4)
    found = measure(spark, uneven, tmp_path, delays_s=[60], steps=5, reading=order)
    assert (found.windows, found.dropped, found.lost["exact"]) == (uneven.truth(), 0, 0)
    assert found.lost["−60 s"] > len(events) // 10
