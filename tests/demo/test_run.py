"""The demo with Spark as its user meets it: it shows what it promises, and Ctrl-C leaves nothing behind."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from strandline_demo.outcome import ROWS
from tests.demo.running import Start, read_until
from tests.spark_python import ready_spark_python

pytestmark = pytest.mark.full

# No delay at all for the plain watermark, so that it loses events unless the machine is very slow.
SHORT = ("--duration", "12", "--outage", "6", "--delay", "0", "--rate", "50")


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What Spark starts where it needs a Python."""
    with ready_spark_python(tmp_path_factory.mktemp("python")) as program:
        yield program


@pytest.fixture
def start_spark(start: Start, pythons: str) -> Start:
    """Starts the demo with Spark."""

    def start_spark(*arguments: str, **variables: str) -> subprocess.Popen[str]:
        return start("--spark", *arguments, **{"PYSPARK_PYTHON": pythons, **variables})

    return start_spark


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        (("--outage", "25"), {}, "--outage cannot be 25: it is at most --duration less 6 seconds"),
        ((), {"STRANDLINE_RATE": "5001"}, "5001 is not in the range 1<=x<=5000"),
        ((), {"JAVA_HOME": "no-java-here"}, "Spark needs Java 17"),
        ((), {"PYSPARK_PYTHON": "no-such-python"}, "set PYSPARK_PYTHON"),
    ],
)
def test_what_cannot_work_is_told_clearly_before_anything_is_started(
    start_spark: Start, tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], words: str
) -> None:
    process = start_spark(*arguments, **variables)
    output, _ = process.communicate()
    assert process.returncode in (1, 2)
    assert words in output
    assert "Traceback" not in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_the_demo_counts_every_event_and_reports_the_guess_truthfully(
    start_spark: Start, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, running_in: Callable[[Path], set[int]]
) -> None:
    names = tmp_path_factory.mktemp("names") / "hosts"  # all that Java finds: not the name of this machine
    names.write_text("127.0.0.1 localhost\n")
    process = start_spark(*SHORT, "--out", "shown.png", "--keep", JAVA_TOOL_OPTIONS=f"-Djdk.net.hosts.file={names}")
    output = read_until(process, "Ctrl-C ends it")
    (address,) = re.findall(r"explore: (http://\S+)/streams/demo;", output)
    assert httpx.get(f"{address}/v1/streams/demo").json()["sealed"]
    assert httpx.get(f"{address}/streams/demo").headers["content-type"] == "text/html; charset=utf-8"
    process.send_signal(signal.SIGINT)
    last, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output + last
    kept = Path(re.findall(r"^kept: (.+)$", last, re.MULTILINE)[0])
    assert (kept / "demo.db").is_file()
    rows = (re.split(r" {3,}", line.strip()) for line in output.splitlines())
    table = {row[0]: [cell.replace(" ", "") for cell in row[1:]] for row in rows if len(row) == 3}
    exact, plain = ([int(table[name][column]) for name in ROWS[1:7]] for column in (0, 1))
    assert 2_000 < exact[0] <= 2_400  # three writers for 12 s, one for half of that, 50 a second
    assert exact[1:] == [0, 0, 6, 0, 0]
    written, missing, dropped, _, wrong, left_open = plain
    assert written == exact[0]
    assert (missing > 0) == (dropped > 0) == (wrong > 0)  # how much depends on when Spark begins its batches
    assert left_open > 0  # the guess never comes past the newest event
    assert "offline holds time back (silent for" in output
    assert f"picture: {tmp_path / 'shown.png'}" in output
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "shown.png", kept])
    assert running_in(tmp_path) == set()


MOMENTS = [("spark: starting", 2)]  # itself and the controller; Spark's process comes about now
if os.environ.get("STORY") == "full":
    MOMENTS.append(("writers: ", 8))  # and Spark's, Java and the writers


@pytest.mark.spark
@pytest.mark.parametrize(("moment", "processes"), MOMENTS)
def test_a_signal_ends_it_and_leaves_no_process_and_no_folder(
    start_spark: Start, tmp_path: Path, running_in: Callable[[Path], set[int]], moment: str, processes: int
) -> None:
    process = start_spark(*SHORT)
    read_until(process, moment)
    deadline = time.monotonic() + 60
    while len(running_in(tmp_path)) < processes:  # one that has just been started has no environment yet
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    for _ in range(2):  # impatience changes nothing
        process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "nothing is left running" in output
    assert running_in(tmp_path) == set()
    assert list(tmp_path.iterdir()) == []
