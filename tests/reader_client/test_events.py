"""Events of a group's segments, with watermarks between them: on the real controller and a real log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from logs import StoredEvent
from reader_client import (
    AsyncEventReader,
    EventItem,
    EventReader,
    ReaderClosed,
    ReaderGroup,
    ReaderState,
    WatermarkItem,
)
from strandline.config import TimeDomain
from strandline.errors import Fenced, InvalidConfig, WrongDomain
from strandline.note import Note
from strandline.protocol import calls
from strandline.protocol.attempts import NotReached, Outcome, Patience
from strandline.protocol.calls import Request
from strandline.protocol.errors import ControllerAway
from strandline.protocol.transport import Connection, HttpxTransport
from strandline.segment import NewSegment
from tests.served import AT_ONCE

Item = EventItem | WatermarkItem
QUICK: dict[str, Any] = {"report_ms": 10}
WAIT_S = 20


def time_of(event: StoredEvent) -> int:
    return int(event.value or b"")


def told(item: Item) -> object:
    """An item in short: an event's time, or a watermark as W…"""
    return f"W{item.watermark}" if isinstance(item, WatermarkItem) else time_of(item.event)


def read(reader: Any, wait_ms: float = 300) -> list[object]:
    """What comes until nothing has come for a while."""
    items = []
    while (item := reader.read(wait_ms)) is not None:
        items.append(told(item))
    return items


def until(reader: Any, wanted: object) -> list[object]:
    """What comes up to, and with, this."""
    items: list[object] = []
    deadline = time.monotonic() + WAIT_S
    while wanted not in items:
        assert time.monotonic() < deadline, f"{wanted} never came, but {items}"
        item = reader.read(50)
        if item is not None:
            items.append(told(item))
    return items


def share(readers: list[EventReader], counts: list[int]) -> None:
    """Lets readers ask in turn, with nothing there to read, until they own so many segments."""
    deadline = time.monotonic() + WAIT_S
    while [sum(map(len, each.positions.values())) for each in readers] != counts:
        assert time.monotonic() < deadline, f"never {counts}"
        assert [each.read(15) for each in readers] == [None] * len(readers)


@contextmanager
def reading(written: Any, group: str, name: str = "r1", **options: Any) -> Iterator[EventReader]:
    logs = {written.stream: written.open()}
    with EventReader(written.controller.connection, group, name, logs, **{**QUICK, **options}) as reader:
        yield reader


# -- items -------------------------------------------------------------------------------------------------------------


def test_events_come_with_watermarks_between_them_for_who_chose_a_time_domain(
    written_anywhere: Any, event_reader: Callable[..., Any]
) -> None:
    written = written_anywhere()
    written.write(("0", 5), ("1", 7), ("0", 9))
    written.note(10)
    group = written.group()
    reader = event_reader(
        written.controller.url, group, "r1", {written.stream: written.open()}, time_domain="event", **QUICK
    )
    first = until(reader, "W10")
    assert sorted(map(str, first)) == ["5", "7", "9", "W10"] and first[-1] == "W10"
    written.write(("1", 12))
    written.note(20)
    assert until(reader, "W20") == [12, "W20"]
    written.seal()
    while reader.read() is not None:
        pass
    assert reader.end_of_stream
    reader.close()


def test_by_default_there_are_no_watermark_items(written: Any) -> None:
    written = written()
    written.write(("0", 5))
    written.note(10)
    with reading(written, written.group()) as reader:
        assert read(reader) == [5]
        assert reader.window is not None and reader.window.watermarks == {"": 10}


def test_an_item_says_what_it_is(written: Any) -> None:
    written = written(1)
    written.write(("0", 5))
    written.note(10)
    with reading(written, written.group(), time_domain="event", event_time=time_of) as reader:
        event, watermark = reader.read(1_000), reader.read(1_000)
    assert isinstance(event, EventItem) and isinstance(watermark, WatermarkItem)
    assert (event.is_event, event.is_watermark, event.watermark, event.time) == (True, False, None, 5)
    assert (event.stream, event.event.segment, event.event.offset) == (written.stream, "0", 0)
    assert (watermark.is_event, watermark.is_watermark, watermark.watermark, watermark.event) == (False, True, 10, None)


