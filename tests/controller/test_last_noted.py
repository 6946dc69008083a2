"""When each segment was last noted outlives a restart: exactly after an orderly one, else to within a minute."""

from typing import Any

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
