"""Events come in the order of the marks, and how far behind a reader is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reader_client import AsyncEventReader, EventItem, EventReader, ReaderGroup
from strandline.client import calls
from strandline.core.note import Note
from strandline.logs import Event
from tests.reader_client.event_readers import QUICK, Stepping, next_of, reading, time_of, told


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


def test_an_async_iteration_ends_with_the_streams(written: Any) -> None:
    written = skewed(written)
    written.seal()

    async def run() -> list[object]:
        logs = {written.stream: written.open()}
        async with AsyncEventReader(
            written.controller.url, written.group(), "r1", logs, time_domain="event", **QUICK
        ) as reader:
            return [told(item) async for item in reader]

    items = asyncio.run(run())
    assert len(items) > EVENTS and items[-1] == "W200"


@pytest.mark.parametrize("ordered", [True, False])
def test_the_diagram_of_ingestion_watermarks(written_anywhere: Any, ordered: bool) -> None:
    """Segment 1: A B │12:00│ C D │12:02│, segment 2: A B C │12:01│ …

    The group: W(11:55) 1A 2A 1B 2B 2C W(12:00) 1C 1D W(12:01).
    """
    written = written_anywhere(3)

    def note(time: int, position: dict[str, int]) -> None:
        written.controller.run(calls.note(written.stream, Note(writer="w", times={"": time}, position=position)))

    def append(*names: str) -> None:
        written.log.append([Event(name.encode(), segment=name[0]) for name in names])
        written.log.flush()

    note(1155, {})
    append("1A", "1B", "2A", "2B", "2C")
    note(1200, {"1": 2, "2": 3})
    append("1C", "1D")
    note(1201, {"1": 4, "2": 3})
    items: list[Any] = []
    with Stepping(written, written.group(), time_domain="event", ordered=ordered) as reader:
        while len(items) < 10:
            items += [item for item in [reader.read()] if item is not None]
    told = [(item.event.value or b"").decode() if isinstance(item, EventItem) else item.watermark for item in items]
    if ordered:
        assert told == [1155, "1A", "2A", "1B", "2B", "2C", 1200, "1C", "1D", 1201]
    else:
        assert [each for each in told if isinstance(each, int)] == [1155, 1200, 1201]
        assert told.index(1200) > max(map(told.index, ("1A", "1B", "2A", "2B", "2C")))
        assert told[-1] == 1201