def test_a_waiting_read_ends_when_only_time_has_moved(written: Any) -> None:
    written = written(1)
    written.write(("0", 5))
    written.note(10)
    with reading(written, written.group(), time_domain="event") as reader:
        until(reader, "W10")
        written.note(20)
        item = reader.read()
        assert isinstance(item, WatermarkItem) and item.watermark == 20


def test_another_readers_progress_moves_the_watermark_of_all(written: Any) -> None:
    written = written()
    group = written.group()
    with reading(written, group, time_domain="event") as one, reading(written, group, "r2", time_domain="event") as two:
        share([one, two], [1, 1])
        written.write(("0", 5), ("1", 6))
        written.note(10)
        (own,) = read(one, 100)
        assert own in (5, 6)
        assert until(two, "W10") == [11 - own, "W10"]
        assert until(one, "W10") == ["W10"]


def test_a_reader_without_segments_advances_like_the_others(written: Any) -> None:
    written = written(1)
    written.write(("0", 5))
    written.note(10)
    group = written.group()
    with reading(written, group, time_domain="event") as one, reading(written, group, "r2", time_domain="event") as two:
        until(one, "W10")
        assert until(two, "W10") == ["W10"]
        assert two.positions == {}
        written.note(20)
        until(one, "W20")
        assert until(two, "W20") == ["W20"]


def test_a_time_domain_that_the_stream_does_not_have_is_refused(written: Any) -> None:
    written = written()
    with pytest.raises(WrongDomain, match="ingestion"), reading(written, written.group(), time_domain="ingestion"):
        pass
    with pytest.raises(InvalidConfig, match="processing"):
        EventReader("http://there", "g", "r1", {}, time_domain="wall")


def test_in_the_ingestion_domain_time_goes_on_over_a_stream_at_rest(written: Any) -> None:
    config = replace(AT_ONCE, time_domain=TimeDomain.INGESTION, idle_lag_ms=0)
    written = written(1, config)
    written.write(("0", 5))
    clock = written.controller.run(calls.clocked(calls.describe(written.stream))).clock
    written.controller.run(calls.tail(written.stream, "tail", clock, {"0": 1}))
    written.controller.run(calls.idle(written.stream, "tail"))
    with reading(written, written.group(), time_domain="ingestion") as reader:
        moved = [reader.read(WAIT_S * 1_000) for _ in range(4)]
        watermarks = [item.watermark for item in moved if isinstance(item, WatermarkItem)]
        assert len(watermarks) == 3 and watermarks == sorted(set(watermarks))


def test_the_lag_between_ingestion_and_event_time_is_taken_off(written: Any) -> None:
    written = written(1)
    written.write(("0", 5))
    written.note(1_000)
    with reading(written, written.group(), time_domain="event", max_event_time_lag_ms=300) as reader:
        assert until(reader, "W700") == [5, "W700"]


def test_several_streams_have_one_watermark_and_each_its_own_window(written: Any) -> None:
    orders, shipped = written(1), written(1)
    orders.write(("0", 5))
    shipped.write(("0", 6))
    orders.note(100)
    shipped.note(70)
    with ReaderGroup(orders.controller.url, "joined") as group:
        group.create([orders.stream, shipped.stream])
    logs = {each.stream: each.open() for each in (orders, shipped)}
    with EventReader(orders.controller.url, "joined", "r1", logs, time_domain="event", **QUICK) as reader:
        assert sorted(map(str, until(reader, "W70"))) == ["5", "6", "W70"]
        assert reader.window is not None
        lowers = {stream: window.lower for stream, window in reader.window.streams.items()}
        assert lowers == {orders.stream: 100, shipped.stream: 70}
        shipped.note(120)
        assert until(reader, "W100") == ["W100"]


def test_watermarks_have_keys(written: Any) -> None:
    written = written(1)
    written.write(("0", 5))
    times = {"order": 50, "ship": 40}
    written.controller.run(calls.note(written.stream, Note(writer="w1", times=times, position={"0": 1})))
    with reading(written, written.group(), time_domain="event", event_time=lambda _: {"order": 5, "ship": 6}) as reader:
        event, *watermarks = [reader.read(1_000) for _ in range(3)]
    assert isinstance(event, EventItem) and (event.times, event.time) == ({"order": 5, "ship": 6}, None)
    assert watermarks == [WatermarkItem(50, "order"), WatermarkItem(40, "ship")]


# -- sharing -----------------------------------------------------------------------------------------------------------


