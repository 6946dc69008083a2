"""The demo as its user meets it: it shows what it promises, and Ctrl-C leaves nothing behind."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.spark_python import spark_python

ROOT = Path(__file__).resolve().parents[2]
DEMO = "import sys; from strandline_demo import main; sys.exit(main(sys.argv[1:]))"
ROW = re.compile(r"^(?P<name>\S.{27}\S*) +(?P<exact>[\d ]*\d) {3,}(?P<plain>[\d ]*\d)$", re.MULTILINE)

pytestmark = pytest.mark.spark


Running = Callable[..., AbstractContextManager[subprocess.Popen[str]]]


@pytest.fixture
def running(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Running:
    """Starts the demo as a process that leads its own group, with its scratch folders under the test's."""
    search = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    python = spark_python(tmp_path_factory.mktemp("python"))

    @contextmanager
    def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [sys.executable, "-c", DEMO, *arguments],
            cwd=tmp_path, env=os.environ | {"PYTHONPATH": search, "TMPDIR": str(tmp_path), "PYSPARK_PYTHON": python},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()

    return running


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Reads lines up to the one that has these words; returns all of them."""
    lines = []
    for line in process.stdout or ():
        lines.append(line)
        if words in line:
            return "".join(lines)
    raise AssertionError(f"it ended without {words!r}:\n{''.join(lines)}")


def rows(output: str) -> dict[str, tuple[int, int]]:
    """The lines of the table that hold counts: exact and plain, by name."""
    return {
        row["name"].strip(): (int(row["exact"].replace(" ", "")), int(row["plain"].replace(" ", "")))
        for row in ROW.finditer(output)
    }


FULL = os.environ.get("STORY") == "full"
# A line of the demo, and how many processes there are when it comes.
BEFORE_QUERIES = "spark: starting", 2  # itself and the controller; Spark's process comes about now
WHILE_THEY_RUN = "writers: ", 8  # and Spark's, Java and the writers; it takes Spark's start to come so far

# No delay at all for the plain watermark, so that it loses events however slow the machine is.
SHORT = ("--duration", "12", "--outage", "6", "--skew", "1", "--delay", "0", "--rate", "50")


def test_it_loses_nothing_with_the_exact_watermark_and_something_with_the_plain_one(
    running: Running, tmp_path: Path, watch: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with running(*SHORT, "--port", port, "--out", "shown.png", "--keep") as process:
            output = read_until(process, "Ctrl-C ends it")
            address = re.search(r"look round: (http://\S+)/streams/demo;", output)
            assert address is not None, output
            assert httpx.get(f"{address[1]}/v1/streams/demo").json()["sealed"]
            page = httpx.get(f"{address[1]}/streams/demo")
            assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
            process.send_signal(signal.SIGINT)
            last, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output + last
    kept = re.search(r"^kept: (.+)$", last, re.MULTILINE)
    assert kept is not None, last
    assert (Path(kept[1]) / "events.db").is_file()
    assert f"port {port} is taken" in output
    table = rows(output)
    written = table["events written"][0]
    assert 1_900 < written <= 2_400  # three writers for 12 s and one for half of that, 50 a second
    assert table["events missing"][0] == table["rows dropped"][0] == table["windows wrong"][0] == 0
    assert table["windows emitted"][0] == 6
    assert table["windows left open at the end"][0] == 0
    assert table["events missing"][1] >= table["rows dropped"][1] > 0
    assert table["windows wrong"][1] > 0
    assert "offline holds time back (silent for" in output
    assert f"picture: {tmp_path / 'shown.png'}" in output
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "shown.png", Path(kept[1])])
    assert watch.belonging_to(tmp_path) == {}


@pytest.mark.parametrize(
    ("moment", "processes", "number"),
    [
        (*BEFORE_QUERIES, signal.SIGTERM),
        (*BEFORE_QUERIES, signal.SIGINT),
        *([(*WHILE_THEY_RUN, signal.SIGTERM), (*WHILE_THEY_RUN, signal.SIGINT)] if FULL else []),
    ],
)
def test_ctrl_c_leaves_no_process_and_no_folder(
    running: Running, tmp_path: Path, watch: Any, moment: str, processes: int, number: signal.Signals
) -> None:
    with running(*SHORT, "--port", "0") as process:
        read_until(process, moment)
        assert len(watch.belonging_to(tmp_path)) >= processes
        process.send_signal(number)
        process.send_signal(number)  # impatience changes nothing
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number, output
    assert "nothing is left running" in output
    assert watch.belonging_to(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []
