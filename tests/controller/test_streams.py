"""Streams over HTTP: created, changed, scaled, sealed, deleted."""

from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("store_url")

STREAM = "/v1/streams/s"
CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}


def test_creating_again_finds_the_stream_and_another_one_of_that_name_is_refused(controller: Any) -> None:
    controller.call("PUT", STREAM, {"segments": 2, "writer_timeout_ms": 5}, expect=201)
    halves = [{"id": "1", "low": 0.5, "high": 1.0}, {"id": "0", "low": 0.0, "high": 0.5}]
    for segments in (2, halves):  # halves spelled out are the same
        again = controller.call("PUT", STREAM, {"segments": segments, "writer_timeout_ms": 9}, expect=200)
        assert again["writer_timeout_ms"] == 5
    for other in ({"segments": 3}, {"segments": "open"}, {"segments": 2, "time_domain": "ingestion"}):
        assert controller.call("PUT", STREAM, other, expect=409)["code"] == "stream_exists"


IMPOSSIBLE: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({}, "invalid_config", "segments"),
    ({"segments": 0}, "invalid_config", "segments"),
    ({"segments": 65_537}, "too_many", "65536"),
    ({"segments": "closed"}, "invalid_config", "segments"),
    ({"segments": [{"id": "0", "low": 0, "high": 0.5}]}, "invalid_scale", "0.5"),
    ({"segments": 1, "colour": "red"}, "invalid_config", "colour"),
    ({"segments": 1, "min_writers": 0}, "invalid_config", "min_writers"),
)


def test_a_configuration_that_cannot_be_is_refused_by_name(controller: Any) -> None:
    for body, code, named in IMPOSSIBLE:
        problem = controller.call("PUT", STREAM, body, expect=422)
        assert problem["code"] == code and named in problem["detail"]
        assert controller.call("GET", STREAM, expect=404)["code"] == "unknown_stream"


def test_settings_change_at_once_and_a_deleted_stream_starts_over(controller: Any) -> None:
    controller.call("PUT", STREAM, {**CONFIG, "mark_interval_ms": None})
    controller.note("a", 5, {"0": 1})
    assert controller.marks() == []
    described = controller.call("PATCH", STREAM, {"mark_interval_ms": 0})
    assert described["mark_interval_ms"] == 0 and described["latest_marks"][""]["time"] == 5
    assert controller.call("PATCH", STREAM, {"segments": 2}, expect=422)["code"] == "invalid_config"

    controller.call("DELETE", STREAM, expect=204)
    assert controller.call("GET", STREAM, expect=404)["code"] == "unknown_stream"
    controller.call("PUT", STREAM, CONFIG, expect=201)
    assert controller.marks() == [] and controller.call("GET", f"{STREAM}/writers")["writers"] == []
    assert controller.note("a", 1, {"0": 1})["marks"][0]["seq"] == 1
    for name in ("c", "a"):
        controller.call("PUT", f"/v1/streams/{name}", {"segments": 1})
    assert controller.call("GET", "/v1/streams?limit=2") == {"streams": ["a", "c"], "next": "c"}
    assert controller.call("GET", "/v1/streams?limit=2&after=c") == {"streams": ["s"], "next": None}


@pytest.mark.one_controller
def test_a_stream_deleted_and_created_at_the_same_moment_ends_up_created_once(controller: Any) -> None:
    controller.call("PUT", STREAM, {"segments": 1})
    calls = [controller.request_soon("DELETE", STREAM)]
    calls += [controller.request_soon("PUT", STREAM, json={"segments": 2}) for _ in range(4)]
    deleted, *created = (call.result(30).status_code for call in calls)
    assert (deleted, sorted(created)) == (204, [200, 200, 200, 201])
    assert len(controller.call("GET", STREAM)["segments"]) == 2


def test_scaling_seals_and_creates_and_repeated_changes_nothing(controller: Any) -> None:
    controller.call("PUT", STREAM, {**CONFIG, "segments": 2})
    body = {"seal": {"0": 300, "1": 400}, "create": [{"id": "2", "low": 0, "high": 1}]}
    first = controller.call("POST", f"{STREAM}/scale", body)
    assert controller.call("POST", f"{STREAM}/scale", body) == first
    assert [(each["id"], each["final_offset"], each["predecessors"]) for each in first["segments"]] == [
        ("0", 300, []),
        ("1", 400, []),
        ("2", None, ["0", "1"]),
    ]
    (mark,) = controller.note("a", 10, {"2": 5})["marks"]
    assert mark["cut"] == {"2": 5}  # the frontier: what a successor implies is left out
    gap = {"seal": {"2": 9}, "create": [{"id": "3", "low": 0, "high": 0.5}]}
    assert controller.call("POST", f"{STREAM}/scale", gap, expect=422)["code"] == "invalid_scale"


def test_a_sealed_stream_ends_and_a_reader_at_its_end_is_told(controller: Any) -> None:
    controller.call("PUT", STREAM, {**CONFIG, "min_writers": 2})
    controller.note("a", 100, {"0": 7})
    (mark,) = controller.call("POST", f"{STREAM}/seal", {"final": {"0": 9}})["marks"]
    assert mark["time"] == 100
    note = {"writer": "a", "time": 1, "position": {}}
    assert controller.call("POST", f"{STREAM}/notes", note, expect=409)["code"] == "stream_sealed"
    window = controller.call("POST", f"{STREAM}/time-window", {"position": {"0": 9}})
    found = {"lower": 100, "upper": None, "complete": True, "end_of_stream": True, "mark_seq": 1}
    assert window == {**found, "identity": controller.call("GET", STREAM)["identity"]}
    assert not controller.call("POST", f"{STREAM}/time-window", {"position": {"0": 8}})["end_of_stream"]
    assert controller.call("GET", f"{STREAM}/marks?after=1&wait_ms=30000")["marks"] == []  # at once


def test_a_segment_that_never_was_is_dropped_from_every_cut(controller: Any, start: Any) -> None:
    controller.call("PUT", STREAM, {**CONFIG, "segments": "open"})
    controller.note("a", 100, {"0": 7, "typo": 3})
    controller.note("a", 200, {"0": 8})
    controller.call("DELETE", f"{STREAM}/segments/typo", expect=204)
    assert controller.told("action")[-1]["details"] == {"segment": "typo"}
    assert [mark["cut"] for mark in controller.marks()] == [{"0": 7}, {"0": 8}]
    assert [mark["cut"] for mark in start().marks()] == [{"0": 7}, {"0": 8}]