def test_readers_share_the_segments_evenly_also_with_one_that_comes_later(written: Any) -> None:
    written = written(4)
    group = written.group()
    with reading(written, group) as one:
        share([one], [4])
        with reading(written, group, "r2") as two:
            share([one, two], [2, 2])
        share([one], [4])  # two has left


def test_what_a_silent_reader_had_is_read_again_and_it_is_fenced_when_it_wakes(written: Any) -> None:
    written = written(1)
    written.write(("0", 1), ("0", 2), ("0", 3))
    group = written.group(reader_timeout_ms=300)
    with reading(written, group, report_ms=1) as hung:
        assert told(hung.read(1_000)) == 1  # type: ignore[arg-type]  # there is one
        assert told(hung.read(1_000)) == 2  # type: ignore[arg-type]  # and the first is reported
        with reading(written, group, "r2") as other:
            assert until(other, 3)[-2:] == [2, 3]
            other.read(50)
            assert hung.read(200) is None  # 3 lies in its buffer, but is no longer its own
            assert hung.fenced == 1
            written.write(("0", 4))
            assert until(other, 4) == [4]


def test_offline_takes_the_window_back_and_the_events_come_again(written_anywhere: Any) -> None:
    written = written_anywhere(1)
    written.write(("0", 1))
    written.note(10)
    written.write(("0", 11))
    written.note(20)
    name = written.group()
    with ReaderGroup(written.controller.url, name) as group, reading(written, name, time_domain="event") as reader:
        assert until(reader, "W20")[-1] == "W20"
        assert group.offline("r1", {written.stream: {"0": 1}}).watermarks == {"": 10}
        assert until(reader, 11) == [11]  # it registers anew, and its own watermarks do not go back
        assert reader.fenced == 1
        assert reader.read(50) is None
        assert group.get_time_window().watermarks == {"": 20}


def test_a_second_process_of_the_same_name_ends_the_first(written: Any) -> None:
    written = written(1)
    group = written.group()
    with reading(written, group) as first, reading(written, group) as second:
        with pytest.raises(Fenced):
            first.read(1_000)
        assert second.read(20) is None


def test_successors_come_after_all_of_their_predecessors(written: Any) -> None:
    written = written(2)
    written.write(("0", 1), ("1", 2))
    written.note(5)
    written.scale(["0", "1"], [NewSegment("2", 0.0, 1.0)])
    written.write(("2", 6))
    written.scale(["2"], [NewSegment("3", 0.0, 0.5), NewSegment("4", 0.5, 1.0)])
    written.write(("3", 11), ("4", 12))
    written.note(20)
    with reading(written, written.group(), time_domain="event") as reader:
        items = until(reader, "W20")
    events = [item for item in items if isinstance(item, int)]
    assert (set(events[:2]), events[2], set(events[3:])) == ({1, 2}, 6, {11, 12})


def test_the_end_of_a_segment_is_reported_at_once_so_that_its_successors_are_read(written: Any) -> None:
    written = written(2)
    written.write(("0", 1), ("1", 2))
    written.scale(["0", "1"], [NewSegment("2", 0.0, 1.0)])
    written.write(("2", 6))
    with reading(written, written.group(), report_ms=60_000) as reader:
        assert until(reader, 6)[-1] == 6


# -- state -------------------------------------------------------------------------------------------------------------


def test_a_reader_goes_on_from_its_saved_state_with_its_bound(
    written_anywhere: Any, event_reader: Callable[..., Any]
) -> None:
    written = written_anywhere(1)
    written.write(("0", 1), ("0", 2))
    written.note(10)
    written.write(("0", 11), ("0", 12))
    written.note(20)
    group, logs = written.group(), {written.stream: written.open()}
    options = {"time_domain": "event", **QUICK}
    first = event_reader(written.controller.url, group, "r1", logs, **options)
    until(first, 2)
    state = first.save()
    assert state.positions == {written.stream: {"0": 2}}
    until(first, "W20")
    first.close()
    again = ReaderState.from_json(replace(state, watermarks={"": 10}).to_json())
    second = event_reader(written.controller.url, group, "r1", logs, state=again, **options)
    assert until(second, "W20") == [11, 12, "W20"]
    second.close()


def test_a_state_that_is_none_is_refused() -> None:
    for text in (
        "",
        "[]",
        "{}",
        '{"positions": {"s": {"0": -1}}, "watermarks": {}}',
        '{"positions": 5, "watermarks": 1}',
    ):
        with pytest.raises(InvalidConfig):
            ReaderState.from_json(text)


