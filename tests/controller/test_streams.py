"""Streams over HTTP: created, changed, scaled, sealed, deleted."""

from typing import Any

import pytest


@pytest.fixture
def database(store_url: str) -> str:
    return store_url


def test_creating_again_finds_the_stream_and_leaves_its_configuration(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 2, "writer_timeout_ms": 5}, expect=201)

    again = controller.call("PUT", "/v1/streams/s", {"segments": 2, "writer_timeout_ms": 9}, expect=200)

    assert again["writer_timeout_ms"] == 5


def test_halves_spelled_out_are_the_same_segments_as_two(controller: Any) -> None:
    halves = [{"id": "1", "low": 0.5, "high": 1.0}, {"id": "0", "low": 0.0, "high": 0.5}]
    controller.call("PUT", "/v1/streams/s", {"segments": halves}, expect=201)

    controller.call("PUT", "/v1/streams/s", {"segments": 2}, expect=200)


@pytest.mark.parametrize("other", [{"segments": 3}, {"segments": "open"}, {"segments": 2, "time_domain": "ingestion"}])
def test_creating_another_stream_of_that_name_is_refused(controller: Any, other: dict[str, Any]) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 2})

    assert controller.call("PUT", "/v1/streams/s", other, expect=409)["code"] == "stream_exists"


@pytest.mark.parametrize(
    ("body", "code", "named"),
    [
        ({}, "invalid_config", "segments"),
        ({"segments": 0}, "invalid_config", "segments"),
        ({"segments": True}, "invalid_config", "segments"),
        ({"segments": 1.0}, "invalid_config", "segments"),
        ({"segments": 65_537}, "too_many", "65536"),
        ({"segments": "closed"}, "invalid_config", "segments"),
        ({"segments": []}, "invalid_scale", "0.0"),
        ({"segments": [{"id": "0", "low": 0, "high": 0.5}]}, "invalid_scale", "0.5"),
        ({"segments": [{"id": "0", "low": 0, "high": 1, "colour": 1}]}, "invalid_config", "colour"),
        ({"segments": 1, "colour": "red"}, "invalid_config", "colour"),
        ({"segments": 1, "min_writers": 0}, "invalid_config", "min_writers"),
        ({"segments": 1, "mark_interval_ms": -1}, "invalid_config", "mark_interval_ms"),
        ({"segments": 1, "writer_timeout_ms": 1.5}, "invalid_config", "writer_timeout_ms"),
        ({"segments": 1, "late_writers": "ignore"}, "invalid_config", "late_writers"),
        ({"segments": 1, "late_writers": ["hold"]}, "invalid_config", "late_writers"),
        ({"segments": 1, "time_domain": {}}, "invalid_config", "time_domain"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_by_name(
    controller: Any, body: dict[str, Any], code: str, named: str
) -> None:
    problem = controller.call("PUT", "/v1/streams/s", body, expect=422)

    assert problem["code"] == code and named in problem["detail"]
    assert controller.call("GET", "/v1/streams/s", expect=404)["code"] == "unknown_stream"


def test_the_list_is_paged_by_name(controller: Any) -> None:
    for name in ("c", "a", "b"):
        controller.call("PUT", f"/v1/streams/{name}", {"segments": 1})

    assert controller.call("GET", "/v1/streams?limit=2") == {"streams": ["a", "b"], "next": "b"}
    assert controller.call("GET", "/v1/streams?limit=2&after=b") == {"streams": ["c"], "next": None}


def test_settings_change_and_the_change_takes_effect_at_once(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 1, "max_ahead_ms": None, "mark_interval_ms": None})
    controller.note("a", 5, {"0": 1})
    assert controller.marks() == []

    described = controller.call("PATCH", "/v1/streams/s", {"mark_interval_ms": 0})

    assert described["mark_interval_ms"] == 0 and described["latest_marks"][""]["time"] == 5
    assert controller.call("PATCH", "/v1/streams/s", {"segments": 2}, expect=422)["code"] == "invalid_config"


def test_a_deleted_stream_is_gone_and_its_name_starts_over(controller: Any) -> None:
    body = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
    controller.call("PUT", "/v1/streams/s", body)
    controller.call("PUT", "/v1/streams/s/writers/a")
    controller.note("a", 100, {"0": 1})

    controller.call("DELETE", "/v1/streams/s", expect=204)

    assert controller.call("GET", "/v1/streams/s", expect=404)["code"] == "unknown_stream"
    controller.call("PUT", "/v1/streams/s", body, expect=201)
    assert controller.marks() == [] and controller.call("GET", "/v1/streams/s/writers")["writers"] == []
    assert controller.note("a", 1, {"0": 1})["marks"][0]["seq"] == 1


@pytest.mark.one_controller
def test_a_stream_deleted_and_created_at_the_same_moment_ends_up_created(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 1})
    calls = [
        controller.request_soon("DELETE", "/v1/streams/s"),
        controller.request_soon("PUT", "/v1/streams/s", json={"segments": 2}),
    ]

    assert [call.result(30).status_code for call in calls] == [204, 201]
    assert len(controller.call("GET", "/v1/streams/s")["segments"]) == 2


def test_one_of_two_creations_at_the_same_moment_creates(controller: Any) -> None:
    calls = [controller.request_soon("PUT", "/v1/streams/s", json={"segments": 1}) for _ in range(5)]

    assert sorted(call.result(30).status_code for call in calls) == [200, 200, 200, 200, 201]


def test_scaling_seals_and_creates_and_repeated_changes_nothing(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None})
    body = {"seal": {"0": 300, "1": 400}, "create": [{"id": "2", "low": 0, "high": 1}]}

    first = controller.call("POST", "/v1/streams/s/scale", body)
    assert controller.call("POST", "/v1/streams/s/scale", body) == first

    assert [(each["id"], each["final_offset"], each["predecessors"]) for each in first["segments"]] == [
        ("0", 300, []),
        ("1", 400, []),
        ("2", None, ["0", "1"]),
    ]
    (mark,) = controller.note("a", 10, {"2": 5})["marks"]
    assert mark["cut"] == {"2": 5}  # the frontier: what a successor implies is left out
    gap = {"seal": {"2": 9}, "create": [{"id": "3", "low": 0, "high": 0.5}]}
    assert controller.call("POST", "/v1/streams/s/scale", gap, expect=422)["code"] == "invalid_scale"


