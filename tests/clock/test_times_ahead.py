"""Times that are ahead of the controller's clock, as those of a writer whose own clock is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.served import NOON, InProcess, ManualClock

MINUTE = 60_000
FIVE_MINUTES = 5 * MINUTE


@pytest.fixture
def served(tmp_path: Path) -> Iterator[InProcess]:
    with InProcess(tmp_path / "store.db", ManualClock()) as controller:
        create(controller)
        yield controller


def create(served: InProcess, name: str = "s", **settings: Any) -> None:
    served.call("PUT", f"/v1/streams/{name}", {"segments": 1, "mark_interval_ms": 0, **settings})


def reason(served: InProcess) -> str:
    return str(served.call("GET", "/v1/status")["streams"][0]["reason"])


def test_from_five_minutes_ahead_of_the_clock_the_answer_says_by_how_much(served: InProcess) -> None:
    assert "ahead_ms" not in served.note("w", NOON + FIVE_MINUTES - 1, {"0": 1})
    assert served.note("w", NOON + FIVE_MINUTES, {"0": 2})["ahead_ms"] == FIVE_MINUTES


def test_from_five_minutes_ahead_of_the_clock_the_state_of_the_stream_says_so(served: InProcess) -> None:
    served.note("w", NOON + FIVE_MINUTES - 1, {"0": 1})
    assert reason(served) == "time moves"
    served.clock.now += MINUTE
    served.note("w", NOON + MINUTE + FIVE_MINUTES, {"0": 2})
    assert reason(served) == "time moves; its time is 5 min 0 s ahead of the clock"


def test_an_answer_by_key_has_the_keys_that_are_ahead(served: InProcess) -> None:
    served.call("PATCH", "/v1/streams/s", {"max_ahead_ms": None})
    times = {"order_time": NOON, "ship_time": NOON + 10 * MINUTE}
    answer = served.call("POST", "/v1/streams/s/notes", {"writer": "w", "times": times, "position": {"0": 1}})
    assert answer["ahead_ms"] == {"ship_time": 10 * MINUTE}


def test_among_many_notes_only_those_that_are_ahead_say_so(served: InProcess) -> None:
    served.call("PATCH", "/v1/streams/s", {"max_ahead_ms": 10 * MINUTE})
    notes = [
        {"writer": f"w{minutes}", "time": NOON + minutes * MINUTE, "position": {"0": 1}} for minutes in (7, 1, 6, 2)
    ]
    results = served.call("POST", "/v1/streams/s/notes", {"notes": notes})["results"]
    assert [each.get("ahead_ms") for each in results] == [7 * MINUTE, None, 6 * MINUTE, None]


def test_times_that_are_no_dates_are_ahead_of_no_clock(served: InProcess) -> None:
    create(served, "counted", max_ahead_ms=None)
    for time in (1_000, 10**15):
        assert "ahead_ms" not in served.note("w", time, {"0": time}, "counted")


def test_in_the_ingestion_domain_the_clock_bounds_what_counts_and_nothing_is_ahead(served: InProcess) -> None:
    create(served, "logs", time_domain="ingestion")
    assert "ahead_ms" not in served.note("w", NOON + 10 * MINUTE, {"0": 1}, "logs")
