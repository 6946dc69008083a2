"""Waiting over HTTP until everything older than a time is there."""

from concurrent.futures import Future
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.usefixtures("store_url")


CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": 60_000}


def at(controller: Any, time: int, **query: Any) -> dict[str, Any]:
    asked = "".join(f"&{name}={value}" for name, value in query.items())
    found: dict[str, Any] = controller.call("GET", f"/v1/streams/s/marks/at?time={time}{asked}")
    return found


def wait_soon(controller: Any, time: int, more: str = "") -> Future[httpx.Response]:
    """A call that waits by the time this returns."""
    waiting: Future[httpx.Response] = controller.request_soon(
        "GET", f"/v1/streams/s/marks/at?time={time}&wait_ms=30000{more}"
    )
    while not controller.app.state.controller.reading.waiting and not waiting.done():
        controller.call("GET", "/v1/streams/s")
    return waiting


def test_a_wait_ends_with_the_mark_that_reaches_the_time_and_until_then_the_answer_names_who_holds_it(
    controller: Any,
) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    assert at(controller, 100)["reached"] is None
    controller.note("slow", 100, {"0": 1})
    waiting = wait_soon(controller, 200)
    controller.note("fast", 900, {"1": 1})
    controller.note("slow", 150, {"0": 2})

    found = at(controller, 200, wait_ms=1)
    assert (found["there"], found["complete"], found["reached"], found["ceiling"]) == (False, False, 150, None)
    assert (found["held_by"]["writer"], found["held_by"]["released_in_ms"]) == ("slow", 60_000)
    controller.note("slow", 200, {"0": 3})

    found = waiting.result(60).json()
    assert (found["there"], found["complete"], found["reached"], found["held_by"]) == (True, True, 200, None)
    assert found["ceiling"]["cut"] == {"0": 3, "1": 1}


def test_a_mark_without_a_lost_writer_is_enough_only_if_that_is_allowed(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.note("lost", 100, {"0": 1})
    controller.pass_time(30_000)
    controller.note("alive", 500, {"1": 1})
    allowed = wait_soon(controller, 300, "&allow_incomplete=true")
    wanting = wait_soon(controller, 300)

    controller.pass_time(30_000)

    found = allowed.result(60).json()
    assert (found["there"], found["complete"], found["excluded"]) == (True, False, ["lost"])
    # A complete mark of the past counts though the newest is not, and all that is said then is said of that mark.
    assert [at(controller, 100)[name] for name in ("complete", "excluded", "reached")] == [True, [], 100]
    assert (at(controller, 101)["there"], at(controller, 101)["complete"]) == (True, False)
    assert not wanting.done()
    controller.note("lost", 600, {"0": 2})  # it is back, and says that it wrote nothing older since
    controller.note("alive", 700, {"1": 2})
    found = wanting.result(60).json()
    assert (found["there"], found["complete"], found["reached"]) == (True, True, 600)
    assert found["ceiling"]["cut"] == {"0": 2, "1": 2}, "not that of the mark before, which lacks what was lost"


def test_a_wait_ends_with_its_stream_which_has_everything_when_sealed_and_nothing_when_deleted(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.note("a", 100, {"0": 1})
    waiting = wait_soon(controller, 900)

    controller.call("POST", "/v1/streams/s/seal")

    found = waiting.result(60).json()
    assert (found["sealed"], found["there"], found["complete"], found["ceiling"]) == (True, True, True, None)
    controller.call("DELETE", "/v1/streams/s")
    controller.call("PUT", "/v1/streams/s", CONFIG)
    waiting = wait_soon(controller, 900)

    controller.call("DELETE", "/v1/streams/s")

    assert waiting.result(60).json()["code"] == "unknown_stream"


def test_an_ingestion_stream_at_rest_reaches_the_time_without_a_mark(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 1, "time_domain": "ingestion", "idle_lag_ms": 1_000})
    now = controller.clock.now
    controller.note("a", now, {"0": 1})
    controller.call("POST", "/v1/streams/s/writers/a/idle")
    waiting = wait_soon(controller, now + 10_000)

    controller.pass_time(11_000)

    found = waiting.result(60).json()
    assert (found["there"], found["complete"], found["reached"], found["ceiling"]) == (True, True, now + 10_000, None)


def test_a_stream_at_rest_has_everything_older_though_its_last_mark_left_a_reporter_out(controller: Any) -> None:
    settings = {"segments": 1, "time_domain": "ingestion", "idle_lag_ms": 100, "writer_timeout_ms": 5_000}
    controller.call("PUT", "/v1/streams/s", settings)

    def tail(reporter: str) -> None:
        body = {"reporter": reporter, "time": controller.clock.now, "position": {"0": 1}}
        controller.call("POST", "/v1/streams/s/tail", body)

    tail("a")
    tail("b")
    for _ in range(2):
        controller.pass_time(3_000)
        tail("a")
    reached = at(controller, controller.clock.now)
    assert (reached["there"], reached["excluded"]) == (True, ["b"])
    time = controller.clock.now
    tail("b")
    for reporter in "ab":
        controller.call("POST", f"/v1/streams/s/writers/{reporter}/idle")
    controller.pass_time(5_000)
    assert [at(controller, time)[name] for name in ("complete", "excluded", "ceiling")] == [True, [], None]
