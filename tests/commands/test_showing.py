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


def test_streams_lists_each_with_its_time_and_who_holds_it(
    serve: Callable[[], Any], strandline: Callable[..., Any]
) -> None:
    own = serve()  # the shared controller has so many streams by then that it shows the first by name only
    assert strandline("streams", "--controller", own.url).out == "there is no stream yet\n"
    stream = two_marks(own)
    done = strandline("streams", "--controller", own.url)
    (line,) = (line for line in done.out.splitlines() if line.split()[0] == stream)
    assert f"{DAY}20.200Z" in line and "2 active" in line and "w1 holds, " in line and " silent, times out in " in line
    names = strandline("streams", "--json", "--controller", own.url).out
    assert json.loads(names) == {"streams": [stream], "next": None}


def test_a_stream_is_described_with_segments_writers_marks_and_holder(
    served: Any, strandline: Callable[..., Any]
) -> None:
    stream = two_marks(served)
    scaling = {"seal": {"0": 9}, "create": [{"id": "2", "low": 0, "high": 0.5}]}
    served.call("POST", f"/v1/streams/{stream}/scale", scaling)
    page = strandline("streams", stream).out
    assert "w1 holds, " in page and "times out in " in page and "2 active" in page
    assert ["writer_timeout_ms", "600000"] in [line.split() for line in page.splitlines()]
    segments = {line.split()[0]: line for line in page.partition("Segments\n")[2].splitlines()[1:]}
    assert segments.keys() == {"0", "1", "2"}
    assert "0 to 0.5" in segments["0"] and " 9 " in segments["0"]
    assert f"{DAY}20.200Z" in page.partition("Latest marks\n")[2]
    plain = strandline("streams", stream, "--plain-times").out
    assert str(NOON + 200) in plain and DAY not in plain
    shown, told = json.loads(strandline("streams", stream, "--json").out), served.call("GET", f"/v1/streams/{stream}")
    for each in (shown, told):
        each["held_by"][""].pop("last_heard_ms_ago"), each["held_by"][""].pop("released_in_ms")
    assert shown == told


def test_keys_have_lines_of_their_own_and_times_that_are_no_dates_are_numbers(
    served: Any, strandline: Callable[..., Any]
) -> None:
    stream = served.stream()
    note = {"writer": "w1", "times": {"order_time": 250, "ship_time": NOON}, "position": {"0": 1}}
    served.call("POST", f"/v1/streams/{stream}/notes", note)
    lines = [line.split() for line in strandline("overview", stream).out.splitlines()]
    assert [line[:2] for line in lines] == [["STREAM", "KEY"], [stream, "order_time"], [stream, "ship_time"]]
    marks = ("marks", stream, "--key", "order_time")
    assert strandline(*marks).out.splitlines()[1].split()[:3] == ["1", "250", "250"]
    assert [each["key"] for each in json.loads(strandline(*marks, "--json").out)["marks"]] == ["order_time"]
    assert strandline("marks", stream).out == "no mark yet\n"


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


def test_writers_are_listed_with_state_position_and_what_they_hold(served: Any, strandline: Callable[..., Any]) -> None:
    stream = two_marks(served)
    served.call("POST", f"/v1/streams/{stream}/writers/w2/idle")
    lines = strandline("writers", stream).out.splitlines()
    assert lines[0].split()[:4] == ["WRITER", "STATE", "TIMES", "POSITION"]
    assert lines[1].split()[:2] == ["w1", "active"] and "0=9" in lines[1] and lines[1].endswith("time")
    assert lines[2].split()[:2] == ["w2", "idle"] and "1=7" in lines[2] and lines[2].endswith("–")
    found = json.loads(strandline("writers", stream, "--state", "idle", "--json").out)
    assert found["writers"] == served.call("GET", f"/v1/streams/{stream}/writers")["writers"][1:]
    assert strandline("writers", stream, "--state", "excluded").out == "no writer is excluded, of 2\n"
    keeps_up = served.stream()
    served.note(keeps_up, "tail", NOON + 100, s0=1)
    assert strandline("writers", keeps_up).out.splitlines()[1].endswith("–")


