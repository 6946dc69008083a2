"""`wait`, against a controller in a process of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import click
import pytest

from controller.cli.options import duration

NOON = 1_700_000_000_000  # 2023-11-14 22:13:20


def until(milliseconds: int) -> str:
    return str(NOON + milliseconds)


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


def test_a_span_of_time_is_seconds_or_has_a_unit_and_is_bounded() -> None:
    given = ("90", "1.5s", "15 min", "2h")
    assert [duration(7_200_000)(text) for text in given] == [90_000, 1_500, 900_000, 7_200_000]
    with pytest.raises(click.BadParameter, match="too long: the most is 2 h"):
        duration(7_200_000)("3h")
