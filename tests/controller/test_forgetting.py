"""Writers that come and go, over HTTP: how many a stream may have, who is forgotten, and what is answered then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strandline.core.forgetting import GONE_KEPT_MS

pytestmark = pytest.mark.usefixtures("store_url")


STREAM = "/v1/streams/s"
CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": None}


def writers(controller: Any) -> list[str]:
    """Who is known in the end: the next call that changes a stream forgets whom it may."""
    controller.pass_time(GONE_KEPT_MS)
    controller.call("POST", f"{STREAM}/marks", {})
    return [each["writer"] for each in controller.call("GET", f"{STREAM}/writers")["writers"]]


def come_and_go(controller: Any, name: str, time: int) -> int:
    """A writer registers, notes and closes, and another one's mark passes it; returns its epoch."""
    epoch: int = controller.call("PUT", f"{STREAM}/writers/{name}")["epoch"]
    controller.note(name, time, {"0": time}, epoch=epoch)
    controller.call("DELETE", f"{STREAM}/writers/{name}?epoch={epoch}")
    controller.note("stays", time + 1, {"1": time})
    return epoch


def test_a_writer_beyond_max_writers_is_refused_with_the_setting(controller: Any) -> None:
    created = controller.call("PUT", STREAM, {**CONFIG, "max_writers": 2})
    assert created["max_writers"] == 2
    controller.note("a", 1, {"0": 1})
    controller.note("b", 1, {"0": 1})

    told = controller.call("PUT", f"{STREAM}/writers/c", expect=422)
    noted = controller.call("POST", f"{STREAM}/notes", {"writer": "c", "time": 2, "position": {"0": 2}}, expect=422)
    both = [{"writer": name, "time": 2, "position": {"0": 2}} for name in ("c", "a")]
    batch = controller.call("POST", f"{STREAM}/notes", {"notes": both})["results"]

    for problem in (told, noted, batch[0]):
        assert (problem["code"], problem["count"], problem["limit"]) == ("too_many", 3, 2)
        assert problem["setting"] == "max_writers"
        assert (
            "3 writers in a stream are more than the limit of 2, which the stream's max_writers sets"
            in (problem["detail"])
        )
    assert "code" not in batch[1]
    assert writers(controller) == ["a", "b"]
    controller.call("PATCH", STREAM, {"max_writers": 3})
    controller.call("PUT", f"{STREAM}/writers/c")
    assert writers(controller) == ["a", "b", "c"]


def test_a_forgotten_writers_answers_and_epochs_hold_after_a_restart(start: Callable[..., Any]) -> None:
    controller = start()
    controller.call("PUT", STREAM, CONFIG)
    controller.note("stays", 1, {"1": 1})
    epochs = [come_and_go(controller, f"pod-{time}", time) for time in (10, 20, 30)]
    assert writers(controller) == ["stays"]
    before = controller.call("GET", f"{STREAM}/marks")

    controller = start()

    assert writers(controller) == ["stays"]
    assert controller.call("GET", f"{STREAM}/marks") == before
    assert controller.call("DELETE", f"{STREAM}/writers/pod-10?epoch={epochs[0]}")["marks"] == []
    late = {"writer": "pod-10", "time": 11, "position": {"0": 11}, "epoch": epochs[0]}
    assert controller.call("POST", f"{STREAM}/notes", late, expect=409)["code"] == "fenced"
    assert controller.call("PUT", f"{STREAM}/writers/pod-10")["epoch"] > max(epochs)
    assert controller.call("POST", f"{STREAM}/writers/nobody/idle?epoch=99", expect=404)["code"] == "unknown_writer"
