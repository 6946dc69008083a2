"""Events come in the order of the marks, and how far behind a reader is."""

from __future__ import annotations

from typing import Any

from reader_client import EventReader, ReaderGroup
from strandline.client import calls
from strandline.core.note import Note
from tests.reader_client.event_readers import next_of, reading, time_of


def skewed(written: Any) -> Any:
    """Segment 0 has ten times as many events as segment 1, over the same time; a mark for every step."""
    world = written()
    for at in range(0, 200, 10):
        world.write(*[("0", at + n) for n in range(10)], ("1", at + 5))
        world.note(at + 10)
    return world


EVENTS = 220


def disorder_of(reader: EventReader) -> int:
    behind, greatest = 0, 0
    for at in [time_of(next_of(reader).event) for _ in range(EVENTS)]:
        behind += max(0, greatest - at)
        greatest = max(greatest, at)
    return behind


def test_events_come_in_mark_order_only_when_ordered(written: Any) -> None:
    written = skewed(written)
    with reading(written, written.group()) as ordered, reading(written, written.group(), ordered=False) as unordered:
        with_order, without = disorder_of(ordered), disorder_of(unordered)
    assert with_order < without / 10


def test_the_order_may_go_by_the_marks_of_another_key(written: Any) -> None:
    written = written()
    for at in range(0, 200, 10):
        written.write(*[("0", at + n) for n in range(10)], ("1", at + 5))
        times = {"ship": at + 10}
        written.controller.run(
            calls.note(written.stream, Note(writer="w1", times=times, position=written.log.end_offsets()))
        )
    with (
        reading(written, written.group(), order_key="ship") as ordered,
        reading(written, written.group()) as by_default,
    ):
        with_order, without = disorder_of(ordered), disorder_of(by_default)
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
