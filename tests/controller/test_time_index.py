"""Offset and time within a segment, wherever its marks are."""

from __future__ import annotations

from typing import Any

import pytest

CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None}
PATH = "/v1/streams/s/segments/{}/time-index"


def index(controller: Any, segment: str = "0", **query: Any) -> tuple[list[tuple[int, int]], int]:
    answer = controller.request("GET", PATH.format(segment), params=query)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return [(each["offset"], each["time"]) for each in found["entries"]], found["token"]


def test_entries_rise_and_a_token_continues_the_last_call(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    assert index(controller) == ([], 0)
    for time, offset in ((100, 10), (200, 10), (300, 30), (400, 40)):
        controller.note("a", time, {"0": offset, "1": 7})

    assert index(controller) == ([(10, 200), (30, 300), (40, 400)], 4)
    assert index(controller, limit=1) == ([(10, 200)], 2)
    assert index(controller, token=2, limit=1) == ([(30, 300)], 3)
    assert index(controller, token=4) == ([], 4)
    assert index(controller, from_offset=35)[0] == [(30, 300), (40, 400)]
    assert index(controller, "1")[0] == [(7, 400)]
    assert index(controller, key="other") == ([], 0)


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


def test_a_log_that_is_older_than_its_stream_has_no_bound_before_the_first_mark(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 1, "time_domain": "ingestion", "mark_interval_ms": 0})
    assert index(controller) == ([], 0)
    controller.clock.now += 1_000
    now = controller.clock.now
    controller.call("POST", "/v1/streams/s/tail", {"reporter": "tail", "time": now, "position": {"0": 5}})

    assert index(controller) == ([(5, now)], 1)  # the five may have been appended before the stream was made


@pytest.mark.parametrize(
    ("segment", "query", "status", "code"),
    [
        ("9", {}, 422, "unknown_segment"),
        ("0", {"token": 1}, 422, "unknown_seq"),
        ("0", {"token": -1}, 422, "invalid_parameter"),
        ("0", {"from_offset": -1}, 422, "invalid_parameter"),
        ("0", {"from_offset": 2**53}, 422, "invalid_parameter"),
        ("0", {"limit": 0}, 422, "invalid_parameter"),
        ("0", {"limit": 1_001}, 422, "invalid_parameter"),
        ("0", {"key": "a b"}, 422, "invalid_name"),
    ],
)
def test_bad_questions_are_problems(
    controller: Any, segment: str, query: dict[str, Any], status: int, code: str
) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)

    answer = controller.request("GET", PATH.format(segment), params=query)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
