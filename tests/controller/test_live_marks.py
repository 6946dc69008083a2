"""Marks as server-sent events: those of the store first, then each as it is made; no gap and no repeat."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import httpx
import pytest

from strandline.errors import Overloaded

CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None}
LIVE = "/v1/streams/s/marks/live"


def parsed(text: str) -> list[tuple[str, str | None, Any]]:
    """The events of a text: kind, id and data; comments have the kind ":"."""
    found: list[tuple[str, str | None, Any]] = []
    for block in text.split("\n\n")[:-1]:
        if block.startswith(":"):
            found.append((":", None, block))
            continue
        fields = {name: value for name, _, value in (line.partition(": ") for line in block.split("\n"))}
        found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


class Follower:
    """A reader that stays, on the ASGI application itself: what it was sent so far, and a way to go."""

    def __init__(
        self, controller: Any, path: str = LIVE, query: str = "", headers: dict[str, str] | None = None
    ) -> None:
        self._portal = controller.portal
        self.status = 0
        self.text = ""
        self._news: asyncio.Condition = self._portal.call(asyncio.Condition)
        self._leave: asyncio.Event = self._portal.call(asyncio.Event)
        given = [
            (name.lower().encode(), value.encode()) for name, value in ({"Host": "127.0.0.1"} | (headers or {})).items()
        ]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": given,
            "server": ("controller", 80),
            "client": ("test", 1),
        }
        self.ended: Future[None] = self._portal.start_task_soon(controller.app, scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        await self._leave.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        async with self._news:
            if message["type"] == "http.response.start":
                self.status = message["status"]
            self.text += message.get("body", b"").decode()
            self._news.notify_all()

    def wait_for(self, enough: Callable[[Follower], bool]) -> list[tuple[str, str | None, Any]]:
        """Waits until what was sent is enough; returns the events."""

        async def waited() -> None:
            async with self._news:
                await asyncio.wait_for(self._news.wait_for(lambda: enough(self)), 60)

        self._portal.call(waited)
        return parsed(self.text)

    def marks(self, count: int) -> list[int]:
        """The seqs of the marks, once there are so many."""
        events = self.wait_for(lambda each: each.text.count("event: mark") >= count)
        return [data["seq"] for kind, _, data in events if kind == "mark"]

    def leave(self) -> None:
        self._portal.call(self._leave.set)
        self.ended.result(60)


@pytest.fixture
def follow(controller: Any) -> Iterator[Callable[..., Follower]]:
    started: list[Follower] = []

    def begin(*arguments: Any, **more: Any) -> Follower:
        started.append(Follower(controller, *arguments, **more))
        return started[-1]

    yield begin
    for each in started:
        if not each.ended.done():
            each.leave()


def test_stored_marks_come_first_then_each_new_one(controller: Any, follow: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.note("a", 100, {"0": 1})

    reader = follow()
    assert reader.marks(1) == [1]
    for time in (200, 300):
        controller.note("a", time, {"0": time})

    assert reader.marks(3) == [1, 2, 3] and reader.status == 200
    (last,) = [(event_id, data) for kind, event_id, data in parsed(reader.text) if event_id == "3"]
    assert last == ("3", controller.marks(after=2)[0])
    # One that comes back goes on after its last event.
    assert follow(query="after=1", headers={"Last-Event-ID": "2"}).marks(1) == [3]
    assert follow(query="after=1").marks(2) == [2, 3]


def test_no_mark_is_missed_or_repeated_while_marks_are_made(start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)

    def note(first: int, last: int) -> None:
        notes = [{"writer": "a", "time": n, "position": {"0": n}} for n in range(first, last)]
        controller.call("POST", "/v1/streams/s/notes", {"notes": notes})

    note(1, 701)
    controller = start()  # which has but the newest in memory
    readers = [Follower(controller, query=f"after={after}") for after in (0, 0, 350, 699)]
    for first in range(701, 1001, 50):
        note(first, first + 50)

    for reader, after in zip(readers, (0, 0, 350, 699), strict=True):
        assert reader.marks(1000 - after) == list(range(after + 1, 1001))
        reader.leave()


def test_a_returning_reader_continues_after_its_last_event(controller: Any, follow: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    for time in (1, 2, 3):
        controller.note("a", time, {"0": time})

    assert follow(query="after=1", headers={"Last-Event-ID": "2"}).marks(1) == [3]
    assert follow(query="after=1").marks(2) == [2, 3]


BAD_STARTS: tuple[tuple[str, dict[str, str], str], ...] = (
    ("after=1", {}, "unknown_seq"),
    ("after=-1", {}, "invalid_parameter"),
    ("key=a%20b", {}, "invalid_name"),
    ("", {"Last-Event-ID": "²"}, "invalid_parameter"),
)


def test_a_bad_start_is_refused_before_anything_is_streamed(controller: Any) -> None:
    assert controller.call("GET", LIVE, expect=404)["code"] == "unknown_stream"
    controller.call("PUT", "/v1/streams/s", CONFIG)
    for query, headers, code in BAD_STARTS:
        encoded = {name: value.encode("latin-1") for name, value in headers.items()}
        answer = controller.request("GET", f"{LIVE}?{query}", headers=encoded)
        assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert controller.app.state.controller.following.readers == 0


def test_idle_advance_is_sent_once_a_second_before_marks(controller: Any, follow: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 1, "time_domain": "ingestion", "mark_interval_ms": 0})
    now = controller.clock.now
    controller.call("POST", "/v1/streams/s/tail", {"reporter": "tail", "time": now, "position": {"0": 5}})
    controller.call("POST", "/v1/streams/s/writers/tail/idle")
    controller.clock.now += 60_000

    reader = follow(query="after=1")
    began = asyncio.new_event_loop().time()
    events = reader.wait_for(lambda each: "resting" in each.text)
    assert events[-1] == ("resting", None, {"resting": now + 50_000})
    controller.clock.now += 5_000
    events = reader.wait_for(lambda each: each.text.count("resting") >= 4)
    assert [data["resting"] for kind, _, data in events if kind == "resting"] == [now + 50_000, now + 55_000]
    assert asyncio.new_event_loop().time() - began > 0.9

    body = {"reporter": "tail", "time": controller.clock.now, "position": {"0": 6}}
    controller.call("POST", "/v1/streams/s/tail", body)
    assert reader.marks(2) == [2, 3]  # where rest had come to, and the report


def test_events_end_with_their_stream_and_readers_of_a_sealed_one_need_not_return(controller: Any, follow: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.note("a", 100, {"0": 1})
    waiting, other = follow(), follow(query="key=other")
    waiting.marks(1)

    controller.call("POST", "/v1/streams/s/seal")

    for each in (waiting, other):
        each.ended.result(60)
        assert parsed(each.text)[-1] == ("end", None, {"reason": "sealed"})
    assert controller.request("GET", f"{LIVE}?after=1").status_code == 204
    assert follow().marks(1) == [1]

    controller.call("DELETE", "/v1/streams/s")
    controller.call("PUT", "/v1/streams/s", CONFIG)
    reader = follow()
    reader.wait_for(lambda each: bool(each.text))
    controller.call("DELETE", "/v1/streams/s")
    reader.ended.result(60)
    assert parsed(reader.text)[-1] == ("end", None, {"reason": "unknown_stream"})


def test_readers_that_stay_are_bounded_and_one_that_goes_makes_room(controller: Any, follow: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    following = controller.app.state.controller.following
    following._limit = 2
    readers = [follow(), follow()]
    for each in readers:
        each.wait_for(lambda follower: bool(follower.text))

    refused = controller.request("GET", LIVE)
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (503, "overloaded", "1")
    assert "2 readers follow marks" in refused.json()["detail"]

    readers[0].leave()
    assert following.readers == 1
    follow().wait_for(lambda follower: bool(follower.text))


def test_a_caller_gets_no_more_places_than_it_leaves_to_others(controller: Any) -> None:
    following = controller.app.state.controller.following
    following._limit = 8
    for _ in range(4):
        following.enter("greedy")
    with pytest.raises(Overloaded, match="4 readers of yours follow marks, and 4 places are left, the limit is 4"):
        following.enter("greedy")
    following.enter("modest")
    following.leave("greedy")
    following.enter("modest")
    with pytest.raises(Overloaded):
        following.enter("greedy")
    following.leave("modest")
    following.enter("greedy")


def test_events_end_in_order_when_the_controller_stops(serve: Any) -> None:
    server = serve()
    server.client.put("/v1/streams/s", json=CONFIG)
    server.client.post("/v1/streams/s/notes", json={"writer": "a", "time": 1, "position": {}})
    with httpx.Client(base_url=server.url, timeout=60) as client, client.stream("GET", LIVE) as reader:
        assert reader.headers["content-type"].startswith("text/event-stream")
        lines = reader.iter_lines()
        text = "\n".join(next(lines) for _ in range(5))
        assert server.stop() == 0
        text += "\n" + "\n".join(lines) + "\n\n"

    assert [kind for kind, _, _ in parsed(text)] == [":", "mark", "end"]
    assert server.errors == ""
