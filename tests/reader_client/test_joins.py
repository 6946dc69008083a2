"""Two streams with a time key each: items by stream and key, idle items, and lateness in an event's own stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from reader_client import (
    AsyncEventReader,
    EventItem,
    EventReader,
    IdleItem,
    Join,
    ReaderGroup,
    ReaderState,
    WatermarkItem,
    map_async,
)
from reader_client.async_work import Completed
from reader_client.items import Item
from strandline.client import calls
from strandline.core.note import Note
from strandline.errors import InvalidConfig
from strandline.logs import StoredEvent
from tests.reader_client.event_readers import QUICK, WAIT_S, time_of


class Two:
    """Orders with the time key "order" and shipments with "ship", and a group that reads both."""

    def __init__(self, written: Any) -> None:
        self.orders, self.ships = written(1), written(1)
        self.keys = {self.orders.stream: "order", self.ships.stream: "ship"}
        self.logs = {each.stream: each.open() for each in (self.orders, self.ships)}
        self.controller = self.orders.controller
        self.group = f"joining-{self.orders.stream}"
        with ReaderGroup(self.controller.connection, self.group) as group:
            group.create(list(self.keys), reader_timeout_ms=None)

    def note(self, written: Any, time: int) -> None:
        position = {segment: offset for segment, offset in written.log.end_offsets().items() if offset}
        times = {self.keys[written.stream]: time}
        self.controller.run(calls.note(written.stream, Note(writer="w", times=times, position=position)))

    def idle(self, written: Any) -> None:
        self.controller.run(calls.idle(written.stream, "w"))

    def options(self, **others: Any) -> dict[str, Any]:
        return {"time_domain": "event", "by_stream": True, **QUICK, **others}


@pytest.fixture
def two(written: Any) -> Two:
    return Two(written)


def following(reader: Any, count: int) -> list[Any]:
    items: list[Any] = []
    for _ in range(count):
        item = reader.read(WAIT_S * 1_000)
        assert item is not None, items
        items.append(item)
    return items


def test_each_streams_own_watermarks_come_by_key_and_idle_streams_are_told(
    two: Two, event_reader: Callable[..., Any]
) -> None:
    reader = event_reader(two.controller.url, two.group, "r1", two.logs, **two.options())
    two.orders.write(("0", 5))
    two.note(two.orders, 10)
    orders, ships = two.orders.stream, two.ships.stream
    event, watermark = following(reader, 2)
    assert isinstance(event, EventItem) and event.stream == orders
    assert watermark == WatermarkItem(10, "order", orders)
    two.note(two.ships, 8)
    assert following(reader, 1) == [WatermarkItem(8, "ship", ships)]
    assert reader.read(50) is None and reader.window.watermarks["order"] is None  # coalesced, it would say nothing

    two.idle(two.ships)
    (idle,) = following(reader, 1)
    assert idle == IdleItem(ships) and (idle.is_event, idle.is_watermark, idle.is_idle) == (False, False, True)
    assert idle.event is idle.watermark is None and not watermark.is_idle and not event.is_idle
    assert reader.read(50) is None  # once
    two.ships.write(("0", 9))
    following(reader, 1)  # an event wakes it
    assert following(reader, 1) == [IdleItem(ships)]  # and it sleeps on
    two.note(two.ships, 20)
    assert following(reader, 1) == [WatermarkItem(20, "ship", ships)]

    two.idle(two.ships)
    assert following(reader, 1) == [IdleItem(ships)]
    two.ships.seal()
    assert following(reader, 1) == [IdleItem(ships, ended=True)]
    reader.close()


def test_an_event_is_late_by_its_own_stream_and_key(written: Any) -> None:
    """Orders have come to 100 and shipments to 10: an order at 50 is late, a shipment at 50 is not."""
    two = Two(written)
    order, ship = two.orders.stream, two.ships.stream

    def times(event: Any) -> dict[str, int]:
        time = time_of(event)
        return {"order" if time % 2 else "ship": time}

    two.note(two.orders, 100)
    two.note(two.ships, 10)
    for by_stream in (True, False):
        options = two.options(event_time=times, by_stream=by_stream)
        with EventReader(two.controller.connection, two.group, "r1", two.logs, **options) as reader:
            reader.get_time_window()
            two.orders.write(("0", 51))
            two.ships.write(("0", 50), ("0", 8))
            found: dict[Any, Any] = {}
            while len(found) < 3:
                item = reader.read(WAIT_S * 1_000)
                if isinstance(item, EventItem):
                    found[item.stream, time_of(item.event)] = item.late
            assert found == {(order, 51): ("order",), (ship, 50): (), (ship, 8): ("ship",)}
            assert reader.late.total == 2


def test_a_reader_goes_on_with_the_watermarks_of_each_stream(two: Two) -> None:
    two.note(two.orders, 10)
    two.note(two.ships, 8)
    with EventReader(two.controller.connection, two.group, "r1", two.logs, **two.options()) as reader:
        following(reader, 2)
        state = ReaderState.from_json(reader.save().to_json())
    orders, ships = two.orders.stream, two.ships.stream
    assert state.by_stream == {orders: {"order": 10}, ships: {"ship": 8}} and state.watermarks == {}
    two.note(two.ships, 9)
    with EventReader(two.controller.connection, two.group, "r1", two.logs, **two.options(state=state)) as reader:
        assert following(reader, 1) == [WatermarkItem(9, "ship", ships)]
    with pytest.raises(InvalidConfig):
        ReaderState.from_json('{"positions": {}, "watermarks": {}, "by_stream": {"s": {"": "x"}}}')


@pytest.mark.parametrize("ordered", [True, False])
def test_work_in_front_of_a_join_keeps_each_streams_watermarks_behind_its_events(two: Two, ordered: bool) -> None:
    for written, times in ((two.orders, (3, 5)), (two.ships, (4, 6))):
        written.write(*(("0", time) for time in times))
        two.note(written, times[-1] + 1)
        written.seal()
    orders, ships = two.orders.stream, two.ships.stream
    join, told = Join(orders, ships), list[Any]()

    async def work(item: EventItem) -> int:
        await asyncio.sleep(0.02 if item.stream == orders else 0)
        return time_of(item.event)

    async def run() -> None:
        options = two.options(event_time=lambda event: {"order": time_of(event)})
        async with AsyncEventReader(two.controller.url, two.group, "r1", two.logs, **options) as reader:
            async for output in map_async(reader, work, ordered=ordered):
                if isinstance(output, Completed):
                    told.append((output.item.stream, output.result))
                elif isinstance(output, IdleItem):
                    told.append((output.stream, "ended"))
                    join.done(output.stream)
                else:
                    assert output.stream is not None
                    told.append((output.stream, f"W{output.watermark}"))
                    join.observe(output.stream, output.watermark, output.key)

    asyncio.run(run())
    assert [each for stream, each in told if stream == orders] == [3, 5, "W6", "ended"]
    assert [each for stream, each in told if stream == ships] == [4, 6, "W7", "ended"]
    assert (join.time(orders, "order"), join.time(ships, "ship")) == (6, 7)


#   in      a of s  idle s  idle t  b of s      the work on b is done before that on a
#   out     b of s  a of s  idle t
def test_a_stream_that_has_an_event_while_others_are_under_way_is_not_told_to_be_idle() -> None:
    a, b = (EventItem("s", StoredEvent("0", number, None, b"%d" % number, 0), {}) for number in (0, 1))
    gate = asyncio.Event()

    async def items() -> AsyncIterator[Item]:
        for item in (a, IdleItem("s"), IdleItem("t"), b):
            yield item

    async def work(item: EventItem) -> str:
        await gate.wait() if item is a else gate.set()
        for _ in range(20 if item is a else 0):
            await asyncio.sleep(0)
        return "ab"[item.event.offset]

    async def run() -> list[object]:
        return [
            output.result if isinstance(output, Completed) else output
            async for output in map_async(items(), work, ordered=False)
        ]

    assert asyncio.run(run()) == ["b", "a", IdleItem("t")]
