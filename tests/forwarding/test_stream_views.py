"""A reader group asks the owners of its streams; the call for that is made by controllers alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from controller.cluster.records import Kind
from controller.http.forwarding.owners import PASS_ON_MS
from tests.forwarding.conftest import STREAM, Cluster, Make, RealController, note

pytestmark = pytest.mark.full

GROUP = "/v1/reader-groups/g"
WINDOWS = "/v1/cluster/windows"
HOP = {"Strandline_Hop": "1", "Strandline_For": "2"}
Two = tuple[RealController, RealController]


@pytest.fixture
def group(cluster: Cluster, two: Two) -> Two:
    """A group of the first controller, which reads `s` of the second and `t` of its own, each noted up to 5."""
    first, _ = two
    cluster.give("g", 1, kind=Kind.GROUP)
    assert first.ask("PUT", "/v1/streams/t", STREAM).status_code == 201
    for stream in ("s", "t"):
        assert first.ask("POST", f"/v1/streams/{stream}/notes", note(5)).status_code == 200
    assert first.ask("PUT", GROUP, {"streams": ["s", "t"]}).status_code == 201
    return two


def report(controller: RealController, offset: int, epoch: int | None = None) -> Any:
    body: dict[str, Any] = {"positions": {"s": {"0": offset}, "t": {"0": offset}}}
    return controller.ask("PUT", f"{GROUP}/readers/r", body if epoch is None else {**body, "epoch": epoch})


def test_any_controller_answers_a_group_of_two_owners(group: Two) -> None:
    for controller in group:
        answer = report(controller, 5)
        assert answer.status_code == 200
        assert answer.json()["window"]["watermarks"] == {"": 5}
        assert controller.ask("GET", f"{GROUP}/lag").json()["streams"].keys() == {"s", "t"}


def test_a_groups_calls_change_nothing_while_a_streams_owner_is_away(group: Two) -> None:
    first, second = group
    epoch = report(first, 4).json()["epoch"]
    second.stop()
    for away in (
        report(first, 5, epoch),
        report(first, 5),
        first.ask("POST", f"{GROUP}/readers/r/acquire", {"epoch": epoch, "max": 1}),
    ):
        assert (away.status_code, away.json()["code"], away.json()["stream"]) == (503, "stream_away", "s")
        assert away.headers["retry-after"] == "1"
    (reader,) = first.ask("GET", GROUP).json()["readers"]
    assert (reader["epoch"], reader["owned"]) == (epoch, {"s": {"0": 4}, "t": {"0": 4}})


def test_a_reader_lives_while_it_reports_though_a_streams_owner_is_away(group: Two) -> None:
    first, second = group
    assert first.ask("PATCH", GROUP, {"reader_timeout_ms": 2 * PASS_ON_MS}).status_code == 200
    epoch = report(first, 4).json()["epoch"]
    second.stop()
    for _ in range(3):  # each takes PASS_ON_MS
        assert report(first, 5, epoch).json()["code"] == "stream_away"
    (reader,) = first.ask("GET", GROUP).json()["readers"]
    assert (reader["epoch"], reader["owned"]) == (epoch, {"s": {"0": 4}, "t": {"0": 4}})


def test_a_position_beyond_the_end_of_a_segment_changes_nothing(group: Two) -> None:
    """The end is told by the stream's owner, which the group's controller has asked before there was one."""
    first, second = group
    epoch = report(first, 4).json()["epoch"]
    halves = [{"id": "1", "low": 0, "high": 0.5}, {"id": "2", "low": 0.5, "high": 1}]
    assert second.ask("POST", "/v1/streams/s/scale", {"seal": {"0": 5}, "create": halves}).status_code == 200
    beyond = report(first, 9, epoch)
    assert (beyond.status_code, beyond.json()["code"]) == (422, "beyond_final_offset")
    assert report(first, 5, epoch).status_code == 200


def test_whoever_passed_a_groups_call_on_does_not_ask_again(group: Two, cluster: Cluster, make: Make) -> None:
    first, second = group
    third = make(3)
    cluster.give("g", 1, kind=Kind.GROUP)
    report(third, 4)
    second.stop()
    looked = third.directory.looked
    away = third.ask("GET", f"{GROUP}/time-window")
    assert (away.status_code, away.json()["code"]) == (503, "stream_away")
    assert third.directory.looked == looked and first.directory.looked > 0


def test_a_group_follows_a_stream_that_moves(group: Two, cluster: Cluster, make: Make) -> None:
    first, second = group
    report(first, 5)
    third = make(3)
    cluster.give("s", 3)
    third.ask("PUT", "/v1/streams/s", STREAM)
    before, now = (each.app.state.controller.streams.find_loaded("s") for each in (second, third))
    now.origin = before.origin  # else it were another stream of that name
    third.ask("POST", "/v1/streams/s/notes", note(9))
    assert first.ask("GET", f"{GROUP}/time-window").json()["streams"]["s"]["upper"] == 9


def test_the_status_shows_what_was_told_last(group: Two) -> None:
    first, second = group
    report(first, 5)
    second.stop()
    [shown] = first.ask("GET", "/v1/status").json()["groups"]
    assert shown["group"] == "g" and shown["watermarks"] == {"": 5}


def test_the_status_of_a_group_that_nobody_calls_follows_its_streams(group: Two) -> None:
    first, _ = group
    report(first, 9)

    def told() -> Any:
        status = first.ask("GET", "/v1/status").json()
        return [each["watermarks"] for each in status["groups"]], status["unread_groups"]

    for stream in ("s", "t"):
        first.ask("POST", f"/v1/streams/{stream}/notes", note(7))
    until_told(told, ([{"": 7}], {}))
    first.ask("DELETE", "/v1/streams/s")
    until_told(told, ([], {"g": "unknown_stream"}))


def until_told(told: Callable[[], Any], wanted: Any) -> None:
    until = time.monotonic() + 30
    while told() != wanted:
        assert time.monotonic() < until, told()
        time.sleep(0.1)


def test_a_deleted_stream_is_unknown_to_its_group(group: Two) -> None:
    first, _ = group
    epoch = report(first, 4).json()["epoch"]
    assert first.ask("DELETE", "/v1/streams/s").status_code == 204
    for _ in range(2):
        refused = report(first, 5, epoch)
        assert (refused.status_code, refused.json()["code"]) == (404, "unknown_stream")
    assert first.ask("DELETE", GROUP).status_code == 204


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        ({"streams": {"s": {}}}, {}, 400, "bad_request"),
        ({"streams": {"s": {}}}, {"Strandline_Hop": "1", "Strandline_For": "77"}, 503, "not_owner"),
        ({"streams": {"s": {}}}, {"Strandline_Hop": "2", "Strandline_For": "2"}, 400, "bad_request"),
        ({"streams": {"s": {"fence": 2}}}, HOP, 503, "not_owner"),
        ({"streams": {"u": {}}}, HOP, 404, "unknown_stream"),
        ({"streams": {"!": {}}}, HOP, 422, "invalid_name"),
        ({"streams": {"s": {"read": {"0": -1}}}}, HOP, 422, "invalid_note"),
        ({"streams": {"s": {"read": {"9": 1}}}}, HOP, 422, "unknown_segment"),
        ({"streams": {"s": {"bounds": {"!": 1}}}}, HOP, 422, "invalid_name"),
        ({"streams": {"s": {"from_time": 2**60}}}, HOP, 422, "invalid_note"),
        ({"streams": {"s": {"more": 1}}}, HOP, 422, "invalid_note"),
        ({"streams": {f"s{number}": {} for number in range(257)}}, HOP, 422, "too_many"),
    ],
)
def test_a_question_that_no_controller_asks_is_refused(
    two: Two, body: Any, headers: dict[str, str], status: int, code: str
) -> None:
    _, second = two
    refused = second.ask("POST", WINDOWS, body, **headers)
    assert (refused.status_code, refused.json()["code"]) == (status, code)


def test_an_owner_that_a_later_one_has_followed_is_not_believed(group: Two, cluster: Cluster, make: Make) -> None:
    first, second = group
    report(first, 5)
    second.stop()
    again = make(2)  # its term has a higher fence
    cluster.give("s", 2)
    assert first.ask("GET", f"{GROUP}/time-window").json()["watermarks"] == {"": 5}
    again.stop()
    before = make(3)
    cluster.give("s", 3)
    before.ask("PUT", "/v1/streams/s", STREAM)
    away = first.ask("GET", f"{GROUP}/time-window")
    assert (away.status_code, away.json()["code"]) == (503, "stream_away")
