"""Phones out of order: nothing is lost live, in an uneven replay, in a fast one; with a delay much is.

With STORY=full, as in `make soak`, recorded phones come as well, the live run of half an hour has nothing but the clock
for its pace, and what each delay loses is printed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.disorder import PhoneEvent, devices_of, faster, generate, load
from benchmarks.spark_exactness import DELAYS_S, Phones, measure, replay, span_ms
from tests.spark.conftest import WHOLE_STAGE
from tests.summary import skip

ROOT = Path(__file__).resolve().parents[2]
RECORDING = Path(os.environ.get("STRANDLINE_RECORDINGS", ROOT.parent / "shared" / "data")) / "phones-d-1.csv"

FULL = os.environ.get("STORY") == "full"
PACED_MS = 1_500  # of the live run, at its end, if it is not to be paced in full
FAST = 100

pytestmark = [pytest.mark.spark, pytest.mark.full]


@pytest.fixture(params=["generated", "recorded"] if FULL else ["generated"])
def events(request: pytest.FixtureRequest) -> list[PhoneEvent]:
    if request.param == "generated":
        return generate(3, devices=4, events=240)
    if not RECORDING.is_file():
        skip(f"there is no {RECORDING.name}", "set STRANDLINE_RECORDINGS to the folder that has it")
    return load(RECORDING)


def test_phones_lose_nothing_live_and_in_an_uneven_replay(
    spark: SparkSession,
    controller: Any,
    events: list[PhoneEvent],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    live, uneven = (Phones(controller.connection, tmp_path, events) for _ in range(2))
    order = faster(events, devices_of(events)[0], 4)
    lost: Mapping[str, int] = {}
    for name, phones, reading in (("live", live, None), ("one read 4 times as fast", uneven, order)):
        delays_s = DELAYS_S if FULL else () if reading is None else (60,)
        found = measure(spark, phones, tmp_path, delays_s=delays_s, steps=30 if FULL else 5, reading=reading)
        if FULL:
            with capsys.disabled():
                sys.stdout.write(f"\n{len(events)} events, {name}: lost by {dict(found.lost)}\n")
        assert (found.windows, found.dropped, found.lost["exact"]) == (phones.truth(), 0, 0)
        lost = found.lost
    assert lost["−60 s"] > len(events) // 10


@pytest.fixture
def compiled(spark: SparkSession) -> Iterator[None]:
    """Plans are compiled, as they are where nobody sets anything."""
    spark.conf.set(WHOLE_STAGE, "true")
    yield
    spark.conf.set(WHOLE_STAGE, "false")


@pytest.mark.usefixtures("compiled")
def test_fast_replays_give_the_live_runs_windows(spark: SparkSession, controller: Any, tmp_path: Path) -> None:
    events = generate(7, devices=2, events=3_600 if FULL else 4_800)
    span = span_ms(events)
    live = Phones(controller.connection, tmp_path, events)
    found = measure(spark, live, tmp_path, delays_s=[], steps=4, paced_ms=span if FULL else PACED_MS)
    assert (found.windows, found.dropped) == (live.truth(), 0)
    for rows in (len(events) // 3, len(events)):  # live, no batch was as large
        again, took_s = replay(spark, live, tmp_path, rows)
        assert again == found.windows
        assert span / 1_000 / took_s >= FAST