def test_what_was_not_dealt_with_is_read_again_after_an_exception(written: Any) -> None:
    written = written(1)
    written.write(("0", 1), ("0", 2))
    group = written.group()
    with pytest.raises(RuntimeError), reading(written, group) as reader:
        until(reader, 2)
        raise RuntimeError("this reader's work failed")
    with reading(written, group, "r2") as reader:
        assert until(reader, 2) == [2]
    with reading(written, group, "r3") as reader:
        assert reader.read(50) is None


def test_with_acknowledgements_an_event_counts_as_read_once_it_is_done(written: Any) -> None:
    written = written(1)
    written.write(("0", 1), ("0", 2), ("0", 3))
    group = written.group()
    with reading(written, group, acknowledge=True) as reader:
        items = [reader.read(1_000) for _ in range(3)]
        events = [item for item in items if isinstance(item, EventItem)]
        reader.done(events[2])
        assert reader.positions == {written.stream: {"0": 0}}
        reader.done(events[0])
        assert reader.positions == {written.stream: {"0": 1}}
    with reading(written, group, "r2") as reader:
        assert until(reader, 3) == [2, 3]


def test_an_event_whose_time_cannot_be_told_is_not_lost(written: Any) -> None:
    written = written(1)
    written.write(("0", 1))
    broken = [True]

    def event_time(event: StoredEvent) -> int:
        if broken.pop() if broken else False:
            raise RuntimeError("not yet")
        return time_of(event)

    with reading(written, written.group(), event_time=event_time) as reader:
        with pytest.raises(RuntimeError):
            reader.read(1_000)
        assert read(reader, 50) == [1]


def test_a_closed_reader_cannot_be_used(written: Any) -> None:
    written = written(1)
    with reading(written, written.group()) as reader:
        pass
    with pytest.raises(ReaderClosed):
        reader.read(0)
    reader.close()


def test_a_reader_reports_more_often_than_it_may_be_silent(written: Any) -> None:
    written = written(1)
    with (
        pytest.raises(InvalidConfig, match="reader_timeout_ms, 200"),
        reading(written, written.group(reader_timeout_ms=200), report_ms=200),
    ):
        pass


def test_every_stream_of_the_group_needs_a_log(written: Any) -> None:
    written = written(1)
    with pytest.raises(InvalidConfig, match="a log for each stream"):
        EventReader(written.controller.connection, written.group(), "r1", {}).read(0)


# -- late events -------------------------------------------------------------------------------------------------------


def late_world(written: Any) -> Any:
    """An event at 3 comes after 10 was noted: by a writer that did not keep its word."""
    world = written(1)
    world.write(("0", 5))
    world.note(10)
    return world


def test_late_events_are_flagged_and_counted_by_writer(written_anywhere: Any) -> None:
    written = late_world(written_anywhere)
    writers = {3: "dawdler", 12: "prompt", 4: "dawdler"}
    options: dict[str, Any] = {
        "event_time": time_of,
        "writer_of": lambda event: writers[time_of(event)],
        "time_domain": "event",
    }
    with reading(written, written.group(), **options) as reader:
        until(reader, "W10")
        written.write(("0", 3), ("0", 12), ("0", 4))
        items = [reader.read(1_000) for _ in range(3)]
        assert [(item.time, item.late) for item in items if isinstance(item, EventItem)] == [
            (3, ("",)),
            (12, ()),
            (4, ("",)),
        ]
        assert (reader.late.total, dict(reader.late.by_writer)) == (2, {"dawdler": 2})


def test_late_events_can_go_to_an_output_of_their_own(written: Any) -> None:
    written = late_world(written)
    late: list[int | None] = []
    options: dict[str, Any] = {"event_time": time_of, "on_late": lambda item: late.append(item.time)}
    with reading(written, written.group(), **options) as reader:
        assert until(reader, 5) == [5]
        while reader.window is None or reader.window.watermarks.get("") != 10:
            reader.read(20)
        written.write(("0", 3), ("0", 12), ("0", 4))
        assert until(reader, 12) == [12]
        assert read(reader, 50) == []
        assert (late, reader.late.total, reader.positions) == ([3, 4], 2, {written.stream: {"0": 4}})


