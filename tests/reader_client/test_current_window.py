"""`get_time_window` tells where the group stands with all that a reader has handed out, and not where it stood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reader_client import EventItem, ReaderGroup
from tests.reader_client.event_readers import reading, until


@pytest.fixture
def ten(written_anywhere: Any) -> Any:
    """Ten events, and marks at 5 and at 10 among them."""
    written = written_anywhere(1)
    written.write(*[("0", time) for time in range(5)])
    written.note(5)
    written.write(*[("0", time) for time in range(5, 10)])
    written.note(10)
    return written


def test_the_window_is_as_fresh_as_the_last_event(ten: Any, event_reader: Callable[..., Any]) -> None:
    reader = event_reader(ten.controller.url, ten.group(), "r1", {ten.stream: ten.open()}, report_ms=60_000)
    bounds = []
    for _ in range(10):
        item = reader.read(20_000)
        assert isinstance(item, EventItem)
        window = reader.get_time_window()
        bounds.append((window.lower, window.upper))
    assert bounds == [(None, 5)] * 4 + [(5, 10)] * 5 + [(10, None)]
    ten.note(20)
    assert reader.get_time_window().lower == 20
    assert reader.window.lower == 20
    reader.close()


def test_who_has_read_nothing_yet_is_told_where_the_group_stands(ten: Any, event_reader: Callable[..., Any]) -> None:
    reader = event_reader(ten.controller.url, ten.group(), "r1", {ten.stream: ten.open()})
    assert reader.window is None
    window = reader.get_time_window()
    assert (window.lower, window.upper) == (None, 5)
    reader.close()


def test_asking_settles_nothing(ten: Any) -> None:
    """The event that was handed out last is read, and if its reader dies it is read again."""
    group = ten.group()
    with pytest.raises(RuntimeError), reading(ten, group, report_ms=60_000) as reader:
        for _ in range(10):
            reader.read(20_000)
        assert reader.get_time_window().lower == 10
        assert (reader.positions, reader.settled) == ({ten.stream: {"0": 10}}, {ten.stream: {"0": 9}})
        raise RuntimeError("its work failed")
    with reading(ten, group, "r2") as reader:
        assert until(reader, 9) == [9]


def test_a_registered_reader_and_its_group_are_told_the_same(ten: Any) -> None:
    with ReaderGroup(ten.controller.connection, ten.group()) as group:
        reader = group.register("r1", {ten.stream: {"0": 0}})
        assert reader.report({ten.stream: {"0": 10}}, {ten.stream: {"0": 3}}).lower == 10
        assert reader.get_time_window().watermarks == group.get_time_window().watermarks == {"": 10}
        ten.note(20)
        assert reader.get_time_window().lower == 20
        (member,) = group.describe().readers
        assert (member.owned, member.settled) == ({ten.stream: {"0": 10}}, {ten.stream: {"0": 3}})
        assert reader.release({ten.stream: {"0": 10}}, {ten.stream: {"0": 3}}) == {}
        assert reader.acquire() == {ten.stream: {"0": 3}}


def test_holding_back_an_acknowledgement_does_not_hold_back_time(ten: Any, event_reader: Callable[..., Any]) -> None:
    group, logs = ten.group(), {ten.stream: ten.open()}
    options = {"time_domain": "event", "acknowledge": True, "report_ms": 10}
    reader = event_reader(ten.controller.url, group, "r1", logs, **options)
    assert until(reader, "W10")[-1] == "W10"  # and nothing was acknowledged
    assert reader.settled == {ten.stream: {"0": 0}}
    reader.close()
    again = event_reader(ten.controller.url, group, "r2", logs, **options)
    assert [item for item in until(again, 9) if item != "W5"] == list(range(10))  # which may come before the last event
    again.close()