def test_a_sealed_stream_ends_and_a_reader_at_its_end_is_told(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 1, "min_writers": 2, "max_ahead_ms": None})
    controller.note("a", 100, {"0": 7})

    (mark,) = controller.call("POST", "/v1/streams/s/seal", {"final": {"0": 9}})["marks"]

    assert mark["time"] == 100
    assert (
        controller.call("POST", "/v1/streams/s/notes", {"writer": "a", "time": 1, "position": {}}, expect=409)["code"]
        == "stream_sealed"
    )
    window = controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": 9}})
    found = {"lower": 100, "upper": None, "complete": True, "end_of_stream": True, "mark_seq": 1}
    assert window == {**found, "identity": controller.call("GET", "/v1/streams/s")["identity"]}
    assert not controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": 8}})["end_of_stream"]


def test_a_segment_that_never_was_is_dropped_from_every_cut(controller: Any, start: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": "open", "mark_interval_ms": 0, "max_ahead_ms": None})
    controller.note("a", 100, {"0": 7, "typo": 3})
    controller.note("a", 200, {"0": 8})

    controller.call("DELETE", "/v1/streams/s/segments/typo", expect=204)

    assert [mark["cut"] for mark in controller.marks()] == [{"0": 7}, {"0": 8}]
    assert [mark["cut"] for mark in start().marks()] == [{"0": 7}, {"0": 8}]


def test_an_ingestion_stream_at_rest_follows_the_clock(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 1, "time_domain": "ingestion", "mark_interval_ms": 0})
    now = controller.clock.now
    body = {"reporter": "tail", "time": now, "position": {"0": 5}}
    (mark,) = controller.call("POST", "/v1/streams/s/tail", body)["marks"]
    assert mark["time"] == now
    controller.call("POST", "/v1/streams/s/writers/tail/idle")

    controller.clock.now += 60_000

    page = controller.call("GET", "/v1/streams/s/marks?after=1")
    assert (page["marks"], page["resting"]) == ([], now + 50_000)
    window = controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": 5}})
    assert (window["lower"], window["mark_seq"]) == (now + 50_000, 1)
    assert controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": 4}})["upper"] == now
