"""Reader groups of the real controller, sync and async alike."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from reader_client import AsyncReaderGroup, FromPositions, FromTime, PositionAt, ReaderGroup, TimeWindows
from strandline.errors import InvalidConfig, InvalidName, PositionWentBack, UnknownGroup, UnknownStream

NUMBERS = itertools.count(1)


@pytest.fixture
def group_of(either: Any, controller: Any) -> Any:
    """Either kind of reader group, of a new name unless one is given."""
    return lambda name=None: either(ReaderGroup, AsyncReaderGroup)(controller.url, name or f"group-{next(NUMBERS)}")


@pytest.fixture
def stream(controller: Any) -> str:
    """Segments 0 and 1, marks at 100 (0:5 1:5) and 200 (0:10 1:10)."""
    name: str = controller.stream()
    controller.note(name, 100, {"0": 5, "1": 5})
    controller.note(name, 200, {"0": 10, "1": 10})
    return name


@pytest.fixture
def group(group_of: Any, stream: str) -> Any:
    """A group that reads the stream, from its head on."""
    group = group_of()
    group.create([stream])
    return group


def test_a_group_is_made_once_and_starts_at_the_head_or_where_it_is_told_to(group_of: Any, stream: str) -> None:
    group = group_of()
    assert group.create([stream]) is True
    assert group.create([stream]) is False
    window = group.get_time_window().streams[stream]
    assert (window.lower, window.upper, dict(window.position)) == (None, 100, {})
    for where in (FromPositions({stream: {"0": 5, "1": 5}}), FromTime(100)):
        group = group_of()
        group.create([stream], start=where)
        assert group.get_time_window().streams[stream].lower == 100


def test_a_setting_or_a_start_that_a_group_cannot_have_is_refused_by_its_name(group_of: Any, stream: str) -> None:
    with pytest.raises(InvalidConfig, match="on_all_idle cannot be 'jmp'"):
        group_of("g").create([stream], on_all_idle="jmp")
    group = group_of()
    group.create([stream])
    for start in ("head", {"time": 100}, 100):
        for call in (partial(group_of().create, [stream]), group.change):
            with pytest.raises(InvalidConfig, match=r"start cannot be .*: FromHead"):
                call(start=start)


def test_the_window_of_a_group_combines_what_its_readers_report(group: Any, stream: str) -> None:
    first = group.register("r1", {stream: {"0": 0}})
    second = group.register("r2", {stream: {"1": 0}})
    assert first.report({stream: {"0": 10}}).streams[stream].lower is None
    window = second.report({stream: {"1": 5}})
    assert window.streams[stream].lower == 100
    assert window.watermarks[""] == 100
    assert {name: dict(position) for name, position in second.owned.items()} == {stream: {"1": 5}}
    assert group.get_time_window().streams[stream].lower == 100


def test_what_is_wrong_is_the_typed_error(group_of: Any, group: Any, stream: str) -> None:
    with pytest.raises(UnknownGroup) as raised:
        group_of("nobodys").get_time_window()
    assert raised.value.group == "nobodys"
    with pytest.raises(UnknownStream):
        group_of().create(["nowhere"])
    with pytest.raises(InvalidName):
        group_of().register("r/1")
    with pytest.raises(InvalidName):
        ReaderGroup("http://there", "a group")
    reader = group.register("r1", {stream: {"0": 30}})  # who is told of no notes
    with pytest.raises(PositionWentBack, match=r"^'r1' gave offset 20 in segment '0', but has given 30 before"):
        reader.report({stream: {"0": 20}})
    with pytest.raises(InvalidConfig, match=r"^most cannot be -1: a whole number from 0 up"):
        reader.acquire(-1)
    group.delete()
    with pytest.raises(UnknownGroup):
        group.get_time_window()


def test_a_reader_acquires_and_releases_and_its_group_describes_it_with_its_lag(group_of: Any, stream: str) -> None:
    group = group_of()
    start = FromPositions({stream: {"0": 10, "1": 5}})
    group.create([stream], start=start, reader_timeout_ms=None, backlog_threshold_ms=7)
    reader = group.register("r1")
    assert reader.share == 2
    assert reader.acquire(5) == {stream: {"0": 10, "1": 5}}
    assert reader.release({stream: {"1": 6}}) == {stream: {"0": 10}}
    described = group.describe()
    assert (described.streams, described.reader_timeout_ms, described.backlog_threshold_ms) == ((stream,), None, 7)
    assert [(each.reader, each.epoch, each.owned) for each in described.readers] == [
        ("r1", reader.epoch, {stream: {"0": 10}})
    ]
    lags = group.lag().streams[stream]
    assert (lags["0"].behind_ms, lags["0"].reader, lags["1"].behind_ms, lags["1"].reader) == (0, "r1", 100, None)


def test_offline_puts_a_dead_readers_segments_back(group: Any, stream: str) -> None:
    group.register("r1", {stream: {"0": 10, "1": 10}})
    assert group.get_time_window().watermarks[""] == 200
    assert group.offline("r1", {stream: {"0": 5}}).watermarks[""] == 100


def test_a_group_says_where_reading_from_a_time_begins(group: Any, stream: str) -> None:
    assert group.position_at(150) == {stream: PositionAt({"0": 5, "1": 5}, exact=False)}
    between = datetime.fromtimestamp(0.199, UTC) + timedelta(microseconds=500)
    assert group.position_at(between) == group.position_at(199) != group.position_at(200)


def test_what_is_no_time_is_refused_where_one_is_taken(group_of: Any, controller: Any, stream: str) -> None:
    with TimeWindows(controller.url, stream) as windows:
        for call in (windows.position_at, windows.marks_at, windows.wait_until, group_of().position_at, FromTime):
            time: Any
            for time in ("2026", True, 1.5):
                with pytest.raises(InvalidConfig, match=r"time cannot be .*: a whole number of milliseconds"):
                    call(time)
