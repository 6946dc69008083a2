"""The demo without Spark as its user meets it: exact windows beside what a delay would have lost, in any install."""

import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from controller.terminal import Failure
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from strandline_demo.plain_run import PlainRun
from strandline_demo.processes import Processes
from strandline_demo.world import WINDOW_MS, DemoSettings
from tests.demo.running import Start, read_until

SHORT = ("--duration", "12", "--outage", "6", "--delay", "1", "--rate", "50")
NOT_NEEDED = ("matplotlib", "pandas", "py4j", "pyspark", "spark_integration")
# In place of a package: an import of it is noted, and fails.
BLOCK = "open({found!r}, 'a').write(__name__); raise ImportError(__name__)"


def cells(line: str) -> list[str]:
    """The cells of a line of the table."""
    return re.split(r" {2,}", line.strip())


def test_windows_are_whole_where_a_delay_loses_some_without_spark(
    start: Start, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, running_in: Callable[[Path], set[int]]
) -> None:
    blocked = tmp_path_factory.mktemp("blocked")
    found = blocked / "found"
    for name in NOT_NEEDED:
        (blocked / f"{name}.py").write_text(BLOCK.format(found=str(found)))
    process = start(*SHORT, PYTHONPATH=str(blocked), JAVA_HOME="no-java-here")
    first = read_until(process, "\n")
    (page,) = re.findall(r"^dashboard: (http://127\.0\.0\.1:[0-9]+/streams/demo), ", first)
    assert httpx.get(page).headers["content-type"] == "text/html; charset=utf-8"
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert not found.exists(), found.read_text()
    assert "offline holds time back (silent for" in output
    lines = output.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("window "))
    assert cells(lines[begin]) == ["window", "events", "Strandline", "wait", "lost: 0.5 s", "lost: 1 s", "lost: 2 s"]
    windows = [cells(line) for line in lines[begin + 2 : begin + 2 + 12_000 // WINDOW_MS]]
    events, emitted, *lost = [[int(row[column].replace(" ", "")) for row in windows] for column in (1, 2, 4, 5, 6)]
    assert emitted == events and 1_800 < sum(events) <= 2_400  # three writers for 12 s, one for half of that
    assert cells(lines[begin + 3 + len(windows)]) == [
        "all", *(f"{sum(numbers):,}".replace(",", " ") for numbers in (events, emitted, *lost))
    ]  # fmt: skip
    assert sum(lost[0]) >= sum(lost[1]) >= sum(lost[2]) > 0
    assert "not\nSpark itself" in output and "a delay of 1 s (█ kept, ░ lost)" in output
    assert "strandline demo --spark runs real Spark" in lines[-1] and "there is no java" in lines[-1]
    assert running_in(tmp_path) == set()
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_it_and_leaves_no_process_and_no_folder(
    start: Start, tmp_path: Path, running_in: Callable[[Path], set[int]]
) -> None:
    process = start(*SHORT)
    read_until(process, "writers: ")
    deadline = time.monotonic() + 60
    while len(running_in(tmp_path)) < 7:  # itself, the controller, the reader and four writers
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    for _ in range(2):  # impatience changes nothing
        process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "nothing is left running" in output and "Traceback" not in output
    assert running_in(tmp_path) == set()
    assert list(tmp_path.iterdir()) == []


def test_a_window_without_one_of_its_events_is_named_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SqliteLog.create(tmp_path / "demo.db", 1) as log:
        log.append(Event(b'{"time": %d}' % time_ms, segment="0") for time_ms in (1, 2, WINDOW_MS))
    run = PlainRun(DemoSettings(), tmp_path, Processes(tmp_path))
    windows = [{"start": 0, "events": 1, "at": WINDOW_MS}, {"start": WINDOW_MS, "events": 1, "at": 2 * WINDOW_MS}]
    with pytest.raises(Failure, match=r"the window 0 – 2 s has 1 of its 2 events$"):
        run.show({"windows": windows})
    assert "lost: 5 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--outage", "13"), "--outage cannot be 13: it is at most --duration less 6 seconds"),
        (("--out", "shown.png"), "--out is where the picture of --spark goes: give --spark as well"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    start: Start, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    process: subprocess.Popen[str] = start(*arguments)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, f"strandline demo: {words}\n")
    assert list(tmp_path.iterdir()) == []
