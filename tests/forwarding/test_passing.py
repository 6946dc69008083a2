"""Calls for another controller's stream or group: they get there, once, and so does the answer."""

from __future__ import annotations

import pytest

from controller.cluster.records import Kind
from strandline.testing import NOON, ManualClock
from tests.forwarding.conftest import STREAM, Cluster, Make, RealController, note

Two = tuple[RealController, RealController]


def test_a_call_for_anothers_stream_is_answered_by_its_owner(two: Two) -> None:
    first, second = two
    assert first.ask("PUT", "/v1/streams/s/writers/w", {}).json()["epoch"] == 1
    assert second.ask("GET", "/v1/streams/s/writers").json()["writers"][0]["writer"] == "w"


def test_a_note_for_anothers_stream_is_taken_by_its_owner(two: Two) -> None:
    first, second = two
    answer = first.ask("POST", "/v1/streams/s/notes", note(100))
    assert answer.status_code == 200
    assert [mark["time"] for mark in answer.json()["marks"]] == [100]
    assert [mark["time"] for mark in second.ask("GET", "/v1/streams/s/marks").json()["marks"]] == [100]


def test_a_refusal_of_the_owner_comes_back_as_it_is(two: Two) -> None:
    first, _ = two
    first.ask("POST", "/v1/streams/s/notes", note(100))
    refused = first.ask("POST", "/v1/streams/s/notes", note(50))
    assert (refused.status_code, refused.json()["code"]) == (409, "time_went_back")
    assert refused.headers["content-type"] == "application/problem+json"


def test_many_notes_of_one_stream_go_to_its_owner(two: Two) -> None:
    first, _ = two
    answer = first.ask("POST", "/v1/streams/s/notes", {"notes": [note(1), note(2), note(1)]})
    assert [each.get("code") for each in answer.json()["results"]] == [None, None, "time_went_back"]


def test_a_groups_calls_go_to_its_owner(two: Two, cluster: Cluster) -> None:
    first, second = two
    cluster.give("g", 2, kind=Kind.GROUP)
    assert first.ask("PUT", "/v1/reader-groups/g", {"streams": ["s"]}).status_code == 201
    assert second.ask("GET", "/v1/reader-groups").json()["groups"] == ["g"]


def test_what_is_about_no_stream_is_answered_where_it_arrives(two: Two) -> None:
    first, _ = two
    assert first.ask("GET", "/v1/streams").json()["streams"] == []
    assert first.ask("GET", "/healthz").is_success


def test_the_answer_has_the_owners_clock_and_the_request_id(cluster: Cluster, make: Make) -> None:
    first, second = make(1), make(2, clock=ManualClock())
    cluster.give("s", 2)
    second.ask("PUT", "/v1/streams/s", STREAM)
    for answer in (
        first.ask("GET", "/v1/streams/s", X_Request_Id="mine"),
        first.ask("POST", "/v1/streams/s/notes", note(1), X_Request_Id="mine"),
    ):
        assert answer.headers.get_list("strandline-time") == [str(NOON)]
        assert answer.headers.get_list("x-request-id") == ["mine"]
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"]


@pytest.mark.parametrize("path", ["/v1/streams/s", "/v1/notes", "/v1/status"])
def test_a_hop_for_another_controller_is_refused_and_nothing_done(two: Two, path: str) -> None:
    _, second = two
    method = "POST" if path == "/v1/notes" else "GET"
    body = {"notes": [note(1, stream="s")]} if method == "POST" else None
    refused = second.ask(method, path, body, Strandline_Hop="1", Strandline_For="77")
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (503, "not_owner", "1")
    assert second.ask("GET", "/v1/streams/s/marks").json()["marks"] == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Strandline_Hop": "1"},
        {"Strandline_For": "2"},
        {"Strandline_Hop": "2", "Strandline_For": "2"},
        {"Strandline_Hop": "1", "Strandline_For": "two"},
        {"Strandline_Hop": "1", "Strandline_For": "-2"},
        {"Strandline_Hop": "1", "Strandline_For": "9" * 30},
    ],
)
def test_a_hop_that_no_controller_makes_is_refused(two: Two, headers: dict[str, str]) -> None:
    _, second = two
    refused = second.ask("POST", "/v1/streams/s/notes", note(1), **headers)
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
    assert second.ask("GET", "/v1/streams/s/marks").json()["marks"] == []


def test_a_passed_on_call_is_never_passed_on_again(cluster: Cluster, make: Make) -> None:
    first, _, third = make(1), make(2), make(3)
    third.ask("PUT", "/v1/streams/s", STREAM)
    cluster.give("s", 3, seen_by={2, 3})
    cluster.owners[Kind.STREAM, "s"] = 2
    first.directory.see()
    first.directory.looks_help = False
    refused = first.ask("GET", "/v1/streams/s")
    assert (refused.status_code, refused.json()["code"]) == (503, "not_owner")


def test_the_first_controller_looks_again_where_the_owner_has_changed(cluster: Cluster, make: Make) -> None:
    first, _, third = make(1), make(2), make(3)
    cluster.give("s", 2)
    cluster.give("s", 3, seen_by={2, 3})
    assert third.ask("PUT", "/v1/streams/s", STREAM).status_code == 201
    assert first.ask("GET", "/v1/streams/s").status_code == 200
    assert first.directory.looked >= 1


def test_a_controller_that_has_become_the_owner_answers_itself(cluster: Cluster, make: Make) -> None:
    first, _ = make(1), make(2)
    first.ask("PUT", "/v1/streams/s", STREAM)
    cluster.give("s", 2)
    cluster.give("s", 1, seen_by={2})
    assert first.ask("POST", "/v1/streams/s/notes", note(1)).status_code == 200
    cluster.give("s", 2, seen_by={1})
    cluster.give("s", 1, seen_by={2})
    assert first.ask("PATCH", "/v1/streams/s", {"min_writers": 2}).json()["min_writers"] == 2


def test_a_call_waits_while_the_stream_is_handed_over(cluster: Cluster, make: Make) -> None:
    first, second = make(1), make(2)
    second.ask("PUT", "/v1/streams/s", STREAM)
    cluster.give("s", None)
    refused = first.ask("GET", "/v1/streams/s")
    assert (refused.status_code, refused.json()["code"]) == (503, "not_owner")
    cluster.give("s", 2)
    assert first.ask("GET", "/v1/streams/s").status_code == 200


def test_a_controller_without_a_lease_serves_nothing(two: Two) -> None:
    first, _ = two
    first.directory.serving = False
    refused = first.ask("GET", "/v1/streams/s")
    assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
    assert first.ask("GET", "/healthz").is_success


@pytest.mark.parametrize("path", ["/v1/streams/s/writers/x/notes", "/v1/streams/s/t/notes"])
def test_a_path_that_no_route_has_is_unknown_at_every_controller(two: Two, path: str) -> None:
    for controller in two:
        refused = controller.ask("POST", path, note(5))
        assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    assert two[1].ask("GET", "/v1/streams/s/writers").json()["writers"] == []
