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


def test_an_overview_names_the_holder_and_when_it_times_out(served: Any, strandline: Callable[..., Any]) -> None:
    stream = stalled(served, writer_timeout_ms=600_000)
    done = strandline("overview", stream)
    assert done.code == 0
    assert re.search(rf"^{stream} .* w1 holds, [\d.]+ s silent, times out in \d+ min", done.out, re.MULTILINE)


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


def test_who_holds_time_back_is_excluded_and_included_again(served: Any, strandline: Callable[..., Any]) -> None:
    stream = stalled(served)
    done = strandline("exclude", stream, "w1")
    assert done.code == 0
    assert done.out.startswith(f"w1 is excluded from {stream}\nnew mark: seq 2  time 2023-11-14 22:14:20.000Z")
    assert served.call("GET", f"/v1/streams/{stream}/writers")["writers"][0]["state"] == "excluded"
    assert strandline("include", stream, "w1").out == f"w1 counts in {stream} again\n"
    assert served.call("GET", f"/v1/streams/{stream}/writers")["writers"][0]["state"] == "behind"


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


def test_refusals_have_a_column_where_there_are_some_and_nobody_holds_a_stream_without_writers(
    serve: Callable[[], Any], strandline: Callable[..., Any]
) -> None:
    own = serve()
    first, other = own.stream(), own.stream()
    header, *lines = strandline("overview", "--controller", own.url).out.splitlines()
    assert "REFUSED" not in header and header.endswith("HELD BY")
    assert [line.split()[-1] for line in lines] == ["nobody", "nobody"]
    own.note(first, "w", NOON, s0=1)
    with pytest.raises(AssertionError, match="409"):
        own.note(first, "w", NOON - 1, s0=1)
    while "REFUSED" not in header:  # a status is shared for a second
        header, *lines = strandline("overview", "--controller", own.url).out.splitlines()
    column = header.index("REFUSED")
    shown = {line.split()[0]: line[column:].split("  ")[0] for line in lines}
    assert shown[first].startswith("1, last ") and shown[other] == "–"


@pytest.mark.parametrize("command", ["exclude", "close"])
def test_where_time_would_go_further_than_five_minutes_somebody_has_to_be_asked(
    served: Any, strandline: Callable[..., Any], command: str
) -> None:
    stream = served.stream()
    for writer, time in (("w1", NOON), ("w2", NOON + 3_600_000)):
        served.note(stream, writer, time, s0=1)
    refused = strandline(command, stream, "w1")
    assert refused.code == 1 and refused.err.startswith(f"strandline {command}: nothing was changed: Time goes from ")
    there = "2023-11-14 22:13:20.000Z to 2023-11-14 23:13:20.000Z, 60 min 0 s further; it never goes back"
    assert there in refused.err and refused.err.endswith("give --yes\n")
    (mark,) = served.call("GET", f"/v1/streams/{stream}/marks")["marks"]
    assert mark["time"] == NOON
    assert strandline(command, stream, "w1", "--yes").code == 0
    assert strandline(command, stream, "w2").code == 0  # nothing moves
    assert served.call("GET", f"/v1/streams/{stream}/marks")["marks"][-1]["time"] == NOON + 3_600_000


def test_so_does_who_includes_the_writer_to_which_it_would_go(served: Any, strandline: Callable[..., Any]) -> None:
    stream = served.stream()
    for writer, time in (("w1", NOON), ("w2", NOON + 3_600_000)):
        served.note(stream, writer, time, s0=1)
    for writer in ("w2", "w1"):
        assert strandline("exclude", stream, writer).code == 0  # nothing moves
    refused = strandline("include", stream, "w2")
    assert refused.code == 1 and "60 min 0 s further; it never goes back" in refused.err
    assert [strandline("include", stream, each).code for each in ("w1", "w2")] == [0, 0]


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
