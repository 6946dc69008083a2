"""`wait`, against a controller in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import click
import pytest

from controller.cli.options import duration

NOON = 1_700_000_000_000  # 2023-11-14 22:13:20


def until(milliseconds: int) -> str:
    return str(NOON + milliseconds)


def test_what_is_there_ends_with_0_and_says_where(served: Any, strandline: Callable[..., Any]) -> None:
    stream = served.stream()
    served.note(stream, "w1", NOON + 100, s0=5)
    done = strandline("wait", stream, "2023-11-14T22:13:20.100Z")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{stream} has everything older than 2023-11-14 22:13:20.100Z, below 0=5\n"


def test_what_is_not_there_in_time_ends_with_3_and_names_the_holder(
    served: Any, strandline: Callable[..., Any]
) -> None:
    stream = served.stream()
    served.note(stream, "slow", NOON, s0=5)
    served.note(stream, "fast", NOON + 900, s1=5)
    done = strandline("wait", stream, "--until", until(100), "--timeout", "0", "--json")
    assert (done.code, json.loads(done.out)["held_by"]["writer"]) == (3, "slow")
    told = json.loads(done.err)
    assert told["exit_status"] == 3
    assert told["detail"].startswith("everything older than 2023-11-14 22:13:20.100Z is not there: ")
    assert told["detail"].endswith(f"{stream} has come to 2023-11-14 22:13:20.000Z, and slow holds it back")


def test_while_it_waits_it_says_who_holds_time_back_and_ends_when_it_is_there(
    served: Any, start: Callable[..., subprocess.Popen[str]]
) -> None:
    stream = served.stream()
    served.note(stream, "slow", NOON, s0=5)
    waiting = start("wait", stream, "--until", until(100), "--timeout", "60s")
    assert waiting.stderr is not None
    line = waiting.stderr.readline()  # once the controller has answered for the first time
    assert line.startswith("waiting for 2023-11-14 22:13:20.100Z: ") and "slow holds, " in line
    served.note(stream, "slow", NOON + 100, s0=6)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, err) == (0, "")
    assert out == f"{stream} has everything older than 2023-11-14 22:13:20.100Z, below 0=6\n"


def test_a_stream_without_a_lost_writer_is_enough_only_if_allowed(served: Any, strandline: Callable[..., Any]) -> None:
    stream = served.stream()
    served.note(stream, "lost", NOON, s0=5)
    served.note(stream, "alive", NOON + 500, s1=5)
    served.call("POST", f"/v1/streams/{stream}/writers/lost/exclude")
    wanted = ("wait", stream, "--until", until(300), "--timeout", "0")
    done = strandline(*wanted)
    assert done.code == 3 and "without lost (see --allow-incomplete)" in done.err
    done = strandline(*wanted, "--allow-incomplete")
    assert (done.code, done.out.endswith(", without lost\n")) == (0, True)


def test_a_span_of_time_is_seconds_or_has_a_unit_and_is_bounded() -> None:
    given = ("90", "1.5s", "15 min", "2h")
    assert [duration(7_200_000)(text) for text in given] == [90_000, 1_500, 900_000, 7_200_000]
    with pytest.raises(click.BadParameter, match="too long: the most is 2 h"):
        duration(7_200_000)("3h")


@pytest.mark.parametrize(("scale", "word"), [(0.001, "seconds"), (1_000, "microseconds")])
def test_a_time_in_another_unit_is_refused_by_what_the_stream_has_come_to(
    served: Any, strandline: Callable[..., Any], scale: float, word: str
) -> None:
    stream = served.stream()
    served.note(stream, "w1", NOON, s0=5)
    time = int(NOON * scale)
    done = strandline("wait", stream, "--until", str(time), "--timeout", "60s")
    assert done.code == 1
    said = f"{time} looks like {word}, and {stream} has come to 2023-11-14 22:13:20.000Z: give it in milliseconds"
    assert said in done.err
    assert strandline("wait", stream, "--until", "1971-01-01").code == 0  # a date is what it says


def test_a_date_between_two_milliseconds_is_waited_for_to_its_end(served: Any, strandline: Callable[..., Any]) -> None:
    stream, date = served.stream(), "2023-11-14T22:13:20.0005Z"
    served.note(stream, "w1", NOON, s0=5)
    assert strandline("wait", stream, "--until", date, "--timeout", "0.1s").code == 3
    served.note(stream, "w1", NOON + 1, s0=5)
    assert strandline("wait", stream, "--until", date).code == 0
    assert strandline("position", stream, date).out == strandline("position", stream, str(NOON)).out


def test_a_stream_in_seconds_says_so_in_its_state_and_its_index(served: Any, strandline: Callable[..., Any]) -> None:
    stream = served.stream()
    served.note(stream, "w1", NOON // 1_000, s0=5)
    (status,) = served.call("GET", f"/v1/status?stream={stream}")["streams"]
    assert status["reason"].endswith("; its time looks like seconds, and dates have to be in milliseconds")
    assert "these times look like seconds: writers have to note milliseconds" in strandline("index", stream, "0").out
    other = served.stream()
    served.note(other, "w1", -62_135_596_800_000, s0=5)  # the year 1
    (status,) = served.call("GET", f"/v1/status?stream={other}")["streams"]
    assert "looks like" not in status["reason"]
