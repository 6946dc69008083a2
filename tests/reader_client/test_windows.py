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


def test_a_window_lies_between_the_mark_passed_and_the_mark_ahead(
    controller: Any, windows_of: Any, stream: str
) -> None:
    windows = windows_of(stream)
    for zero, one, lower, upper, mark_seq in (
        (0, 0, None, 100, None),
        (4, 5, None, 100, None),
        (5, 5, 100, 200, 1),
        (7, 6, 100, 300, 1),
        (10, 5, 200, 300, 2),
        (10, 20, 300, None, 3),
        (11, 19, 200, None, 2),
    ):
        position = {segment: offset for segment, offset in (("0", zero), ("1", one)) if offset}
        assert windows.get_time_window(position) == TimeWindow(lower, upper, True, False, mark_seq), position
    controller.note(stream, 77, {"0": 10, "1": 20}, key="ship_time")
    assert windows.get_time_window({"0": 10, "1": 20}, "ship_time").lower == 77
    assert windows_of(controller.stream()).get_time_window({"0": 99}) == TimeWindow(None, None)  # it has no marks


def test_a_sealed_stream_read_to_its_end_says_so(controller: Any, windows_of: Any, stream: str) -> None:
    controller.run(calls.seal(stream, {"0": 10, "1": 25}))
    windows = windows_of(stream)
    assert not windows.get_time_window({"0": 10, "1": 20}).end_of_stream
    assert windows.get_time_window({"0": 10, "1": 25}).end_of_stream


def test_marks_come_in_order_and_after_a_seq_and_waiting_in_vain_brings_none(windows_of: Any, stream: str) -> None:
    windows = windows_of(stream)
    assert [(mark.seq, mark.time, mark.cut) for mark in windows.marks().marks] == [
        (seq, time, cut) for seq, (time, cut) in enumerate(MARKS, start=1)
    ]
    assert [mark.seq for mark in windows.marks(after=1).marks] == [2, 3]
    assert [mark.seq for mark in windows.marks(after=1, limit=1).marks] == [2]
    page = windows.marks(after=3, wait_ms=50)
    assert (page.marks, page.resting) == ((), None)
    found = windows.marks_at(250)  # where reading from a time begins
    assert found.floor is not None and found.floor.time == 200
    assert found.ceiling is not None and found.ceiling.time == 300
    assert (dict(found.start), found.exact) == ({"0": 10, "1": 5}, False)


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


def test_a_time_index_says_from_which_offset_on_nothing_is_older(controller: Any, windows_of: Any, stream: str) -> None:
    windows = windows_of(stream)
    first = windows.time_index("0", limit=1)
    rest = windows.time_index("0", token=first.token)
    assert [*first.entries, *rest.entries] == [IndexEntry(5, 100), IndexEntry(10, 300)]
    assert windows.time_index("1", from_offset=7).entries == (IndexEntry(5, 200), IndexEntry(20, 300))
    controller.note(stream, 77, {"0": 11, "1": 20}, key="ship_time")
    assert windows.time_index("0", key="ship_time").entries == (IndexEntry(11, 77),)


def test_what_is_wrong_is_the_typed_error(windows_of: Any, stream: str) -> None:
    with pytest.raises(UnknownStream):
        windows_of("nowhere").get_time_window({})
    windows = windows_of(stream)
    for call, unknown in ((windows.get_time_window, {"7": 1}), (windows.time_index, "7")):
        with pytest.raises(UnknownSegment) as raised:
            call(unknown)
        assert raised.value.segment == "7"
    with pytest.raises(InvalidNote):
        windows.get_time_window({"0": 1.5})
    with pytest.raises(InvalidName):
        windows.get_time_window({}, key="a b")
    with pytest.raises(TooMany):
        windows.marks(wait_ms=30_001)
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


def test_waiting_until_a_time_returns_the_mark_that_reached_it_or_names_the_writer_that_holds_it(
    windows_of: Any, stream: str
) -> None:
    windows, seen = windows_of(stream), list[Any]()
    found = windows.wait_until(250)
    assert found.complete and found.ceiling is not None
    assert dict(found.ceiling.cut) == {"0": 10, "1": 20}
    with pytest.raises(TimeNotReached) as raised:
        windows.wait_until(301, timeout_ms=0, on_wait=seen.append)
    assert (raised.value.reached, raised.value.holder, seen) == (300, "w1", [])


def test_a_wait_for_a_time_goes_on_until_the_mark_is_made(controller: Any, windows_of: Any, stream: str) -> None:
    windows = windows_of(stream)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(windows.wait_until, 400, timeout_ms=60_000)
        controller.note(stream, 400, {"0": 11, "1": 20})
        assert waiting.result(60).reached == 400
