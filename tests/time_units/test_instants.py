"""Times as people have them: datetimes in place of milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reader_client.event_windows import EventWindows, Tumbling
from reader_client.items import WatermarkItem
from strandline.core.time_units import as_datetime, milliseconds
from strandline.core.window import TimeWindow
from strandline.errors import InvalidConfig, InvalidNote
from writer_client.session import noted_times

MOMENTS = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-9, minutes=-30))]))


@given(MOMENTS)
def test_a_datetime_becomes_the_millisecond_at_or_before_it(moment: datetime) -> None:
    found = as_datetime(milliseconds("time", moment))
    assert found is None or timedelta(0) <= moment - found < timedelta(milliseconds=1)


@given(MOMENTS)
def test_a_bound_may_be_the_millisecond_at_or_after_it(moment: datetime) -> None:
    down, up = milliseconds("time", moment), milliseconds("time", moment, up=True)
    assert up - down == (1 if moment.microsecond % 1_000 else 0)


@given(st.integers(-(10**13), 10**13))
def test_milliseconds_survive_the_way_there_and_back(time: int) -> None:
    moment = as_datetime(time)
    assert moment is not None and moment.tzinfo is UTC and milliseconds("time", moment) == time


def test_what_no_datetime_can_be_is_none() -> None:
    assert as_datetime(None) is None
    assert as_datetime(2**52) is None


def test_a_datetime_without_a_time_zone_is_refused_with_a_sentence() -> None:
    with pytest.raises(InvalidConfig, match="with a time zone, such as"):
        milliseconds("time", datetime(2026, 1, 1, 12))  # noqa: DTZ001  # that is the point


def test_a_window_gives_its_bounds_as_datetimes() -> None:
    window = TimeWindow(1_000, 2_500, mark_seq=1)
    assert window.lower_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert window.upper_at == datetime(1970, 1, 1, 0, 0, 2, 500_000, tzinfo=UTC)
    assert TimeWindow(None, None).lower_at is None
    assert WatermarkItem(1_000).watermark_at == window.lower_at


def test_windows_take_datetimes_and_close_by_them() -> None:
    windows = EventWindows[str](Tumbling(1_000))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert windows.add(start, "a")
    assert windows.advance(start + timedelta(milliseconds=999)) == []
    (closed,) = windows.advance(start + timedelta(seconds=1))
    assert (closed.start_at, closed.end_at) == (start, start + timedelta(seconds=1))


@pytest.mark.parametrize("time", [numpy.int64(7), numpy.uint32(7)])
def test_a_writer_notes_whole_numbers_of_other_types(time: Any) -> None:
    times = noted_times(time)
    assert times == {"": 7} == noted_times({"": time}) and type(times[""]) is int


@pytest.mark.parametrize("time", [True, numpy.bool_(True), numpy.float64(7), 7.0, "7"])
def test_a_writer_notes_nothing_that_is_no_whole_number(time: Any) -> None:
    with pytest.raises(InvalidNote, match="whole milliseconds"):
        noted_times(time)
