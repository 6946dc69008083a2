"""Time windows and marks of the real controller, sync and async alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reader_client import AsyncTimeWindows, TimeWindow, TimeWindows
from strandline.client import calls
from strandline.core.time_index import IndexEntry
from strandline.errors import (
    InvalidConfig,
    InvalidName,
    InvalidNote,
    TimeNotReached,
    TooMany,
    UnknownSegment,
    UnknownStream,
)


@pytest.fixture
def windows_of(either: Any, controller: Any) -> Any:
    """Either kind of time windows, for a stream."""
    return lambda stream: either(TimeWindows, AsyncTimeWindows)(controller.url, stream)


# One stream, segments 0 and 1, three marks:
#
#     time        100         200         300
#     cut       0:5 1:5    0:10 1:5    0:10 1:20
MARKS = [(100, {"0": 5, "1": 5}), (200, {"0": 10, "1": 5}), (300, {"0": 10, "1": 20})]


@pytest.fixture
def stream(controller: Any) -> str:
    name: str = controller.stream()
    for time, position in MARKS:
        controller.note(name, time, position)
    return name


@pytest.mark.parametrize(
    ("position", "lower", "upper", "mark_seq"),
    [
        ({}, None, 100, None),
        ({"0": 4, "1": 5}, None, 100, None),
        ({"0": 5, "1": 5}, 100, 200, 1),
        ({"0": 7, "1": 6}, 100, 300, 1),
        ({"0": 10, "1": 5}, 200, 300, 2),
        ({"0": 10, "1": 20}, 300, None, 3),
        ({"0": 11, "1": 19}, 200, None, 2),
    ],
)
def test_a_window_lies_between_the_mark_passed_and_the_mark_ahead(
    windows_of: Any, stream: str, position: dict[str, int], lower: int | None, upper: int | None, mark_seq: int | None
) -> None:
    assert windows_of(stream).get_time_window(position) == TimeWindow(lower, upper, True, False, mark_seq)


def test_a_window_of_a_stream_without_marks_guesses_nothing(controller: Any, windows_of: Any) -> None:
    assert windows_of(controller.stream()).get_time_window({"0": 99}) == TimeWindow(None, None)


def test_a_window_has_a_time_key(controller: Any, windows_of: Any, stream: str) -> None:
    controller.note(stream, 77, {"0": 10, "1": 20}, key="ship_time")
    assert windows_of(stream).get_time_window({"0": 10, "1": 20}, "ship_time").lower == 77


def test_a_sealed_stream_read_to_its_end_says_so(controller: Any, windows_of: Any, stream: str) -> None:
    controller.run(calls.seal(stream, {"0": 10, "1": 25}))
    windows = windows_of(stream)
    assert not windows.get_time_window({"0": 10, "1": 20}).end_of_stream
    assert windows.get_time_window({"0": 10, "1": 25}).end_of_stream


def test_marks_come_in_order_and_after_a_seq(windows_of: Any, stream: str) -> None:
    windows = windows_of(stream)
    assert [(mark.seq, mark.time, mark.cut) for mark in windows.marks().marks] == [
        (seq, time, cut) for seq, (time, cut) in enumerate(MARKS, start=1)
    ]
    assert [mark.seq for mark in windows.marks(after=1).marks] == [2, 3]
    assert [mark.seq for mark in windows.marks(after=1, limit=1).marks] == [2]


def test_waiting_in_vain_brings_no_marks(windows_of: Any, stream: str) -> None:
    page = windows_of(stream).marks(after=3, wait_ms=50)
    assert (page.marks, page.resting) == ((), None)


def test_reading_from_a_time_begins_where_the_marks_say(windows_of: Any, stream: str) -> None:
    found = windows_of(stream).marks_at(250)
    assert found.floor is not None and found.floor.time == 200
    assert found.ceiling is not None and found.ceiling.time == 300
    assert dict(found.start) == {"0": 10, "1": 5}
    assert not found.exact


def test_between_two_milliseconds_an_end_is_the_later_and_reading_begins_at_the_earlier(
    controller: Any, windows_of: Any, stream: str
) -> None:
    windows, between = windows_of(stream), datetime.fromtimestamp(0.3, UTC) + timedelta(microseconds=500)
    assert windows.marks_at(300).there and not windows.marks_at(between).there
    with pytest.raises(TimeNotReached):
        windows.wait_until(between, timeout_ms=0)
    controller.note(stream, 301, {"0": 11, "1": 21})
    assert windows.marks_at(between).ceiling == windows.marks_at(301).ceiling != windows.marks_at(300).ceiling
    assert windows.position_at(between) == windows.position_at(300) != windows.position_at(301)


def test_a_time_index_says_from_which_offset_on_nothing_is_older(windows_of: Any, stream: str) -> None:
    windows = windows_of(stream)
    first = windows.time_index("0", limit=1)
    rest = windows.time_index("0", token=first.token)
    assert [*first.entries, *rest.entries] == [IndexEntry(5, 100), IndexEntry(10, 300)]
    assert windows.time_index("1", from_offset=7).entries == (IndexEntry(5, 200), IndexEntry(20, 300))
    with pytest.raises(UnknownSegment):
        windows.time_index("7")


def test_a_time_index_has_a_time_key(controller: Any, windows_of: Any, stream: str) -> None:
    controller.note(stream, 77, {"0": 11, "1": 20}, key="ship_time")
    assert windows_of(stream).time_index("0", key="ship_time").entries == (IndexEntry(11, 77),)


def test_what_is_wrong_is_the_typed_error(windows_of: Any, stream: str) -> None:
    with pytest.raises(UnknownStream):
        windows_of("nowhere").get_time_window({})
    with pytest.raises(UnknownSegment) as raised:
        windows_of(stream).get_time_window({"7": 1})
    assert raised.value.segment == "7"
    with pytest.raises(InvalidNote):
        windows_of(stream).get_time_window({"0": 1.5})
    with pytest.raises(InvalidName):
        windows_of(stream).get_time_window({}, key="a b")
    with pytest.raises(TooMany):
        windows_of(stream).marks(wait_ms=30_001)


def test_an_address_and_a_name_are_checked_at_once() -> None:
    for kind in (TimeWindows, AsyncTimeWindows):
        with pytest.raises(InvalidConfig):
            kind("there", "orders")
        with pytest.raises(InvalidName):
            kind("http://there", "or ders")


def test_time_windows_close_what_they_opened_and_nothing_else(controller: Any, stream: str) -> None:
    with TimeWindows(controller.url, stream) as windows:
        assert windows.get_time_window({}).upper == 100
    with pytest.raises(RuntimeError):
        windows.get_time_window({})
    with TimeWindows(controller.connection, stream):
        pass
    assert TimeWindows(controller.connection, stream).get_time_window({}).upper == 100


def test_waiting_until_a_time_returns_the_mark_that_reached_it(windows_of: Any, stream: str) -> None:
    found = windows_of(stream).wait_until(250)
    assert found.complete and found.ceiling is not None
    assert dict(found.ceiling.cut) == {"0": 10, "1": 20}


def test_waiting_in_vain_for_a_time_names_the_writer_that_holds_it(windows_of: Any, stream: str) -> None:
    seen: list[Any] = []
    with pytest.raises(TimeNotReached) as raised:
        windows_of(stream).wait_until(301, timeout_ms=0, on_wait=seen.append)
    assert (raised.value.reached, raised.value.holder, seen) == (300, "w1", [])


def test_a_wait_for_a_time_goes_on_until_the_mark_is_made(controller: Any, windows_of: Any, stream: str) -> None:
    windows = windows_of(stream)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(windows.wait_until, 400, timeout_ms=60_000)
        controller.note(stream, 400, {"0": 11, "1": 20})
        assert waiting.result(60).reached == 400
