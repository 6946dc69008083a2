"""Offset and time within a segment, wherever its marks are. tests/time_index has the rules."""

from __future__ import annotations

from typing import Any

CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None}
PATH = "/v1/streams/s/segments/{}/time-index"


def index(controller: Any, segment: str = "0", **query: Any) -> tuple[list[tuple[int, int]], int]:
    answer = controller.request("GET", PATH.format(segment), params=query)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return [(each["offset"], each["time"]) for each in found["entries"]], found["token"]


def test_marks_in_the_store_are_looked_up_like_those_in_memory(start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    notes = [{"writer": "a", "time": 10 * n, "position": {"0": 10 * n, "1": n // 100}} for n in range(1, 1001)]
    controller.call("POST", "/v1/streams/s/notes", {"notes": notes})
    asked: list[dict[str, Any]] = [{"from_offset": offset} for offset in (0, 5, 10, 1_234, 7_440, 7_450, 9_999, 20_000)]
    asked += [{"token": token} for token in (0, 1, 500, 743, 744, 745, 1000)]
    asked += [{"segment": "1", "from_offset": offset} for offset in (0, 1, 7, 8)]

    def all_of_it() -> list[Any]:
        return [index(controller, **{"limit": 7, **each}) for each in asked]

    in_memory = all_of_it()
    controller = start()  # which has but the newest in memory

    assert all_of_it() == in_memory
    entries: list[tuple[int, int]] = []
    token = 0
    while page := (found := index(controller, token=token, limit=300))[0]:
        entries, token = entries + page, found[1]
    assert entries == [(10 * n, 10 * n) for n in range(1, 1001)]
    assert index(controller, token=1000) == ([], 1000) and index(controller, key="other") == ([], 0)
