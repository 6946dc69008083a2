"""Answers that wait, that have no end, and bodies of any size pass through."""

from __future__ import annotations

import threading

import httpx

from strandline.limits import BODY_BYTES
from tests.forwarding.conftest import RealController, note

Two = tuple[RealController, RealController]


def test_a_waiting_reader_hears_of_the_next_mark(two: Two) -> None:
    first, second = two
    heard: list[httpx.Response] = []
    reading = threading.Thread(target=lambda: heard.append(first.ask("GET", "/v1/streams/s/marks?wait_ms=30000")))
    reading.start()
    while not second.app.state.controller.reading.waiting:
        assert second.ask("GET", "/healthz").is_success
    second.ask("POST", "/v1/streams/s/notes", note(7))
    reading.join(30)
    assert [mark["time"] for mark in heard[0].json()["marks"]] == [7]


def test_a_reader_that_leaves_is_gone_at_the_owner_too(two: Two) -> None:
    first, second = two
    with first.client.stream("GET", "/v1/streams/s/marks/live") as events:
        lines = events.iter_lines()
        assert next(lines).startswith(":")
        assert second.app.state.controller.following.readers == 1
    while second.app.state.controller.following.readers:
        assert second.ask("GET", "/healthz").is_success


def test_each_mark_comes_as_it_is_made(two: Two) -> None:
    first, second = two
    with first.client.stream("GET", "/v1/streams/s/marks/live") as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        lines = events.iter_lines()
        for time in (1, 2, 3):
            second.ask("POST", "/v1/streams/s/notes", note(time))
            assert f'"time":{time}' in next(line for line in lines if line.startswith("data:"))


def test_reading_goes_on_behind_the_last_event_id(two: Two) -> None:
    first, _ = two
    for time in (1, 2):
        first.ask("POST", "/v1/streams/s/notes", note(time))
    with first.client.stream("GET", "/v1/streams/s/marks/live", headers={"Last-Event-ID": "1"}) as events:
        assert "id: 2" in next(line for line in events.iter_lines() if line.startswith("id:"))


def test_waits_end_in_order_when_the_controller_that_passed_them_on_stops(two: Two) -> None:
    first, second = two
    polled: list[httpx.Response] = []
    lines: list[str] = []

    def poll() -> None:
        polled.append(httpx.get(f"{first.url}/v1/streams/s/marks?wait_ms=30000", timeout=30, trust_env=False))

    def follow() -> None:
        with httpx.stream("GET", f"{first.url}/v1/streams/s/marks/live", timeout=30, trust_env=False) as events:
            lines.extend(events.iter_lines())

    calls = [threading.Thread(target=poll), threading.Thread(target=follow)]
    for each in calls:
        each.start()
    while not (second.app.state.controller.reading.waiting and second.app.state.controller.following.readers):
        assert second.ask("GET", "/healthz").is_success
    first.stop()
    for each in calls:
        each.join(5)
        assert not each.is_alive()
    assert (polled[0].status_code, polled[0].json()["code"]) == (504, "owner_undecided")
    assert 'data: {"reason":"stopping"}' in lines


def test_the_events_of_a_sealed_stream_end(two: Two) -> None:
    first, _ = two
    first.ask("POST", "/v1/streams/s/notes", note(1))
    with first.client.stream("GET", "/v1/streams/s/marks/live") as events:
        lines = events.iter_lines()
        next(line for line in lines if line.startswith("id:"))
        assert first.ask("POST", "/v1/streams/s/seal", {}).is_success
        assert 'data: {"reason":"sealed"}' in list(lines)


def test_a_body_that_is_too_large_is_refused_at_once(two: Two) -> None:
    first, _ = two
    refused = first.client.post("/v1/streams/s/notes", content=b" " * (BODY_BYTES + 1))
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")


def test_a_large_body_passes_as_a_whole(two: Two) -> None:
    first, _ = two
    notes = [note(time, writer=f"w{time}") for time in range(10_000)]
    answer = first.ask("POST", "/v1/streams/s/notes", {"notes": notes})
    assert len(answer.json()["results"]) == 10_000


def test_a_badly_made_note_is_refused_by_the_owner(two: Two) -> None:
    first, second = two
    assert first.ask("POST", "/v1/streams/s/notes", {"writer": 3}).json()["code"] == "invalid_note"
    first.ask("POST", "/v1/streams/s/notes", note(1))
    assert "invalid_note" in second.ask("GET", "/v1/streams/s/journal").text


def test_an_answer_without_a_body_passes(two: Two) -> None:
    first, second = two
    deleted = first.ask("DELETE", "/v1/streams/s")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert second.ask("GET", "/v1/streams/s").status_code == 404
