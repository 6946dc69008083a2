"""`GET /v1/status`: one census of streams, reader groups and the controller."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from controller.records.cadence import NEW_STILL_MS
from controller.status.memo import MEMO_MS
from tests.served import NOON, InProcess

SETTINGS = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None}


def status(controller: InProcess, query: str = "") -> Any:
    """How it is now: tests do not move the clock between a call and the question what became of it."""
    controller.app.state.controller.status.forget()
    return controller.call("GET", f"/v1/status{query}")


def create(controller: InProcess, *names: str, **settings: Any) -> None:
    for name in names:
        controller.call("PUT", f"/v1/streams/{name}", {**SETTINGS, **settings})


def names(answer: Any) -> list[str]:
    return [each["stream"] for each in answer["streams"]]


@pytest.fixture
def troubled(controller: InProcess) -> InProcess:
    """`stuck` is held back by `slow`, `incomplete` leaves `lost` out; `calm` and `sealed` are fine."""
    create(controller, "calm", "incomplete", "sealed", "stuck")
    controller.call("PUT", "/v1/reader-groups/readers", {"streams": ["stuck"], "backlog_threshold_ms": 1_000})
    for stream, writer in (("stuck", "slow"), ("incomplete", "lost"), ("sealed", "w")):
        controller.note(writer, NOON, {"0": 1}, stream)
    controller.call("POST", "/v1/streams/sealed/seal", {})
    controller.call("POST", "/v1/streams/incomplete/writers/lost/exclude")
    controller.note("fast", NOON + 9_000, {"1": 1}, "stuck")
    controller.note("kept", NOON + 10, {}, "incomplete")
    controller.pass_time(20_000)
    controller.note("w", NOON + 20_000, {}, "calm")
    controller.note("fast", NOON + 20_000, {"1": 2}, "stuck")
    controller.note("kept", NOON + 20_000, {}, "incomplete")
    return controller


def test_it_shows_each_stream_with_its_trouble_holder_and_lag(troubled: InProcess) -> None:
    told = status(troubled)
    by_name = {each["stream"]: each for each in told["streams"]}

    assert told["at"] == troubled.app.state.controller.clock.now()
    assert names(told) == ["calm", "incomplete", "sealed", "stuck"] and told["next"] is None
    assert {name: each["trouble"] for name, each in by_name.items()} == {
        "calm": None,
        "incomplete": "incomplete",
        "sealed": None,
        "stuck": "stuck",
    }
    stuck = by_name["stuck"]
    assert (stuck["since"], stuck["lag_ms"], stuck["writers"]) == (NOON, 20_000, {"active": 2})
    assert stuck["held_by"][""] == {
        "writer": "slow",
        "state": "active",
        "time": NOON,
        "last_heard_ms_ago": 20_000,
        "released_in_ms": 580_000,
    }
    key = by_name["incomplete"]["keys"][""]
    assert (key["complete"], key["excluded"], key["excluded_writers"], key["incomplete_marks"]) == (
        False,
        ["lost"],
        1,
        2,
    )
    assert by_name["sealed"]["sealed"] and by_name["sealed"]["lag_ms"] is None


def test_it_begins_with_numbers_over_all_streams(troubled: InProcess) -> None:
    told = status(troubled, "?limit=1")

    assert told["trouble"] == {"stalled": 0, "stuck": 1, "held": 0, "incomplete": 1, "none": 2}
    assert told["states"] == {"sealed": 1, "fine": 1, "incomplete": 1, "stuck": 1}
    counts = told["counts"]
    assert (counts["streams"], counts["in_memory"], counts["sealed"], counts["writers"]) == (4, 4, 1, 6)
    assert (counts["notes"], counts["reader_groups"], counts["in_backlog"]) == (8, 1, 1)
    assert told["controller"]["ready"] and told["controller"]["reason"] is None
    assert told["controller"]["since"] <= NOON


def test_those_in_trouble_come_worst_first(troubled: InProcess) -> None:
    assert names(status(troubled, "?trouble=true")) == ["stuck", "incomplete"]
    assert names(status(troubled, "?trouble=true&limit=1")) == ["stuck"]
    assert names(status(troubled, "?trouble=true&stream=incomplete&stream=calm")) == ["incomplete"]
    refused = troubled.call("GET", "/v1/status?trouble=true&after=calm", expect=422)
    assert refused["code"] == "invalid_parameter"


def test_each_state_comes_with_its_age_and_a_reason(troubled: InProcess) -> None:
    by_name = {each["stream"]: each for each in status(troubled)["streams"]}

    assert {name: (each["state"], each["state_since"], each["reason"]) for name, each in by_name.items()} == {
        "calm": ("fine", NOON + 20_000, "time moves"),
        "incomplete": ("incomplete", NOON, "marks leave out lost"),
        "sealed": ("sealed", NOON, "the stream is sealed: no mark follows"),
        "stuck": ("stuck", NOON, "slow holds the others back for 20 s, silent for 20 s"),
    }
    key = by_name["stuck"]["keys"][""]
    assert (key["state"], key["usual_ms"], key["too_long_ms"]) == ("stuck", None, NEW_STILL_MS)


def test_groups_come_with_the_streams_that_they_read(troubled: InProcess) -> None:
    (group,) = status(troubled)["groups"]

    assert (group["group"], group["streams"], group["backlog"]) == ("readers", ["stuck"], True)
    assert group["lag_ms"] is None and group["held_by"] == {"": "stuck"}
    assert status(troubled, "?stream=calm")["groups"] == [] != status(troubled, "?stream=stuck")["groups"]


def test_a_named_group_comes_with_or_without_streams(troubled: InProcess) -> None:
    alone, beside = status(troubled, "?group=readers&group=nowhere"), status(troubled, "?stream=calm&group=readers")

    assert [each["group"] for each in alone["groups"]] == ["readers"] and alone["streams"] == []
    assert [each["group"] for each in beside["groups"]] == ["readers"] and names(beside) == ["calm"]
    assert alone["groups"][0]["bounds"] == {"stuck": {"": {"lower": None, "upper": NOON, "complete": True}}}
    assert (alone["counts"]["streams"], alone["counts"]["reader_groups"]) == (0, 1)


def test_named_streams_are_all_that_it_tells_of(troubled: InProcess) -> None:
    told = status(troubled, "?stream=stuck&stream=calm&stream=nowhere&stream=calm")

    assert names(told) == ["calm", "stuck"] and told["unread"] == {}
    assert (told["counts"]["streams"], told["trouble"]["stuck"]) == (2, 1)
    assert status(troubled, "?stream=stuck&stream=calm&limit=1")["next"] == "calm"
    assert names(status(troubled, "?stream=stuck&stream=calm&limit=1&after=calm")) == ["stuck"]
    assert troubled.call("GET", "/v1/status?stream=a%20b", expect=422)["code"] == "invalid_name"


def test_a_stream_that_was_made_again_is_not_shown_as_it_was(controller: InProcess) -> None:
    create(controller, "s")
    controller.note("w", NOON, {})
    assert controller.call("GET", "/v1/status?stream=s")["streams"][0]["writers"] == {"active": 1}
    controller.call("DELETE", "/v1/streams/s")
    assert controller.call("GET", "/v1/status?stream=s")["streams"] == []
    create(controller, "s")
    assert controller.call("GET", "/v1/status?stream=s")["streams"][0]["writers"] == {}


def test_streams_unused_since_the_start_are_shown_and_none_is_loaded(start: Any) -> None:
    every = [f"s{number:03}" for number in range(120)]
    create(before := start(), *every)
    before.note("w", NOON, {"0": 1}, "s007")
    before.pass_time(10_000)
    known = status(before, "?limit=200")
    controller = start()
    told = status(controller, f"?limit=200&{'&'.join(f'stream={name}' for name in every)}")
    assert (names(told), told["unread"], told["partial"]) == (every, {}, False)
    assert controller.app.state.controller.streams.in_memory() == []
    told.pop("controller"), known.pop("controller")
    assert told["streams"] == known["streams"]


def test_a_stream_that_cannot_be_read_is_named_and_the_others_are_shown(start: Any, database: Path) -> None:
    create(start(), "good", "torn")
    controller = start()
    with sqlite3.connect(database) as beside:
        beside.execute("UPDATE stream SET config = '{' WHERE name = 'torn'")
    assert controller.call("GET", "/v1/streams/torn", expect=500)["code"] == "store_corrupt"
    first = status(controller)
    controller.pass_time(1_000)
    second = status(controller)
    for told in (first, second):
        assert names(told) == ["good"] and told["unread"] == {"torn": "store_corrupt"}
        assert (told["counts"]["streams"], told["counts"]["in_memory"]) == (2, 1)
    assert second["controller"]["ready"]


def test_a_group_that_has_read_beyond_its_streams_end_hides_nothing_else(controller: InProcess) -> None:
    create(controller, "s", segments=1)
    controller.note("w", NOON, {"0": 1})
    for group in ("whole", "beyond"):
        controller.call("PUT", f"/v1/reader-groups/{group}", {"streams": ["s"]})
    position = {"s": {"0": 3}}  # of events that were written, and not noted
    controller.call("PUT", "/v1/reader-groups/beyond/readers/r", {"positions": position})
    controller.call("POST", "/v1/streams/s/seal")
    told = status(controller)
    assert names(told) == ["s"]
    assert [each["group"] for each in told["groups"]] == ["whole"]
    assert told["unread_groups"] == {"beyond": "beyond_final_offset"}


def test_a_group_of_a_deleted_stream_is_named_also_where_it_read_no_other(controller: InProcess) -> None:
    create(controller, "gone", "s")
    for group, streams in (("both", ["s", "gone"]), ("only", ["gone"]), ("whole", ["s"])):
        controller.call("PUT", f"/v1/reader-groups/{group}", {"streams": streams})
    controller.call("DELETE", "/v1/streams/gone")
    for query in ("", "?group=both&group=only"):
        assert status(controller, query)["unread_groups"] == dict.fromkeys(("both", "only"), "unknown_stream"), query
    assert status(controller)["counts"]["reader_groups"] == 3
    create(controller, "gone")
    assert status(controller)["unread_groups"] == dict.fromkeys(("both", "only"), "stream_recreated")


def test_status_without_a_store_says_why_and_shows_memory(controller: InProcess, database: Path) -> None:
    create(controller, "a", "b")
    controller.note("w", NOON, {}, "a")
    database.unlink()
    told = status(controller)

    assert not told["controller"]["ready"] and "was removed" in told["controller"]["reason"]
    assert names(told) == ["a", "b"] and told["counts"]["streams"] == 2
    assert names(status(controller, "?limit=1&after=a")) == ["b"]
    assert names(status(controller, "?stream=b&stream=c")) == ["b"]


def test_a_writer_that_keeps_up_is_not_said_to_hold_time_and_one_that_others_wait_for_is(controller: InProcess) -> None:
    def said(stream: str) -> tuple[str, bool]:
        controller.pass_time(MEMO_MS)
        (seen,) = status(controller, f"?stream={stream}")["streams"]
        return seen["state"], seen["keys"][""]["held_back"]

    create(controller, "s")
    create(controller, "tailed", time_domain="ingestion")
    controller.call("PUT", "/v1/streams/s/writers/a")
    assert said("s") == ("fine", True)  # the first mark waits for it
    controller.note("a", NOON, {"0": 1})
    controller.call("POST", "/v1/streams/tailed/tail", {"reporter": "t", "time": controller.clock.now, "position": {}})
    assert said("s") == said("tailed") == ("fine", False)

    controller.note("b", NOON + 1, {"0": 1})
    assert said("s") == ("fine", True)
    controller.note("a", NOON + 1, {"0": 1})
    assert said("s") == ("fine", False)
    controller.pass_time(NEW_STILL_MS)
    assert said("s") == ("stalled", True)
