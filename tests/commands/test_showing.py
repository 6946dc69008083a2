"""`streams`, `writers`, `marks` and `window`, against a controller in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from controller.cli import marks
from strandline.client.calls import describe

DAY = "2023-11-14 22:13:"
NOON = 1_700_000_000_000  # DAY, and 20 seconds


def two_marks(served: Any, **settings: Any) -> str:
    """A stream with marks at 0.1 s and 0.2 s after NOON, which `w1` holds back."""
    stream: str = served.stream(**settings)
    served.note(stream, "w1", NOON + 100, s0=5)
    served.note(stream, "w2", NOON + 900, s1=7)
    served.note(stream, "w1", NOON + 200, s0=9)
    return stream


# -- streams ---------------------------------------------------------------------------------------------------


def test_an_ingestion_stream_at_rest_shows_the_time_that_it_has_reached(
    served: Any, strandline: Callable[..., Any]
) -> None:
    stream = served.stream(time_domain="ingestion", idle_lag_ms=0)
    served.note(stream, "w1", served.clock(), s0=1)
    served.call("POST", f"/v1/streams/{stream}/writers/w1/idle")
    assert "at rest" in strandline("streams", stream).out
    assert "at rest: time has reached 20" in strandline("marks", stream).out
    frame = json.loads(strandline("overview", stream, "--json").out)
    assert frame["resting"][stream] >= served.clock() - 60_000


# -- writers ---------------------------------------------------------------------------------------------------


def test_writers_beyond_one_page_are_listed_as_well(served: Any, strandline: Callable[..., Any]) -> None:
    stream = served.stream()
    notes = [{"writer": f"w{number:04}", "time": 1, "position": {"0": 1}} for number in range(1_001)]
    served.call("POST", f"/v1/streams/{stream}/notes", {"notes": notes})
    assert len(json.loads(strandline("writers", stream, "--json").out)["writers"]) == 1_001


# -- marks -----------------------------------------------------------------------------------------------------


def test_following_prints_each_mark_and_ends_with_the_stream(
    served: Any, start: Callable[..., subprocess.Popen[str]]
) -> None:
    stream = two_marks(served)
    process = start("marks", stream, "--follow", "--json")
    assert process.stdout is not None
    assert [json.loads(process.stdout.readline())["seq"] for _ in range(2)] == [1, 2]
    served.note(stream, "w1", NOON + 300, s0=10)
    assert json.loads(process.stdout.readline())["time"] == NOON + 300
    served.call("POST", f"/v1/streams/{stream}/seal", {"final": {"0": 10, "1": 7}})
    out, err = process.communicate(timeout=30)
    assert [json.loads(line)["time"] for line in out.splitlines()] == [NOON + 900]
    assert (process.returncode, err) == (0, "")


def test_following_shows_the_last_mark_of_a_stream_that_ends_between_two_calls(
    served: Any, strandline: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = two_marks(served)

    def seal_and_describe(name: str) -> Any:
        served.call("POST", f"/v1/streams/{name}/seal", {"final": {"0": 9, "1": 7}})
        return describe(name)

    monkeypatch.setattr(marks, "describe", seal_and_describe)
    out = strandline("marks", stream, "--after", "2", "--follow", "--json").out
    assert [json.loads(line)["time"] for line in out.splitlines()] == [NOON + 900]


def test_following_does_not_go_on_with_another_stream_of_the_name(
    served: Any, strandline: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = two_marks(served)

    def create_again_and_describe(name: str) -> Any:
        served.call("DELETE", f"/v1/streams/{name}")
        served.call("PUT", f"/v1/streams/{name}", {"segments": 2, "mark_interval_ms": 0})
        for time in range(4):
            served.note(name, "w1", NOON + time, s0=time)
        return describe(name)

    monkeypatch.setattr(marks, "describe", create_again_and_describe)
    done = strandline("marks", stream, "--after", "2", "--follow", "--json")
    assert done.out == "" and f"stream '{stream}' was deleted and created again" in done.err


def test_following_goes_on_when_the_controller_is_back(
    serve: Callable[..., Any], start: Callable[..., subprocess.Popen[str]]
) -> None:
    own = serve()
    stream = two_marks(own)
    followed = {
        "marks": ("marks", stream, "--after", "1"),
        "journal": ("journal", stream, "--topic", "action"),
    }
    processes = {what: start(*words, "--follow", "--json", controller=own.url) for what, words in followed.items()}
    lines: dict[str, Callable[[], str]] = {}
    for what, process in processes.items():
        assert process.stdout is not None and process.stderr is not None
        lines[what] = process.stdout.readline
        lines[what]()
    own.kill()
    for process in processes.values():
        assert process.stderr is not None
        assert process.stderr.readline().startswith("waiting: ")
    again = serve(port=int(own.url.rpartition(":")[2]))
    again.note(stream, "w1", NOON + 300, s0=10)
    again.call("POST", f"/v1/streams/{stream}/writers/w1/exclude")
    assert json.loads(lines["marks"]())["time"] == NOON + 300
    assert json.loads(lines["journal"]())["kind"] == "excluded"


# -- windows, positions, the index -----------------------------------------------------------------------------
