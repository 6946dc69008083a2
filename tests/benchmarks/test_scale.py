"""The arithmetic of the page on scale, with costs that are easy to reckon with."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from benchmarks import scale
from benchmarks.scale import Row, Units

pytestmark = pytest.mark.full

UNITS = Units(
    note_us=60,
    batched_note_us=6,
    wide_note_us=2_048,
    window_us=100,
    writer_bytes=1_048.576,
    stream_kib=0,
    mark_segment_bytes=2,
    mark_stop_ms=5,
)


def _results(rows: Iterable[Row]) -> dict[str, str]:
    return {what: result for what, _, result in rows}


def test_one_core_bounds_how_often_the_writers_of_a_stream_note() -> None:
    found = _results(scale.many_writers(UNITS, 100_000))
    assert found["CPU, a call each"] == "6.00 cores"
    assert found["the least interval of a note on one core, a call each"] == "10.0 s"
    assert found["the least interval of a note on one core, 100 in a request"] == "1.00 s"
    assert found["memory of the writers"] == "100 MiB"


def test_a_note_costs_what_its_segments_do() -> None:
    assert UNITS.wide_us(500) == 1_060
    found = _results(scale.many_segments(UNITS, streams=1_000, segments=1_000, writers=10))
    assert found["CPU of notes"] == "20.6 cores"
    assert found["controllers"] == "35"


def test_each_region_needs_controllers_of_its_own() -> None:
    found = _results(scale.regions(UNITS, count=10, writers=20_000))
    assert found["controllers of a region, a call each"] == "2"
    assert found["controllers of a region, 100 in a request"] == "1"
