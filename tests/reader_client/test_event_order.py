"""Events come in the order of the marks, and how far behind a reader is."""

from __future__ import annotations

from heapq import heappop, heappush
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


def test_pdp_26s_trace_is_ordered_and_shows_late_events(written: Any) -> None:
    #   watermark   …08681                                …26273     …54349
    #   in                  …50230 B  …19197 A  …91235 C
    #                       (early)   (on time) (late)
    #   out                                     C late    A          B
    world, marks, out, held = (
        written(),
        [1510626708681, 1510626726273, 1510626754349],
        list[str](),
        list[tuple[int, str]](),
    )
    names = {1510626750230: "B", 1510626719197: "A", 1510626691235: "C"}
    world.controller.note(world.stream, marks.pop(0), {"0": 0})
    world.write(*[("0", time) for time in names])
    with reading(world, world.group(), time_domain="event", event_time=time_of) as reader:
        while (item := reader.read(300)) is not None or marks:
            if item is None:
                world.controller.note(world.stream, marks.pop(0), {"0": 3})
            elif item.is_event and item.is_late:
                out.append(f"{names[item.times['']]} late")
            elif item.is_event:
                heappush(held, (item.times[""], names[item.times[""]]))
            while item is not None and item.is_watermark and held and held[0][0] < item.watermark:
                out.append(heappop(held)[1])
    assert out == ["C late", "A", "B"]


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
