"""One watermark over several streams never goes back, whoever falls asleep or wakes, but after `offline`."""

from __future__ import annotations

from typing import Any

import pytest

CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": None}
GROUP = "/v1/reader-groups/g"


@pytest.fixture
def database(store_url: str) -> str:
    return store_url


@pytest.fixture
def group(controller: Any) -> Any:
    """A group that has read the streams s and t up to 100 and 200."""
    return with_group(controller)


def with_group(controller: Any) -> Any:
    for stream, time in (("s", 100), ("t", 200)):
        controller.call("PUT", f"/v1/streams/{stream}", CONFIG)
        controller.note("a", time, {"0": 1}, stream)
    controller.call("PUT", GROUP, {"streams": ["s", "t"]})
    controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 1}, "t": {"0": 1}}})
    return controller


def watermark(controller: Any) -> int | None:
    found: int | None = controller.call("GET", f"{GROUP}/time-window")["watermarks"][""]
    return found


def idle(controller: Any, stream: str) -> None:
    controller.call("POST", f"/v1/streams/{stream}/writers/a/idle")


def test_a_stream_waking_with_an_older_time_moves_nothing_back(start: Any) -> None:
    controller = with_group(start())
    idle(controller, "s")
    assert watermark(controller) == 200

    controller.note("a", 150, {"0": 2}, "s")
    assert watermark(controller) == 200
    controller = start()
    assert watermark(controller) == 200

    controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 2}}, "epoch": 1})
    controller.note("a", 300, {"0": 2}, "t")
    controller.note("a", 300, {"0": 2}, "s")
    controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 2}, "t": {"0": 2}}, "epoch": 1})
    assert watermark(controller) == 300


def note_on_s(controller: Any, time: int, offset: int) -> tuple[bool, int | None]:
    answer = controller.note("a", time, {"0": offset}, "s")
    return answer["late"], answer.get("floor")


def test_a_writer_that_comes_back_is_told_how_far_the_group_went_without_it(start: Any) -> None:
    controller = with_group(start())
    idle(controller, "s")
    assert watermark(controller) == 200
    controller = start()  # what readers know, the writer is told after a restart too

    assert controller.call("PUT", "/v1/streams/s/writers/new")["floor"] == 200
    told = [note_on_s(controller, time, offset) for time, offset in ((150, 2), (200, 3), (250, 4))]
    assert told == [(True, 200), (False, 200), (False, None)]
    assert controller.note("a", 201, {"0": 2}, "t")["late"] is False


def test_a_stream_that_counts_is_not_told_where_the_group_stands(group: Any) -> None:
    group.note("a", 300, {"0": 2}, "t")
    assert watermark(group) == 100
    idle(group, "t")  # which the group has not read to its end
    assert watermark(group) == 100
    assert note_on_s(group, 150, 2) == (False, None)
    assert group.call("PUT", "/v1/streams/t/writers/new")["floor"] == 300
