"""When each segment was last noted outlives a restart: exactly after an orderly one, else to within a minute."""

from typing import Any

from controller.streams.loaded_stream import NOTED_AT_MS
from tests.storage.loads import load_stream

CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": None}


def noted(controller: Any) -> dict[str, int | None]:
    return {each["id"]: each["last_noted_at"] for each in controller.call("GET", "/v1/streams/s")["segments"]}


def test_an_orderly_restart_loses_nothing(start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    first = controller.clock.now
    controller.note("a", 1, {"0": 1})
    assert noted(controller) == {"0": first, "1": None}
    controller.clock.now += 5_000
    controller.note("a", 2, {"1": 1})

    for _ in range(2):
        assert noted(start(after_ms=5_000)) == {"0": first, "1": first + 5_000}


def test_a_crash_loses_a_minute_at_most_and_not_that_a_segment_was_noted(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.clock.now += NOTED_AT_MS
    at = controller.clock.now
    controller.note("a", 1, {"0": 1})
    controller.clock.now += NOTED_AT_MS - 1
    controller.note("a", 2, {"0": 2})
    assert controller.portal.call(stored, controller).noted_at == {"0": at}
    controller.note("a", 3, {"0": 3, "1": 1})
    assert controller.portal.call(stored, controller).noted_at == {"0": at, "1": at + NOTED_AT_MS - 1}


async def stored(controller: Any) -> Any:
    """The stream as one would find it who loads it now."""
    return await controller.app.state.controller.store.read(load_stream, "s")