def test_writers_beyond_one_page_are_listed_as_well(served: Any, strandline: Callable[..., Any]) -> None:
    stream = served.stream()
    notes = [{"writer": f"w{number:04}", "time": 1, "position": {"0": 1}} for number in range(1_001)]
    served.call("POST", f"/v1/streams/{stream}/notes", {"notes": notes})
    assert len(json.loads(strandline("writers", stream, "--json").out)["writers"]) == 1_001


# -- marks -----------------------------------------------------------------------------------------------------


def test_marks_are_the_newest_ones_unless_a_seq_is_given(served: Any, strandline: Callable[..., Any]) -> None:
    stream = two_marks(served)
    newest = json.loads(strandline("marks", stream, "--limit", "1", "--json").out)["marks"]
    after = json.loads(strandline("marks", stream, "--after", "0", "--limit", "1", "--json").out)["marks"]
    assert [each["seq"] for each in newest] == [2]
    assert after + newest == served.call("GET", f"/v1/streams/{stream}/marks")["marks"]
    line = strandline("marks", stream).out.splitlines()[2]
    assert line.startswith(f"2    {DAY}20.200Z") and line.endswith("0=9,1=7")


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


@pytest.mark.parametrize("position", ["0=9,1=7", '{"0": 9, "1": 7}', " 0=9 , 1=7 ", "", "{}"])
def test_a_window_is_asked_for_at_a_position(served: Any, strandline: Callable[..., Any], position: str) -> None:
    stream = two_marks(served)
    done = strandline("window", stream, "--position", position)
    assert done.code == 0
    if "9" not in position:
        assert "lower          –\n" in done.out
        return
    assert f"lower          {DAY}20.200Z\n" in done.out and "mark           2\n" in done.out
    asked = served.call("POST", f"/v1/streams/{stream}/time-window", {"position": {"0": 9, "1": 7}})
    assert json.loads(strandline("window", stream, "--position", position, "--json").out) == asked


@pytest.mark.parametrize("time", [str(NOON + 150), "2023-11-14T22:13:20.150Z", "2023-11-14T23:13:20.150+01:00"])
def test_a_position_is_found_for_a_time(served: Any, strandline: Callable[..., Any], time: str) -> None:
    stream = two_marks(served)
    done = strandline("position", stream, time)
    lines = dict(line.split(None, 1) for line in done.out.replace("mark ", "mark-").splitlines())
    assert lines == {"position": "0=5", "exact": "no", "mark-before": f"{DAY}20.100Z", "mark-after": f"{DAY}20.200Z"}
    for asked in (NOON + 150, -5):  # a time before 1970 is no option
        told = served.call("GET", f"/v1/streams/{stream}/marks/at?time={asked}")
        assert json.loads(strandline("position", stream, str(asked), "--json").out) == told


@pytest.mark.parametrize("time", ["noon", "2023-13-01", "9" * 19, "12.5"])
def test_what_is_no_time_is_refused_with_what_is_one(strandline: Callable[..., Any], time: str) -> None:
    done = strandline("position", "orders", time)
    assert done.code == 2 and f"'{time}' is no time" in done.err


def test_the_index_of_a_segment_is_shown(served: Any, strandline: Callable[..., Any]) -> None:
    stream = two_marks(served)
    done = strandline("index", stream, "0", "--plain-times")
    assert [line.split() for line in done.out.splitlines()[1:]] == [["5", str(NOON + 100)], ["9", str(NOON + 200)]]
    asked = served.call("GET", f"/v1/streams/{stream}/segments/0/time-index?from_offset=9&limit=1")
    assert json.loads(strandline("index", stream, "0", "--from-offset", "9", "--limit", "1", "--json").out) == asked
    assert strandline("index", served.stream(), "0").out == "no mark covers it yet\n"
    assert "'7'" in strandline("index", stream, "7").err
