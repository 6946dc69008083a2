"""`POST /v1/notes` with streams of several owners."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.testing import NOON, ManualClock
from tests.forwarding.conftest import STREAM, Cluster, Make, RealController, note

pytestmark = pytest.mark.full


def three_streams(cluster: Cluster, make: Make) -> list[RealController]:
    """Stream `s1` belongs to the first controller, and so on."""
    made = [make(1), make(2, clock=ManualClock()), make(3)]
    for each in made:
        cluster.give(f"s{each.id}", each.id)
        assert each.ask("PUT", f"/v1/streams/s{each.id}", STREAM).status_code == 201
    return made


def codes(answer: Any) -> list[str | None]:
    assert answer.status_code == 200, answer.text
    return [each.get("code") for each in answer.json()["results"]]


def test_each_owner_takes_its_notes_and_results_are_in_order(cluster: Cluster, make: Make) -> None:
    first, *others = three_streams(cluster, make)
    notes = [
        note(9, stream="s3"),
        note(5, stream="s1"),
        note(4, stream="s3"),
        note(7, stream="s2"),
        note(8, stream="s2", epoch=5),
        note(6, stream="s1"),
    ]
    answer = first.ask("POST", "/v1/notes", {"notes": notes})
    assert codes(answer) == [None, None, "time_went_back", None, "fenced", None]
    assert answer.headers["strandline-time"] == str(NOON)  # of the owner whose clock is behind
    for each, time in zip([first, *others], [6, 7, 9], strict=True):
        assert each.ask("GET", f"/v1/streams/s{each.id}/marks").json()["marks"][-1]["time"] == time


def test_a_note_that_is_badly_made_harms_no_other(cluster: Cluster, make: Make) -> None:
    first, *_ = three_streams(cluster, make)
    notes = [note(1, stream="s2"), {"writer": 3}, note(1), note(1, stream="!"), note(1, stream="s1")]
    answer = first.ask("POST", "/v1/notes", {"notes": notes})
    assert codes(answer) == [None, "invalid_note", "invalid_note", "invalid_name", None]


def test_only_notes_of_an_owner_away_are_problems(cluster: Cluster, make: Make) -> None:
    first, second, _ = three_streams(cluster, make)
    second.stop()
    notes = [note(1, stream="s1"), note(1, stream="s2"), note(1, stream="s3")]
    assert codes(first.ask("POST", "/v1/notes", {"notes": notes})) == [None, "not_owner", None]


def test_where_nobody_took_anything_the_whole_answer_is_503(cluster: Cluster, make: Make) -> None:
    first, second, third = three_streams(cluster, make)
    second.stop()
    third.stop()
    notes = [note(1, stream="s2"), note(1, stream="s3")]
    answer = first.ask("POST", "/v1/notes", {"notes": notes})
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "not_owner", "1")


def test_a_batch_follows_a_stream_that_moves(cluster: Cluster, make: Make) -> None:
    first, _, third = three_streams(cluster, make)
    cluster.give("s2", 3, seen_by={2, 3})
    third.ask("PUT", "/v1/streams/s2", STREAM)
    notes = [note(1, stream="s1"), note(1, stream="s2"), note(2, stream="s2")]
    assert codes(first.ask("POST", "/v1/notes", {"notes": notes})) == [None, None, None]
    assert first.directory.looked >= 1
    assert third.ask("GET", "/v1/streams/s2/marks").json()["marks"][-1]["time"] == 2


def test_one_note_alone_needs_a_stream_in_the_path(cluster: Cluster, make: Make) -> None:
    first, *_ = three_streams(cluster, make)
    refused = first.ask("POST", "/v1/notes", note(1, stream="s2"))
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_note")