def test_an_output_for_late_events_needs_to_know_their_times() -> None:
    with pytest.raises(InvalidConfig, match="event_time"):
        EventReader("http://there", "g", "r1", {}, time_domain="event", on_late=print)


# -- order and lag -----------------------------------------------------------------------------------------------------


def skewed(written: Any) -> Any:
    """Segment 0 has ten times as many events as segment 1, over the same time; a mark for every step."""
    world = written()
    for at in range(0, 200, 10):
        world.write(*[("0", at + n) for n in range(10)], ("1", at + 5))
        world.note(at + 10)
    return world


def disorder_of(items: list[object]) -> int:
    behind, greatest = 0, 0
    for at in (item for item in items if isinstance(item, int)):
        behind += max(0, greatest - at)
        greatest = max(greatest, at)
    return behind


def test_events_come_in_the_order_of_the_marks_and_without_it_they_do_not(written: Any) -> None:
    written = skewed(written)
    with reading(written, written.group()) as ordered, reading(written, written.group(), ordered=False) as unordered:
        with_order, without = disorder_of(read(ordered)), disorder_of(read(unordered))
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
        with_order, without = disorder_of(read(ordered)), disorder_of(read(by_default))
    assert with_order < without / 10


def test_lag_is_a_time_for_each_segment(written: Any) -> None:
    written = skewed(written)
    group = written.group()
    with reading(written, group) as reader:
        while reader.positions.get(written.stream, {}).get("1", 0) < 5:
            reader.read(100)
        lags = reader.lags(1_000)[written.stream]
        assert lags["1"].lag_ms == 1_000 - 50 and lags["1"].behind_ms == 200 - 50
        read(reader)
        assert {each.behind_ms for each in reader.lags(1_000)[written.stream].values()} == {0}
        with ReaderGroup(written.controller.url, group) as whole:
            assert {each.behind_ms for each in whole.lag().streams[written.stream].values()} == {0}


def test_an_iteration_ends_with_the_streams(written: Any) -> None:
    written = skewed(written)
    written.seal()
    with reading(written, written.group(), time_domain="event") as reader:
        items = [told(item) for item in reader]
        assert len([item for item in items if isinstance(item, int)]) == 220
        assert items[-1] == "W200" and reader.end_of_stream


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
    assert len(items) >= 221 and items[-1] == "W200"


# -- what fails --------------------------------------------------------------------------------------------------------


class Away:
    """httpx to the controller, which can be told to be away."""

    def __init__(self, url: str) -> None:
        self.inner, self.away = HttpxTransport(url), False

    def send(self, request: Request, timeout_ms: float) -> Outcome:
        return NotReached("as the test wants it") if self.away else self.inner.send(request, timeout_ms)

    def close(self) -> None:
        self.inner.close()


def test_a_reader_goes_on_where_it_was_after_the_controller_was_away(written: Any) -> None:
    written = written(1)
    written.write(("0", 1), ("0", 2), ("0", 3))
    transport = Away(written.controller.url)
    patience = Patience(attempts=2, first_pause_ms=1, pause_bound_ms=2)
    with Connection(written.controller.url, transport=transport, patience=patience) as connection:
        logs = {written.stream: written.open()}
        with EventReader(connection, written.group(), "r1", logs, report_ms=1) as reader:
            assert until(reader, 1) == [1]
            transport.away = True
            with pytest.raises(ControllerAway):
                while True:
                    assert reader.read(50) is not None
            transport.away = False
            written.write(("0", 4))
            assert until(reader, 4)[-1] == 4
            while reader.read(20) is not None:
                pass
            assert reader.window is not None
            assert reader.window.streams[written.stream].position == {"0": 4}


def test_a_read_that_was_cancelled_loses_nothing(written: Any) -> None:
    written = written(1)

    async def run() -> list[object]:
        logs = {written.stream: written.open()}
        options = {"time_domain": "event", **QUICK}
        async with AsyncEventReader(written.controller.url, written.group(), "r1", logs, **options) as reader:
            found: list[object] = []
            for time in range(1, 30):
                written.write(("0", time))
                with suppress(TimeoutError):
                    item = await asyncio.wait_for(reader.read(), time % 7 / 1_000)
                    found += [told(item)] if item is not None else []
            written.note(50)
            while "W50" not in found:
                item = await reader.read()
                assert item is not None
                found.append(told(item))
            return found

    assert asyncio.run(run()) == [*range(1, 30), "W50"]
