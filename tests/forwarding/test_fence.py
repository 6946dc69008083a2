"""What answers tell of owners, and what controllers make of the fence that callers send back."""

from __future__ import annotations

import httpx
import pytest

from controller.cluster.records import Kind
from strandline.testing import NOON, ManualClock
from tests.forwarding.conftest import STREAM, Cluster, Make, RealController, note

pytestmark = pytest.mark.full

Two = tuple[RealController, RealController]


def told(answer: httpx.Response) -> tuple[list[str], list[str]]:
    return answer.headers.get_list("strandline-fence"), answer.headers.get_list("strandline-owner")


@pytest.fixture
def two_for_clients(cluster: Cluster, make: Make) -> Two:
    """Two controllers that clients can reach, of which the second owns the stream `s`."""
    first = make(1, client_address="http://one.example")
    second = make(2, client_address="http://two.example")
    cluster.give("s", 2)
    second.directory.fence = 7
    assert second.ask("PUT", "/v1/streams/s", STREAM).status_code == 201
    return first, second


def test_answers_about_a_stream_name_its_owner_and_fence_once(two_for_clients: Two) -> None:
    for each in two_for_clients:
        assert told(each.ask("GET", "/v1/streams/s")) == (["7"], ["http://two.example"])
        assert told(each.ask("POST", "/v1/streams/s/notes", {"notes": [note(1)]})) == (["7"], ["http://two.example"])


def test_a_refusal_of_the_owner_has_its_fence(two_for_clients: Two) -> None:
    for each in two_for_clients:
        refused = each.ask("POST", "/v1/streams/s/time-window", {"position": {"9": 1}})
        assert refused.status_code == 422 and told(refused) == (["7"], ["http://two.example"])


def test_a_notes_owner_is_named_also_where_it_was_passed_on_with_others(two_for_clients: Two) -> None:
    first, second = two_for_clients
    assert told(first.ask("POST", "/v1/streams/s/notes", note(1))) == ([], ["http://two.example"])
    assert told(second.ask("POST", "/v1/streams/s/notes", note(2))) == (["7"], ["http://two.example"])


def test_answers_about_a_group_have_the_fence_of_its_owner(two_for_clients: Two, cluster: Cluster) -> None:
    first, _ = two_for_clients
    cluster.give("g", 2, kind=Kind.GROUP)
    assert told(first.ask("PUT", "/v1/reader-groups/g", {"streams": ["s"]})) == (["7"], ["http://two.example"])


def test_answers_about_no_single_stream_name_no_owner(two_for_clients: Two) -> None:
    first, _ = two_for_clients
    assert told(first.ask("GET", "/v1/streams")) == ([], [])
    assert told(first.ask("POST", "/v1/notes", {"notes": [note(1, stream="s")]})) == ([], [])


def test_an_owner_that_clients_cannot_reach_tells_its_fence_alone(two: Two) -> None:
    for each in two:
        assert told(each.ask("GET", "/v1/streams/s")) == (["1"], [])


def test_the_clock_of_an_answer_is_not_behind_that_of_an_earlier_owner(cluster: Cluster, make: Make) -> None:
    first, second = make(1), make(2, clock=ManualClock())
    cluster.give("s", 2)
    second.directory.floor = NOON + 5_000
    assert second.ask("PUT", "/v1/streams/s", STREAM).headers["strandline-time"] == str(NOON + 5_000)
    assert first.ask("GET", "/v1/streams/s").headers["strandline-time"] == str(NOON + 5_000)
    assert first.ask("POST", "/v1/streams/s/notes", note(1)).headers["strandline-time"] == str(NOON + 5_000)
    assert second.ask("GET", "/v1/streams").headers["strandline-time"] == str(NOON)


def test_an_owner_in_doubt_shows_nothing_older_than_the_caller_saw(two: Two) -> None:
    two[1].directory.in_doubt = True
    for each in two:
        assert each.ask("GET", "/v1/streams/s", Strandline_Fence="1").status_code == 200
        refused = each.ask("GET", "/v1/streams/s", Strandline_Fence="2")
        assert (refused.status_code, refused.json()["code"]) == (503, "not_owner")
        assert told(refused) == ([], [])


def test_a_former_owner_in_doubt_passes_the_call_on_once_it_knows(cluster: Cluster, make: Make) -> None:
    first, second = make(1), make(2)
    for each in (first, second):
        assert each.ask("PUT", "/v1/streams/s", STREAM).status_code == 201
    first.directory.in_doubt, second.directory.fence = True, 2
    cluster.give("s", 2, seen_by={2})
    assert second.ask("POST", "/v1/streams/s/notes", note(5)).is_success
    assert first.ask("GET", "/v1/streams/s/marks").json()["marks"] == []
    first.directory.looks_when_held = True
    answer = first.ask("GET", "/v1/streams/s/marks", Strandline_Fence="2")
    assert [mark["time"] for mark in answer.json()["marks"]] == [5] and told(answer) == (["2"], [])


@pytest.mark.parametrize("fence", ["-1", "two", "", "1.5", "9" * 20])
def test_a_fence_that_is_no_number_of_an_answer_is_refused(two: Two, fence: str) -> None:
    for each in two:
        refused = each.ask("GET", "/v1/streams/s", Strandline_Fence=fence)
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")


def test_a_controller_alone_tells_no_fence_and_asks_for_none(cluster: Cluster, make: Make) -> None:
    alone = make(1, alone=True)
    assert alone.ask("PUT", "/v1/streams/s", STREAM).status_code == 201
    for fence in ("1", str(2**62), "none"):
        answer = alone.ask("GET", "/v1/streams/s", Strandline_Fence=fence)
        assert answer.status_code == 200 and told(answer) == ([], [])
