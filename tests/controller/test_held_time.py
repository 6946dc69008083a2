"""The journal on time: who held it back from when to when, and whom marks left out."""

from __future__ import annotations

from typing import Any

import pytest

from controller.records.cadence import NEW_STILL_MS

pytestmark = pytest.mark.usefixtures("store_url")


CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
STREAM = "/v1/streams/s"


def test_who_held_time_back_is_told_from_when_to_when(controller: Any) -> None:
    #   slow   100 ─────────────────────── 24 s ─ 300
    #   fast        200 (held from here)          marks again: held by slow until here
    controller.call("PUT", STREAM, CONFIG)
    controller.note("slow", 100, {"0": 1})
    controller.note("fast", 100, {"0": 1})
    began = controller.clock.now
    controller.note("fast", 200, {"0": 2})
    controller.pass_time(NEW_STILL_MS - 1)
    controller.note("fast", 201, {"0": 3})
    assert controller.told("holding") == controller.told("held") == []
    controller.pass_time(4_001)
    controller.note("fast", 202, {"0": 3})
    (open_,) = controller.told("holding")
    assert (open_["details"]["writer"], open_["details"]["from"]) == ("slow", began)
    controller.note("slow", 300, {"0": 4})

    (told,) = controller.told("held")

    assert told["details"] == {
        "writer": "slow",
        "key": "",
        "state": "active",
        "time": 100,
        "from": began,
        "to": controller.clock.now,
    }


def test_incomplete_marks_end_with_the_writers_return_also_over_a_restart(start: Any) -> None:
    controller = start()
    controller.call("PUT", STREAM, {**CONFIG, "writer_timeout_ms": None})
    controller.note("a", 100, {"0": 1})
    controller.note("b", 50, {"0": 1})
    controller.call("POST", f"{STREAM}/writers/b/exclude")
    for time in (200, 300):
        controller.note("a", time, {"0": time})
    began = controller.marks(after=1)[0]

    controller = start(after_ms=5_000)
    controller.call("DELETE", f"{STREAM}/writers/b/exclude")
    controller.note("b", 400, {"0": 400})
    controller.note("a", 400, {"0": 401})

    kinds = [(each["kind"], each["details"]) for each in controller.told("incomplete")]
    assert [kind for kind, _ in kinds] == ["incomplete", "incomplete_ended"]
    over = kinds[1][1]
    assert (over["excluded"], over["from_seq"], over["from"]) == (["b"], 2, began["created_at"])
    assert (over["to_seq"], over["to_time"], over["to"]) == (3, 300, controller.clock.now)
