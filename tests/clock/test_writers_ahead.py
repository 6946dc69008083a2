"""A writer whose clock is ahead: its notes are refused, or the stream is in the state `ahead` before its time leaps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import TimeTooFarAhead
from tests.clock.test_times_ahead import FIVE_MINUTES, MINUTE, create
from tests.operations.scraping import scrape
from tests.served import NOON, InProcess, ManualClock, TwoControllers

HOUR = 60 * MINUTE
DAY = 24 * HOUR
FREE: dict[str, Any] = {"max_ahead_ms": None}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[InProcess]:
    with InProcess(tmp_path / "store.db", ManualClock()) as controller:
        yield controller


def stream_of(served: InProcess, name: str = "s") -> dict[str, Any]:
    """The status of a stream."""
    served.app.state.controller.status.forget()
    found: dict[str, Any] = served.call("GET", f"/v1/status?stream={name}")["streams"][0]
    return found


def state(served: InProcess) -> tuple[str, str]:
    found = stream_of(served)
    return found["state"], found["reason"]


def try_note(served: InProcess, writer: str, time: int) -> dict[str, Any]:
    body = {"writer": writer, "time": time, "position": {"0": 9}}
    refused: dict[str, Any] = served.call("POST", "/v1/streams/s/notes", body, expect=422)
    return refused


def two_writers(served: InProcess, ahead_ms: int = DAY, **settings: Any) -> None:
    """One that is right, and one that is a day ahead."""
    create(served, **FREE, **settings)
    for writer, time in (("right", NOON), ("ahead", NOON + ahead_ms)):
        served.call("PUT", f"/v1/streams/s/writers/{writer}")
        served.note(writer, time, {"0": 1})


# -- what is refused


def test_a_note_beyond_five_minutes_is_refused_by_how_much_and_by_which_setting(served: InProcess) -> None:
    create(served)
    served.note("w", NOON + FIVE_MINUTES, {"0": 1})
    refused = try_note(served, "w", NOON + DAY)
    assert refused["code"] == "time_too_far_ahead" and refused["max_ahead_ms"] == FIVE_MINUTES
    assert f"is {DAY} ms ahead of the clock" in refused["detail"]
    assert "set the stream's max_ahead_ms higher or to null" in refused["detail"]
    served.call("PATCH", "/v1/streams/s", FREE)
    served.note("w", NOON + DAY, {"0": 9})


def test_every_way_to_note_refuses_and_time_stays(served: InProcess) -> None:
    create(served)
    served.note("w", NOON, {"0": 1})
    far = {"position": {"0": 9}, "time": NOON + DAY}
    for body in (
        {"writer": "w", **far},
        {"writer": "new", **far},
        {"writer": "w", "times": {"": NOON + 1, "k": NOON + DAY}, "position": {"0": 9}},
    ):
        served.call("POST", "/v1/streams/s/notes", body, expect=422)
    for path, notes in (
        ("/v1/streams/s/notes", [{"writer": "w", **far}, {"writer": "new", **far}]),
        ("/v1/notes", [{"stream": "s", "writer": "w", **far}]),
    ):
        results = served.call("POST", path, {"notes": notes})["results"]
        assert {each["code"] for each in results} == {"time_too_far_ahead"}
    served.call("PUT", "/v1/streams/s/writers/registered")
    served.call("POST", "/v1/streams/s/notes", {"writer": "registered", **far}, expect=422)
    assert stream_of(served)["keys"][""]["mark_time"] == NOON


def test_in_the_ingestion_domain_a_day_is_taken_as_before_and_nobody_is_ahead(served: InProcess) -> None:
    create(served, time_domain="ingestion")
    served.note("w", NOON + DAY, {"0": 1})
    try_note(served, "w", NOON + DAY + 1)
    assert state(served) == ("fine", "time moves")
    assert served.told("ahead") == []


def test_times_that_are_no_dates_are_as_they_were(served: InProcess) -> None:
    create(served, **FREE)
    served.note("w", 1_000, {"0": 1})
    served.note("micro", NOON * 1_000, {"0": 1})
    assert state(served)[0] == "fine" and stream_of(served)["keys"][""]["ahead"] == []
    served.call("PATCH", "/v1/streams/s", {"max_ahead_ms": FIVE_MINUTES})
    try_note(served, "micro", NOON * 1_000 + 1)
    assert state(served)[0] == "fine" and stream_of(served)["keys"][""]["ahead"] == []


# -- a writer that is held back by that


def test_the_writer_whose_notes_are_refused_is_named_with_the_reason_before_and_after_time_stands_still(
    served: InProcess,
) -> None:
    why = "notes of ahead are refused: 24 h 0 min ahead of the clock (max_ahead_ms)"
    create(served)
    for second in range(30):
        served.clock.now = NOON + second * 1_000
        served.note("right", served.clock.now, {"0": second})
        if second < 3:
            served.note("ahead", served.clock.now, {"0": second})
        else:
            try_note(served, "ahead", served.clock.now + DAY)
        if second == 4:
            assert state(served) == ("ahead", why)
    found, (_, reason) = stream_of(served), state(served)
    assert found["state"] == "stuck" and reason.startswith("ahead holds the others back for ")
    assert reason.endswith(f"; {why}")
    assert found["keys"][""]["ahead"] == [{"writer": "ahead", "ahead_ms": DAY, "refused": True}]
    assert scrape(served).value("stream_ahead_seconds", stream="s", key="", writer="ahead", refused="yes") == 86_400
    (entry, *_) = served.told("refusal")
    assert entry["details"]["writer"] == "ahead" and "max_ahead_ms" in entry["details"]["detail"]
    served.note("ahead", served.clock.now, {"0": 99})  # its clock is right again
    assert state(served) == ("fine", "time moves")


def test_another_controller_knows_who_is_ahead_and_who_is_refused(tmp_path: Path) -> None:
    with InProcess(tmp_path / "store.db", ManualClock()) as served:
        create(served, **FREE)
        served.note("right", NOON, {"0": 1})
        served.note("far", NOON + DAY, {"0": 1})
        served.call("PATCH", "/v1/streams/s", {"max_ahead_ms": FIVE_MINUTES})
        try_note(served, "right", NOON + HOUR)
        before = stream_of(served)
    with InProcess(tmp_path / "store.db", ManualClock(NOON + 1_000)) as served:
        for load in (False, True):
            if load:
                served.call("GET", "/v1/streams/s")
            after = stream_of(served)
            assert (after["state"], after["state_since"]) == ("ahead", NOON) == (before["state"], before["state_since"])
            assert [(each["writer"], each["refused"]) for each in after["keys"][""]["ahead"]] == [
                ("far", False),
                ("right", True),
            ]
            assert [each["ahead_ms"] for each in after["keys"][""]["ahead"]] == [DAY - 1_000, HOUR]


@pytest.mark.full
def test_of_two_controllers_each_names_whom_the_other_has_refused(postgres_url: str) -> None:
    with TwoControllers(postgres_url, ManualClock()) as served:
        create(served)
        for writer in ("right", "far"):
            served.note(writer, NOON, {"0": 1})
        try_note(served, "far", NOON + HOUR)
        for _ in range(2):  # once at each
            assert state(served) == ("ahead", "notes of far are refused: 60 min 0 s ahead of the clock (max_ahead_ms)")
        served.clock.now += 1_000
        served.note("far", served.clock.now, {"0": 2})
        served.note("right", served.clock.now, {"0": 2})
        for _ in range(2):
            assert state(served) == ("fine", "time moves")


def test_a_writer_that_timed_out_since_its_notes_were_refused_is_named_still(served: InProcess) -> None:
    create(served, writer_timeout_ms=60_000)
    for writer in ("right", "ahead"):
        served.note(writer, NOON, {"0": 1})
    try_note(served, "ahead", NOON + DAY)
    for minute in range(1, 4):
        served.pass_time(MINUTE)
        served.note("right", NOON + minute * MINUTE, {"0": 2})
    assert state(served)[0] == "ahead" and "notes of ahead are refused: 24 h 0 min" in state(served)[1]
    for change in ("exclude", "idle"):
        served.call("POST", f"/v1/streams/s/writers/ahead/{change}")
        assert "refused" not in state(served)[1]
        served.call("DELETE", "/v1/streams/s/writers/ahead/exclude")


def test_an_unknown_writer_that_is_refused_is_named_for_a_while(served: InProcess) -> None:
    create(served, min_writers=2, writer_timeout_ms=None)
    served.note("right", NOON, {"0": 1})
    try_note(served, "new", NOON + HOUR)
    served.pass_time(MINUTE)
    too_few = "1 of 2 writers have noted (min_writers)"
    why = "notes of new are refused: 60 min 0 s ahead of the clock (max_ahead_ms)"
    assert state(served) == ("held", f"{too_few}; {why}")
    served.pass_time(10 * MINUTE)
    assert state(served) == ("held", too_few)


def test_names_that_nobody_has_are_kept_within_a_bound_and_push_out_no_writer(served: InProcess) -> None:
    create(served)
    served.note("known", NOON, {"0": 1})
    notes = [{"writer": f"x{n}", "time": NOON + HOUR, "position": {}} for n in range(100)]
    served.call("POST", "/v1/streams/s/notes", {"notes": notes})
    try_note(served, "known", NOON + 2 * HOUR)
    key = stream_of(served)["keys"][""]
    assert len(key["ahead"]) == 9 and key["ahead"][0]["writer"] == "known"
    loaded = served.app.state.controller.streams.find_loaded("s")
    version = loaded.head.version
    try_note(served, "known", NOON + 2 * HOUR)
    served.call("POST", "/v1/streams/s/notes", {"notes": notes[50:]})
    assert loaded.head.version == version  # nothing more is written of them but their number, within a second
    assert len(served.told("refusal")) == 20 and loaded.head.version == version + 1


# -- the state


def test_a_stream_is_ahead_before_its_time_leaps_and_the_writer_is_named(served: InProcess) -> None:
    two_writers(served)
    why = "ahead is 24 h 0 min ahead of the clock, and time goes there once no other writer holds it back"
    assert state(served) == ("ahead", why)
    found = stream_of(served)
    assert (found["trouble"], found["since"], found["keys"][""]["mark_time"]) == ("ahead", NOON, NOON)
    assert served.call("GET", "/v1/status?trouble=true")["trouble"]["ahead"] == 1
    metrics = scrape(served)
    assert metrics.value("stream_ahead_seconds", stream="s", key="", writer="ahead", refused="no") == 86_400
    assert metrics.value("stream_state_seconds", stream="s", key="", state="ahead") == 0
    (entry,) = served.told("ahead")
    assert (entry["kind"], entry["details"]["writer"], entry["details"]["time"]) == ("ahead", "ahead", NOON + DAY)


def test_an_hour_later_the_state_has_lasted_for_an_hour_and_ends_when_the_clock_is_there(served: InProcess) -> None:
    two_writers(served, 2 * HOUR, writer_timeout_ms=None)
    for minute in range(1, 121):
        served.clock.now = NOON + minute * MINUTE
        served.note("right", served.clock.now, {"0": 1})
        expected = "ahead" if minute < 115 else "fine"
        assert state(served)[0] == expected, minute
        assert stream_of(served)["state_since"] == NOON or expected == "fine"
    assert [each["kind"] for each in served.told("ahead")] == ["ahead", "ahead_ended"]


@pytest.mark.parametrize("leaving", ["POST {}/idle", "DELETE {}", "POST {}/exclude", ""])
def test_what_can_still_make_time_leap_is_ahead_and_an_excluded_writer_is_not(served: InProcess, leaving: str) -> None:
    """A closed, idle or timed-out writer is where time goes when the last one that counts leaves."""
    two_writers(served, writer_timeout_ms=MINUTE)
    if leaving:
        served.call(*leaving.format("/v1/streams/s/writers/ahead").split())
    for second in range(0, 90, 5):
        served.clock.now = NOON + second * 1_000
        served.note("right", served.clock.now, {"0": 2})
    assert state(served)[0] == ("fine" if "exclude" in leaving else "ahead") or "incomplete" in state(served)[0]
    assert ("ahead is" in state(served)[1]) is ("exclude" not in leaving)
    served.call("DELETE", "/v1/streams/s/writers/right")
    leapt = stream_of(served)["keys"][""]["mark_time"]
    assert leapt == (served.clock.now if "exclude" in leaving else NOON + DAY)


def test_once_time_has_leapt_the_stream_is_ahead_whoever_is_excluded_then(served: InProcess) -> None:
    two_writers(served)
    served.call("POST", "/v1/streams/s/writers/right/exclude")
    why = "ahead is 24 h 0 min ahead of the clock; its time is 24 h 0 min ahead of the clock"
    assert state(served) == ("ahead", why)
    served.call("POST", "/v1/streams/s/writers/ahead/exclude")
    assert state(served) == ("ahead", "its time is 24 h 0 min ahead of the clock")


def test_a_setting_that_is_lowered_lets_nobody_off_who_is_ahead_already(served: InProcess) -> None:
    two_writers(served)
    served.call("PATCH", "/v1/streams/s", {"max_ahead_ms": FIVE_MINUTES})
    try_note(served, "ahead", NOON + DAY + 1)
    assert state(served)[1].startswith("ahead is 24 h 0 min ahead of the clock, and time goes there once")
    assert stream_of(served)["keys"][""]["ahead"] == [{"writer": "ahead", "ahead_ms": DAY, "refused": False}]


def test_a_writer_that_is_ahead_and_then_refused_is_where_time_goes_when_it_leaves(served: InProcess) -> None:
    two_writers(served)
    served.call("PATCH", "/v1/streams/s", {"max_ahead_ms": FIVE_MINUTES})
    try_note(served, "ahead", NOON + DAY + 1)
    served.call("DELETE", "/v1/streams/s/writers/ahead")
    assert state(served)[0] == "ahead"
    served.call("DELETE", "/v1/streams/s/writers/right")
    assert stream_of(served)["keys"][""]["mark_time"] == NOON + DAY


def test_of_many_writers_that_are_ahead_the_furthest_are_kept_and_named(served: InProcess) -> None:
    create(served, **FREE)
    notes = [{"writer": f"w{n:02}", "time": NOON + HOUR + n % 20, "position": {}} for n in range(40)]
    served.call("POST", "/v1/streams/s/notes", {"notes": [*notes, {"writer": "z", "time": NOON, "position": {}}]})
    assert len(served.told("ahead")) == 16  # of those that are as far ahead, the first
    served.note("far", NOON + DAY, {})
    key = stream_of(served)["keys"][""]
    assert len(key["ahead"]) == 16 and key["ahead"][0] == {"writer": "far", "ahead_ms": DAY, "refused": False}
    assert " and at least 13 more are up to 24 h 0 min ahead of the clock" in state(served)[1]
    assert len(served.told("ahead")) == 17


def test_a_writer_about_five_minutes_ahead_is_journaled_once(served: InProcess) -> None:
    create(served, **FREE)
    for turn in range(20):
        served.clock.now = NOON + turn * 10_000
        ahead = FIVE_MINUTES + (1_000 if turn % 2 else -1_000)
        served.note("w", served.clock.now + ahead, {"0": turn})
    assert [each["kind"] for each in served.told("ahead")] == ["ahead"]


# -- floors, and what readers let pass


def test_no_floor_lets_a_time_leap() -> None:
    """A writer that registers counts with what the stream has reached, readers that go on make nothing of it."""
    stream = Stream("s", StreamConfig(mark_interval_ms=0), SegmentGraph.equal_shares(1, NOON), now=NOON)
    stream.note(Note(writer="w", times={"": NOON}, position={"0": 1}), NOON)
    stream.idle("w", None, NOON)
    stream.let_pass({"": NOON + DAY})
    assert stream.register("new", None, NOON).floors == {"": NOON + DAY}
    stream.close("w", None, NOON)
    assert stream.last_marks[""].time == NOON
    with pytest.raises(TimeTooFarAhead):
        stream.note(Note(writer="new", times={"": NOON + DAY}, position={"0": 2}), NOON)
    assert stream.note(Note(writer="new", times={"": NOON + 1}, position={"0": 2}), NOON).late
    assert stream.last_marks[""].time == NOON + 1
