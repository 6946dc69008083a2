"""Events come in the order of the marks, and how far behind a reader is."""

from __future__ import annotations

from typing import Any

import pytest

from reader_client import EventReader, ReaderGroup
from tests.reader_client.event_readers import next_of, reading, time_of


def skewed(written: Any, key: str = "") -> Any:
    """Segment 0 has ten times as many events as segment 1, over the same time; a mark for every step."""
    world = written()
    for at in range(0, 200, 10):
        world.write(*[("0", at + n) for n in range(10)], ("1", at + 5))
        world.controller.note(world.stream, at + 10, world.log.end_offsets(), key)
    return world


EVENTS = 220


def disorder_of(reader: EventReader) -> int:
    behind, greatest = 0, 0
    for at in [time_of(next_of(reader).event) for _ in range(EVENTS)]:
        behind += max(0, greatest - at)
        greatest = max(greatest, at)
    return behind


@pytest.mark.parametrize(
    ("key", "by_marks", "not_by_marks"),
    [("", {}, {"ordered": False}), ("ship", {"order_key": "ship"}, {})],
    ids=["the marks", "those of another key"],
)
def test_events_come_in_mark_order_only_when_ordered(
    written: Any, key: str, by_marks: dict[str, Any], not_by_marks: dict[str, Any]
) -> None:
    written = skewed(written, key)
    with (
        reading(written, written.group(), **by_marks) as ordered,
        reading(written, written.group(), **not_by_marks) as unordered,
    ):
        with_order, without = disorder_of(ordered), disorder_of(unordered)
    assert with_order < without / 10


def test_lag_is_a_time_for_each_segment(written: Any) -> None:
    written = skewed(written)
    group = written.group()
    with reading(written, group) as reader:
        while reader.positions.get(written.stream, {}).get("1", 0) < 5:
            reader.read(100)
        lags = reader.lags(1_000)[written.stream]
        assert lags["1"].lag_ms == 1_000 - 50 and lags["1"].behind_ms == 200 - 50
        with ReaderGroup(written.controller.url, group) as whole:
            while {each.behind_ms for each in whole.lag().streams[written.stream].values()} != {0}:
                reader.read(20)
        assert {each.behind_ms for each in reader.lags(1_000)[written.stream].values()} == {0}
