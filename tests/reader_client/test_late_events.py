"""Late events are told, or go to an output of their own."""

from __future__ import annotations

from typing import Any

import pytest

from reader_client import EventReader
from strandline.errors import InvalidConfig
from tests.reader_client.event_readers import read, reading, time_of, until


def late_world(written: Any) -> Any:
    """An event at 3 comes after 10 was noted: by a writer that did not keep its word."""
    world = written(1)
    world.write(("0", 5))
    world.note(10)
    return world


def test_late_events_can_go_to_an_output_of_their_own(written: Any) -> None:
    written = late_world(written)
    late: list[int | None] = []
    options: dict[str, Any] = {"event_time": time_of, "on_late": lambda item: late.append(item.time)}
    with reading(written, written.group(), **options) as reader:
        assert until(reader, 5) == [5]
        while reader.window is None or reader.window.watermarks.get("") != 10:
            reader.read(20)
        written.write(("0", 3), ("0", 10), ("0", 12), ("0", 4))  # 10 is the watermark itself
        assert until(reader, 12) == [10, 12]
        assert read(reader, 50) == []
        assert (late, reader.late.total, reader.positions) == ([3, 4], 2, {written.stream: {"0": 5}})


def test_an_output_for_late_events_needs_to_know_their_times() -> None:
    with pytest.raises(InvalidConfig, match="event_time"):
        EventReader("http://there", "g", "r1", {}, time_domain="event", on_late=print)
