"""`watch`: which writer stalls a stream and when it times out, on a terminal and without one, until Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from controller.cli.stream_table import STREAMS_SHOWN, StreamsSeen, lines_of
from controller.operators.wording import Times

NOON = 1_700_000_000_000
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def stalled(served: Any, **settings: Any) -> str:
    """A stream in which `w2` has come far, and `w1`, which noted first, holds time back."""
    stream: str = served.stream(**settings)
    served.note(stream, "w1", NOON, s0=1)
    served.note(stream, "w2", NOON + 60_000, s1=1)
    return stream


def timed_out(served: Any, stream: str) -> None:
    """Nobody may be silent any more, and `w1` is."""
    served.call("PATCH", f"/v1/streams/{stream}", {"writer_timeout_ms": 1})


def lines_until(process: subprocess.Popen[str], wanted: str) -> list[str]:
    """The lines that come, up to the first with these words."""
    assert process.stdout is not None
    found = []
    for line in process.stdout:
        found.append(line)
        if wanted in line:
            return found
    raise AssertionError(f"it ended without {wanted!r}: {found}")


class Screen:
    """A terminal: what was written to it, and how it answers."""

    def __init__(self) -> None:
        self.controlling, self.side = pty.openpty()
        self.written = ""

    def read_until(self, wanted: str, times: int = 1) -> str:
        """All that was written, when these words are among it so often."""
        while self.written.count(wanted) < times:
            ready, _, _ = select.select([self.controlling], [], [], 60)
            assert ready, f"{wanted!r} does not come after {self.written!r}"
            self.written += os.read(self.controlling, 65_536).decode()
        return self.written

    def type(self, text: str) -> None:
        os.write(self.controlling, text.encode())

    def close(self) -> None:
        os.close(self.controlling)
        os.close(self.side)


@pytest.fixture
def screen() -> Iterator[Screen]:
    terminal = Screen()
    yield terminal
    terminal.close()


def test_what_has_no_status_says_why() -> None:
    seen = StreamsSeen(unread={"busy": "stream_loading", "torn": "store_corrupt", "new": "of_tomorrow"})
    said = {name: lines_of(name, seen, Times())[0].cells[-1] for name in ("busy", "torn", "new", "gone")}
    assert said["busy"] == "is being read from the store" and "strandline check" in said["torn"]
    assert (said["new"], said["gone"]) == ("not known: of_tomorrow", "the stream is gone")


@pytest.mark.parametrize("json_too", [(), ("--json",)], ids=["lines", "json"])
def test_ctrl_c_ends_it_with_130_and_no_traceback(
    served: Any, start: Callable[..., subprocess.Popen[str]], json_too: tuple[str, ...]
) -> None:
    stream = stalled(served)
    process = start("watch", stream, *json_too)
    lines_until(process, stream)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "")


def test_on_a_terminal_the_table_is_painted_in_place(
    served: Any, start: Callable[..., subprocess.Popen[str]], screen: Screen
) -> None:
    stream = stalled(served)
    process = start("watch", stream, stdin=screen.side, stdout=screen.side)
    screen.read_until("w1 holds, ", times=2)
    timed_out(served, stream)
    written = screen.read_until("the last mark is without w1")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    frames = [ESCAPE.sub("", frame).split("\r\n") for frame in written.split("\x1b[H")[1:]]
    assert len(frames) >= 3
    assert all(frame[0].startswith(f"strandline watch: {served.url}") for frame in frames)
    assert all(frame[2].startswith("STREAM") and frame[3].startswith(stream) for frame in frames[:-1])
    assert "w1 holds, " in frames[0][3] and "times out in " in frames[0][3]
    assert (process.returncode, err) == (130, "")


def test_it_goes_on_while_the_controller_is_away(
    serve: Callable[[], Any], start: Callable[..., subprocess.Popen[str]]
) -> None:
    own = serve()
    stream = stalled(own)
    process = start("watch", controller=own.url)
    lines_until(process, stream)
    own.kill()
    found = lines_until(process, "this is from before: ")
    assert f"the controller at {own.url} was not reached" in found[-1]
    assert any(line.startswith(stream) for line in lines_until(process, "this is from before: "))
    assert process.poll() is None


# -- exclude and include ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "code", "state"),
    [("\n", 1, "active"), ("y\n", 0, "excluded")],
)
def test_at_a_terminal_it_asks_first(
    served: Any, start: Callable[..., subprocess.Popen[str]], screen: Screen, typed: str, code: int, state: str
) -> None:
    stream = stalled(served)
    process = start("exclude", stream, "w1", stdin=screen.side, stderr=screen.side)
    asked = screen.read_until("[y/N]")
    assert f"Exclude w1 from {stream}?" in asked and "2023-11-14 22:14:20.000Z, 60 s further." in asked
    screen.type(typed)
    assert process.wait(timeout=30) == code
    assert served.call("GET", f"/v1/streams/{stream}/writers")["writers"][0]["state"] == state


def test_a_writer_whose_notes_are_refused_as_too_far_ahead_is_named_with_the_reason(
    served: Any, strandline: Callable[..., Any]
) -> None:
    stream, now = served.stream(), served.clock()
    for writer in ("right", "far"):
        served.note(stream, writer, now, s0=1)
    note = {"writer": "far", "time": now + 7_230_000, "position": {"0": 2}}
    assert httpx.post(f"{served.url}/v1/streams/{stream}/notes", json=note).status_code == 422
    line = strandline("overview", stream).out.splitlines()[1]
    assert line.split()[1] == "ahead" and "notes of far are refused: 2 h 0 min ahead" in line


def test_streams_in_trouble_come_first_and_alone_if_that_is_asked(
    serve: Callable[[], Any], strandline: Callable[..., Any]
) -> None:
    own = serve()
    fine = [own.stream() for _ in range(STREAMS_SHOWN + 5)]
    stuck = stalled(own)
    timed_out(own, stuck)
    own.note(stuck, "w2", NOON + 70_000, s1=2)
    assert sorted([*fine, stuck])[STREAMS_SHOWN:] != []
    lines = strandline("overview", "--controller", own.url).out.splitlines()
    assert lines[0].startswith("STREAM") and lines[1].startswith(stuck)
    alone = strandline("overview", "--trouble", "--controller", own.url)
    shown = {line.split()[0] for line in alone.out.splitlines()}
    assert alone.code == 0 and shown.isdisjoint(fine)
