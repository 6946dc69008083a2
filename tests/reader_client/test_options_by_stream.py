"""Options of a reader of several streams that each stream has for itself."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from reader_client import EventReader, ReaderGroup
from strandline.client import calls
from strandline.errors import InvalidConfig
from strandline.logs import Event, StoredEvent
from tests.reader_client.event_readers import QUICK, next_of, until


def read_from(written: Any) -> tuple[Any, Any, str, dict[str, Any]]:
    """Two streams, a group that reads them, and their logs."""
    orders, clicks = written(1), written(1)
    group = f"both-{orders.stream}"
    with ReaderGroup(orders.controller.connection, group) as created:
        created.create([orders.stream, clicks.stream])
    return orders, clicks, group, {each.stream: each.open() for each in (orders, clicks)}


def test_each_stream_has_its_own_function_for_the_time_and_the_writer_of_an_event(written: Any) -> None:
    orders, clicks, group, logs = read_from(written)
    for world, value in ((orders, b"5 ada"), (clicks, b"bob,5")):
        world.log.append([Event(value, segment="0")])
        world.note(10)

    def words(event: StoredEvent) -> list[str]:
        return (event.value or b"").decode().split()

    def fields(event: StoredEvent) -> list[str]:
        return (event.value or b"").decode().split(",")

    options: dict[str, Any] = {
        "event_time": {orders.stream: lambda event: int(words(event)[0]), clicks.stream: lambda e: int(fields(e)[1])},
        "writer_of": {orders.stream: lambda event: words(event)[1], clicks.stream: lambda event: fields(event)[0]},
    }
    with EventReader(
        orders.controller.connection, group, "r1", logs, time_domain="event", **options, **QUICK
    ) as reader:
        assert {next_of(reader).time, next_of(reader).time} == {5}
        while next_of(reader).watermark != 10:
            pass
        for world, value in ((orders, b"6 ada"), (clicks, b"bob,7"), (clicks, b"bob,8")):
            world.log.append([Event(value, segment="0")])
        assert sorted(next_of(reader).time for _ in range(3)) == [6, 7, 8]
        assert dict(reader.late.by_writer) == {"ada": 1, "bob": 2}


#   orders   100 less 30     70 ◄ the least
#   clicks    90 less  0     90                 one lag for both would give 60
def test_each_stream_has_its_own_lag_and_the_watermark_is_the_least_of_what_is_left(written: Any) -> None:
    orders, clicks, group, logs = read_from(written)
    orders.note(100)
    clicks.note(90)
    lags = {orders.stream: 30, clicks.stream: 0}
    options: dict[str, Any] = {"time_domain": "event", "max_event_time_lag_ms": lags, **QUICK}
    with EventReader(orders.controller.connection, group, "r1", logs, **options) as reader:
        assert until(reader, "W70") == ["W70"]
        orders.controller.run(calls.idle(orders.stream, "w1"))
        clicks.note(120)
        assert until(reader, "W120") == ["W120"]  # orders are idle, and neither their time nor their lag counts


def test_each_stream_has_its_own_unit_and_a_fraction_is_rounded_down(written: Any) -> None:
    orders, clicks, group, logs = read_from(written)
    orders.log.append([Event(b"1.001", segment="0"), Event(b"9.9996", segment="0")])
    clicks.log.append([Event(b"10000", segment="0"), Event(b"nan", segment="0")])
    options: dict[str, Any] = {
        "event_time": {orders.stream: lambda e: Decimal(e.value.decode()), clicks.stream: lambda e: float(e.value)},
        "time_unit": {orders.stream: "s", clicks.stream: "ms"},
    }
    with EventReader(orders.controller.connection, group, "r1", logs, **options, **QUICK) as reader:
        assert sorted(next_of(reader).time for _ in range(3)) == [1_001, 9_999, 10_000]
        with pytest.raises(InvalidConfig, match="event_time cannot be nan"):
            next_of(reader)


@pytest.mark.parametrize("given", ["2026-03-01T12:00:00Z", 1796021319.172, True, None])
def test_what_is_no_time_without_a_unit_is_refused_with_what_would_be_right(written: Any, given: Any) -> None:
    world = written(1)
    world.write(("0", 1))
    with (
        EventReader(
            world.controller.connection, world.group(), "r1", {world.stream: world.open()}, event_time=lambda _: given
        ) as reader,
        pytest.raises(InvalidConfig, match=r'with time_unit="s" seconds, .* datetime\.fromisoformat\('),
    ):
        next_of(reader)
    with pytest.raises(InvalidConfig, match=r'time_unit cannot be .*: "s", "ms", "us", "ns"'):
        reader_with({"orders": LOG}, {"time_unit": "sec"})


LOG = SimpleNamespace(rows=None)  # nothing reads it


def reader_with(logs: dict[str, Any], options: dict[str, Any]) -> EventReader:
    return EventReader("http://there", "g", "r1", logs, **options)


@pytest.mark.parametrize("name", ["event_time", "time_unit", "writer_of", "max_event_time_lag_ms"])
def test_a_mapping_has_exactly_the_streams_of_the_logs(name: str) -> None:
    value: Any = {"max_event_time_lag_ms": 5, "time_unit": "s"}.get(name, int)
    logs: dict[str, Any] = dict.fromkeys(["orders", "clicks"], LOG)
    for streams in (["orders"], ["orders", "clicks", "orderz"]):
        wanted = rf"{name} cannot be .*one value for all streams, or one for each of \['clicks', 'orders'\]"
        with pytest.raises(InvalidConfig, match=wanted):
            reader_with(logs, {name: dict.fromkeys(streams, value)})
    reader_with(logs, {name: dict.fromkeys(logs, value)})
    with pytest.raises(InvalidConfig, match="max_event_time_lag_ms"):
        reader_with(logs, {"max_event_time_lag_ms": {"orders": 5, "clicks": -1}})


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"state": "count.state"}, "state cannot be 'count.state': a ReaderState, as ReaderState.read"),
        ({"event_time": "time"}, "event_time cannot be 'time': a function from an event to its time"),
        ({"event_time": {"orders": "time"}}, "event_time cannot be 'time': a function"),
        ({"writer_of": 5}, "writer_of cannot be 5: a function"),
        ({"backlog": "x"}, "backlog cannot be 'x': GroupBacklog"),
        ({"time_domain": "wall"}, "processing"),
        ({"time_domain": "event", "on_late": print}, "event_time"),
        (
            {"time_domain": "event", "on_incomplete": "stop"},
            r"on_incomplete cannot be 'stop'.*\"go_on\", \"wait\", \"fail\"",
        ),
        ({"on_incomplete": "wait"}, "time_domain"),
    ],
)
def test_what_no_reader_can_do_is_refused_at_once(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InvalidConfig, match=wrong):
        reader_with({"orders": LOG}, options)


def test_a_log_of_a_writer_is_refused_at_once(written: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"logs cannot be .*an open log for each stream.*SqliteLogReader"):
        reader_with({"orders": written(1).log}, {})
