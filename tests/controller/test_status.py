"""`GET /v1/status`: one census of streams, reader groups and the controller."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controller.clock import Clock
from controller.operators.memo import MEMO_MS, Memo
from controller.storage.journal import JOURNAL_OF_STREAM, journal_entries
from controller.streams.cadence import NEW_STILL_MS
from strandline.wire.journal import JournalEntry
from tests.operations.scraping import scrape
from tests.served import NOON, InProcess, ManualClock

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


def test_each_stream_comes_with_its_state_trouble_holder_and_lag(troubled: InProcess) -> None:
    told = status(troubled)
    by_name = {each["stream"]: each for each in told["streams"]}

    assert told["at"] == troubled.app.state.controller.clock.now()
    assert names(told) == ["calm", "incomplete", "sealed", "stuck"] and told["next"] is None
    assert [each["trouble"] for each in told["streams"]] == [None, "incomplete", None, "stuck"]
    stuck = by_name["stuck"]
    assert (stuck["since"], stuck["lag_ms"], stuck["writers"]) == (NOON, 20_000, {"active": 2})
    assert stuck["held_by"][""] == {
        "writer": "slow",
        "state": "active",
        "time": NOON,
        "last_heard_ms_ago": 20_000,
        "released_in_ms": 580_000,
    }
    left_out = {"complete": False, "excluded": ["lost"], "excluded_writers": 1, "incomplete_marks": 2}
    assert left_out.items() <= by_name["incomplete"]["keys"][""].items()
    assert by_name["sealed"]["sealed"] and by_name["sealed"]["lag_ms"] is None

    assert {name: (each["state"], each["state_since"], each["reason"]) for name, each in by_name.items()} == {
        "calm": ("fine", NOON + 20_000, "time moves"),
        "incomplete": ("incomplete", NOON, "marks leave out lost"),
        "sealed": ("sealed", NOON, "the stream is sealed: no mark follows"),
        "stuck": ("stuck", NOON, "slow holds the others back for 20 s, silent for 20 s"),
    }
    key = by_name["stuck"]["keys"][""]
    assert (key["state"], key["usual_ms"], key["too_long_ms"]) == ("stuck", None, NEW_STILL_MS)


def test_numbers_are_over_all_streams_and_those_in_trouble_come_worst_first(troubled: InProcess) -> None:
    told = status(troubled, "?limit=1")

    assert told["trouble"] == {"stalled": 0, "stuck": 1, "held": 0, "ahead": 0, "incomplete": 1, "none": 2}
    assert told["states"] == {"sealed": 1, "fine": 1, "incomplete": 1, "stuck": 1}
    counts = told["counts"]
    assert (counts["streams"], counts["in_memory"], counts["sealed"], counts["writers"]) == (4, 4, 1, 6)
    assert (counts["notes"], counts["reader_groups"], counts["in_backlog"]) == (8, 1, 1)
    assert told["controller"]["ready"] and told["controller"]["reason"] is None
    assert told["controller"]["since"] <= NOON

    assert names(status(troubled, "?trouble=true")) == ["stuck", "incomplete"]
    assert names(status(troubled, "?trouble=true&limit=1")) == ["stuck"]
    assert names(status(troubled, "?trouble=true&stream=incomplete&stream=calm")) == ["incomplete"]
    refused = troubled.call("GET", "/v1/status?trouble=true&after=calm", expect=422)
    assert refused["code"] == "invalid_parameter"


def test_named_streams_and_groups_are_all_that_it_tells_of(troubled: InProcess) -> None:
    (group,) = status(troubled)["groups"]

    assert (group["group"], group["streams"], group["backlog"]) == ("readers", ["stuck"], True)
    assert group["lag_ms"] is None and group["held_by"] == {"": "stuck"}
    assert status(troubled, "?stream=calm")["groups"] == [] != status(troubled, "?stream=stuck")["groups"]

    alone, beside = status(troubled, "?group=readers&group=nowhere"), status(troubled, "?stream=calm&group=readers")

    assert [each["group"] for each in alone["groups"]] == ["readers"] and alone["streams"] == []
    assert [each["group"] for each in beside["groups"]] == ["readers"] and names(beside) == ["calm"]
    assert alone["groups"][0]["bounds"] == {"stuck": {"": {"lower": None, "upper": NOON, "complete": True}}}
    assert (alone["counts"]["streams"], alone["counts"]["reader_groups"]) == (0, 1)
    troubled.call("PUT", "/v1/reader-groups/new", {"streams": ["calm"]})
    assert [each["group"] for each in troubled.call("GET", "/v1/status?group=new")["groups"]] == ["new"]  # at once

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
    scraped = scrape(controller)
    assert {dict(labels)["stream"] for labels in scraped.of("stream_marks_total")} == set(every)
    assert scraped.value("stream_marks_total", stream="s007", key="") == 1
    assert (scraped.value("streams_complete"), scraped.value("streams")) == (1, 0)
    assert controller.app.state.controller.streams.in_memory() == []
    told.pop("controller"), known.pop("controller")
    assert told["streams"] == known["streams"]


def test_a_stream_that_cannot_be_read_is_named_and_the_others_are_shown(start: Any, beside: Any) -> None:
    create(start(), "good", "torn")
    controller = start()
    beside("UPDATE stream SET config = '{' WHERE name = 'torn'")
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


def test_how_long_a_key_is_held_goes_on_while_others_note_in_another_key(controller: InProcess) -> None:
    create(controller, "s")
    for writer in ("slow", "fast"):
        body = {"writer": writer, "times": {"held": NOON + (writer == "fast")}, "position": {}}
        controller.call("POST", "/v1/streams/s/notes", body)
    for second in range(1, 91):
        controller.pass_time(1_000)
        controller.call("POST", "/v1/streams/s/notes", {"writer": "w", "time": NOON + second, "position": {}})
    holder = status(controller, "?stream=s")["streams"][0]["keys"]["held"]["held_by"]
    assert (holder["last_heard_ms_ago"], holder["released_in_ms"]) == (90_000, 510_000)


def test_the_journal_is_found_by_topic_and_by_writer(controller: InProcess) -> None:
    def entries(**wanted: Any) -> list[JournalEntry]:
        read = partial(controller.app.state.controller.store.read, journal_entries, JOURNAL_OF_STREAM, "s", 50)
        found: list[JournalEntry] = controller.portal.call(partial(read, **wanted))
        return found

    create(controller, "s")
    for writer in ("w_1", "wx1", "w_1"):
        controller.call("PUT", f"/v1/streams/s/writers/{writer}")
    controller.note("w_1", 9, {})
    controller.call("POST", "/v1/streams/s/notes", {"writer": "w_1", "time": 1, "position": {}}, expect=409)
    controller.pass_time(1)  # a refusal is written with what comes next
    told = [(each.details["writer"], each.details["epoch"]) for each in entries(topics=("registration",))]
    assert told == [("w_1", 1), ("wx1", 2), ("w_1", 3)]
    own = entries(writer="w_1")
    assert {each.details["writer"] for each in own} == {"w_1"}
    assert [each.kind for each in own if each.topic == "refusal"] == ["refused"]


@pytest.mark.full
@pytest.mark.parametrize("passed_ms", [0, 500, 5_000, 70_000, 700_000, 4_000_000])
def test_a_stored_status_goes_on_as_one_in_memory(start: Any, passed_ms: int) -> None:
    controller = start()
    settings = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": None}
    for name in ("calm", "stuck", "idle", "sealed", "left", "empty"):
        controller.call("PUT", f"/v1/streams/{name}", settings)
    controller.call("PUT", "/v1/streams/tail", {"segments": 1, "time_domain": "ingestion", "writer_timeout_ms": None})
    controller.call("POST", "/v1/streams/tail/tail", {"reporter": "t", "time": controller.clock.now, "position": {}})
    controller.call("POST", "/v1/streams/tail/writers/t/idle")
    for second in range(3):
        for name in ("calm", "stuck", "idle", "sealed", "left"):
            controller.note("w", NOON + second * 1_000, {"0": second}, name)
            controller.note("v", NOON + (0 if name == "stuck" else second * 1_000), {"1": second}, name)
        controller.pass_time(1_000)
    controller.call("POST", "/v1/streams/idle/writers/w/idle")
    controller.call("POST", "/v1/streams/idle/writers/v/idle")
    controller.call("POST", "/v1/streams/sealed/seal")
    controller.call("POST", "/v1/streams/left/writers/v/exclude")
    controller.pass_time(1_000)

    controller.pass_time(passed_ms)
    controller.app.state.controller.status.forget()
    told = controller.call("GET", "/v1/status?limit=100")["streams"]
    other = start()
    found = other.call("GET", "/v1/status?limit=100")["streams"]

    assert other.app.state.controller.streams.in_memory() == []
    by_name = {each["stream"]: each for each in found}
    assert by_name.keys() == {each["stream"] for each in told}
    for each in told:
        assert by_name[each["stream"]] == each


def test_an_answer_is_shared_for_a_second_or_ten_times_as_long_as_it_took_while_it_is_one_of_few() -> None:
    made: list[str] = []
    clock = ManualClock(0)

    async def make(name: str, took_ms: int) -> int:
        await asyncio.sleep(0)
        made.append(name)
        clock.now += took_ms
        return len(made)

    async def story() -> None:
        memo = Memo(Clock(clock))
        assert await asyncio.gather(*(memo.get("dear", partial(make, "dear", 300)) for _ in range(10))) == [1] * 10
        clock.now = 2_999
        assert await memo.get("dear", partial(make, "dear", 300)) == 1
        clock.now = 3_000
        assert await memo.get("dear", partial(make, "dear", 0)) == 2
        clock.now = 4_000
        assert await memo.get("dear", partial(make, "dear", 0)) == 3
        made.clear()
        few = Memo(Clock(clock), most=2)
        for name in ("a", "b", "b", "c", "c", "a"):
            await few.get(name, partial(make, name, 0))
        assert made == ["a", "b", "c", "a"]

    asyncio.run(story())
