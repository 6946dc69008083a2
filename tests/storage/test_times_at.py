"""Which time a stream had in the past, from its stored marks."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.served import InProcess, ManualClock

MARKS = 120


@pytest.fixture
def served(store_url: str) -> Any:
    with InProcess(store_url, ManualClock()) as controller:
        yield controller


def test_the_past_is_that_of_the_marks_whenever_somebody_looks(served: InProcess) -> None:
    draw, clock = random.Random(5), served.app.state.controller.clock
    served.call("PUT", "/v1/streams/s", {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None})
    served.call("PUT", "/v1/streams/none", {"segments": 1})
    began, reading = clock.now(), served.app.state.controller.reading

    def look() -> list[list[int | None]]:
        asked = (("s", ""), ("none", ""), ("s", "no-key"))
        return [served.portal.call(reading.times_at, *each, moments) for each in asked]

    moments: list[int] = []
    first = look()
    for turn in range(MARKS):
        served.note("w", turn, {"0": turn})
        served.pass_time(draw.choice([0, 1, 7, 500, 20_000]))
        if turn == MARKS // 2:
            drawn = [draw.randrange(began - 10_000, clock.now()) for _ in range(80)]
            moments = sorted([*drawn, *(mark["created_at"] for mark in served.marks()[:20])])
            first = look()
    marks = [(each["created_at"], each["time"]) for each in served.marks()]
    naive = [max((time for made_at, time in marks if made_at <= moment), default=None) for moment in moments]
    assert first == look() == [naive, [None] * 100, [None] * 100]
    assert served.portal.call(reading.oldest_mark, "s", "") == marks[0][0]
