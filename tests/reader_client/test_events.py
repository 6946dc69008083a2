"""Events of a group's segments, with watermarks between them: on the real controller and a real log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from reader_client import AsyncEventReader, EventItem, EventReader, WatermarkItem
from strandline.client import calls
from strandline.client.calls import Request
from strandline.client.http import Connection, HttpTransport
from strandline.client.retry import NotReached, Outcome, Patience
from strandline.core.config import TimeDomain
from strandline.core.note import Note
from strandline.errors import ControllerAway, Invalid, WrongDomain
from tests.reader_client.event_readers import QUICK, WAIT_S, next_of, read, reading, time_of, told, until
from tests.served import AT_ONCE

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
        assert until(reader, 5) == [5]
        while reader.window is None or reader.window.watermarks != {"": 10}:
            assert reader.read(50) is None


def test_an_item_says_what_it_is(written: Any) -> None:
    written = written(1)
    written.write(("0", 5))
    written.note(10)
    with reading(written, written.group(), time_domain="event", event_time=time_of) as reader:
        event, watermark = next_of(reader), next_of(reader)
    assert isinstance(event, EventItem) and isinstance(watermark, WatermarkItem)
    assert (event.is_event, event.is_watermark, event.watermark, event.time) == (True, False, None, 5)
    assert (event.stream, event.event.segment, event.event.offset) == (written.stream, "0", 0)
    assert (watermark.is_event, watermark.is_watermark, watermark.watermark, watermark.event) == (False, True, 10, None)


def test_a_time_domain_that_the_stream_does_not_have_is_refused(written: Any) -> None:
    written = written()
    with pytest.raises(WrongDomain, match="ingestion"), reading(written, written.group(), time_domain="ingestion"):
        pass


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


def test_watermarks_have_keys(written: Any) -> None:
    written = written(1)
    written.write(("0", 5))
    times = {"order": 50, "ship": 40}
    written.controller.run(calls.note(written.stream, Note(writer="w1", times=times, position={"0": 1})))
    with reading(written, written.group(), time_domain="event", event_time=lambda _: {"order": 5, "ship": 6}) as reader:
        event, *watermarks = [next_of(reader) for _ in range(3)]
    assert isinstance(event, EventItem) and (event.times, event.time) == ({"order": 5, "ship": 6}, None)
    assert watermarks == [WatermarkItem(50, "order"), WatermarkItem(40, "ship")]


def test_late_events_can_go_to_an_output_of_their_own(written: Any) -> None:
    """An event at 3 comes after 10 was noted: by a writer that did not keep its word."""
    written, late = written(1), list[int | None]()
    written.write(("0", 5))
    written.note(10)
    options: dict[str, Any] = {"event_time": time_of, "on_late": lambda item: late.append(item.time)}
    with reading(written, written.group(), **options) as reader:
        assert until(reader, 5) == [5]
        while reader.window is None or reader.window.watermarks.get("") != 10:
            reader.read(20)
        written.write(("0", 3), ("0", 10), ("0", 12), ("0", 4))  # 10 is the watermark itself
        assert until(reader, 12) == [10, 12]
        assert read(reader, 50) == []
        assert (late, reader.late.total, reader.positions) == ([3, 4], 2, {written.stream: {"0": 5}})


# -- what fails --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time", [None, 5.5, {"order": "soon"}, {5: 5}], ids=str)
def test_an_event_time_that_is_no_time_is_named_and_the_event_comes_again(written: Any, time: Any) -> None:
    written, times = written(1), [5, time]
    written.write(("0", 5))
    with reading(written, written.group(), event_time=lambda _: times.pop()) as reader:
        with pytest.raises(Invalid, match=r"event_time cannot be|time key name 5"):
            reader.read()
        assert next_of(reader).time == 5


class Away:
    """httpx to the controller, which can be told to be away."""

    def __init__(self, url: str) -> None:
        self.inner, self.away = HttpTransport(url), False

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
