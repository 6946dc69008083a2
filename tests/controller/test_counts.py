"""What was counted of a stream, and when each segment was last noted, outlives a restart: exactly after an orderly one,
else to within a minute."""

from typing import Any

import pytest

from controller.records.counts import COUNTED_WRITERS, OTHER, STORED_COUNTS_WRITERS, StreamCounts
from controller.storage.stream_status import StoredCounts
from controller.streams.loaded_stream import STATUS_MS
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


def test_a_crash_loses_the_counts_of_a_second_at_most_and_loading_none(
    controller: Any,
) -> None:
    controller.call("PUT", STREAM, CONFIG)
    controller.note("a", 1, {})
    controller.clock.now += 10 * STATUS_MS  # on a slow machine it is longer until the next: see STATUS_PART
    controller.note("a", 2, {})
    controller.clock.now += STATUS_MS - 1
    controller.note("a", 3, {})

    as_stored = controller.portal.call(controller.app.state.controller.store.read, load_stream, "s")
    assert as_stored.counts.totals.notes == 2
    controller.app.state.controller.streams.find_loaded("s").discard()

    assert counted(controller)["notes"] == 3


def test_of_very_many_writers_the_store_keeps_the_counts_of_those_with_the_greatest() -> None:
    counts = StreamCounts()
    for number in range(COUNTED_WRITERS + 5):
        counts.late(f"w{number}")
    counts.late("w7")
    kept = counts.stored().late_by_writer

    assert len(kept) <= STORED_COUNTS_WRITERS + 1 and kept["w7"] == 2
    assert sum(kept.values()) == counts.late_notes == COUNTED_WRITERS + 6

    again = StreamCounts()
    for _ in range(2):
        again.resume(counts.stored())
        assert (again.totals, again.late_by_writer[OTHER]) == (counts.totals, kept[OTHER])


def test_counts_of_drawn_names_are_bounded_also_while_nothing_can_be_stored() -> None:
    counts = StreamCounts()
    for number in range(2 * COUNTED_WRITERS):
        counts.refuse("fenced", f"drawn-{number}")
    counts.resume(StoredCounts())  # it was loaded again

    assert len(counts.refused_by_writer) <= COUNTED_WRITERS + 1
    assert counts.refused_by_writer.total() == 2 * COUNTED_WRITERS
