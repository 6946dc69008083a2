"""What was counted of a stream, and when each segment was last noted, outlives a restart: exactly after an orderly one,
else to within a minute."""

from typing import Any

import pytest

from controller.streams.standing import standing_of
from tests.operations.scraping import scrape
from tests.storage.loads import load_stream

STREAM = "/v1/streams/s"
CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": 60_000}
NOTHING = {"notes": 0, "late_notes": 0, "refusals": {}, "incomplete_marks": 0}


@pytest.fixture
def database(store_url: str) -> str:
    return store_url


def counted(controller: Any) -> dict[str, Any]:
    controller.call("GET", STREAM)  # loads it: the status waits shortly for that
    (found,) = controller.call("GET", "/v1/status?stream=s")["streams"]
    return {name: found[name] for name in NOTHING if name in found} | {
        "incomplete_marks": found["keys"][""]["incomplete_marks"]
    }


def noted(controller: Any) -> dict[str, int | None]:
    return {each["id"]: each["last_noted_at"] for each in controller.call("GET", STREAM)["segments"]}


def refused(controller: Any, time: int) -> None:
    controller.call("POST", f"{STREAM}/notes", {"writer": "b", "time": time, "position": {}}, expect=409)


def test_counts_go_on_over_orderly_restarts_and_are_gone_with_their_stream(start: Any) -> None:
    controller = start()
    controller.call("PUT", STREAM, CONFIG)
    controller.note("a", 10, {"0": 1})
    controller.note("b", 10, {"0": 1})
    refused(controller, 9)
    controller.pass_time(60_000)
    controller.note("b", 20, {"0": 2})
    controller.note("a", 11, {"0": 3})
    now, last_noted = counted(controller), noted(controller)
    assert last_noted == {"0": controller.clock.now, "1": None}
    assert now == {"notes": 4, "late_notes": 1, "refusals": {"time_went_back": 1}, "incomplete_marks": 1}

    for _ in range(2):
        controller = start(after_ms=5_000)
        assert (counted(controller), noted(controller)) == (now, last_noted)
        assert controller.call("GET", "/v1/status")["counts"]["notes"] == 4
        assert scrape(controller).value("stream_notes_total", stream="s") == 0  # as Prometheus expects it

    refused(controller, 19)
    assert counted(start())["refusals"] == {"time_went_back": 2}  # no note was taken since

    controller = start()
    controller.call("DELETE", STREAM)
    controller.call("PUT", STREAM, CONFIG)
    assert counted(controller) == NOTHING


def test_a_crash_loses_no_count_of_a_note_that_was_answered(controller: Any) -> None:
    controller.call("PUT", STREAM, CONFIG)
    controller.note("a", 1, {})
    controller.note("a", 2, {})
    controller.note("b", 1, {})
    controller.note("a", 3, {})

    as_stored = controller.portal.call(controller.app.state.controller.store.read, load_stream, "s")
    totals = standing_of("s", as_stored.standing).totals
    assert (totals.notes, totals.late_notes) == (4, 1)
    controller.app.state.controller.streams.find_loaded("s").discard()
    assert counted(controller)["notes"] == 4


def test_refusals_are_written_though_no_note_is_taken_and_the_journal_takes_no_more(controller: Any) -> None:
    controller.call("PUT", STREAM, CONFIG)
    controller.note("b", 10, {})
    for _ in range(100):
        refused(controller, 9)
    controller.pass_time(1_000)
    as_stored = controller.portal.call(controller.app.state.controller.store.read, load_stream, "s")
    assert standing_of("s", as_stored.standing).totals.refusals == {"time_went_back": 100}
