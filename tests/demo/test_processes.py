"""The processes of the demo are heard, and none outlives it, however it or they end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.terminal import Failure
from strandline_demo.processes import Processes

# It does not end when it is asked to. Its child may be in a group of its own. Both hold the file `held`.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = open("held", "w")
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=CHILD, stdout=held)
print("waiting", flush=True)
time.sleep(600)
"""
APART = """
import os, sys, tempfile
from strandline_demo.processes import send
print("hello", sys.argv[1], os.getsid(0) == os.getpid(), sys.stdin.read() == "", "STRANDLINE_PORT" in os.environ)
print("leaves what it leaves in", tempfile.gettempdir())
send("news", text="all is well")
"""
PARENT = """
import sys
from pathlib import Path
from strandline_demo.processes import Processes
with Processes(Path(sys.argv[1])) as processes:
    processes.start("lasting", "part")
    print(processes.receive(120)["text"], flush=True)
    processes.receive(600)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where parts are found, and by which they are known. Signals are dealt with as before in the end."""
    for name, value in {"PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path), "STRANDLINE_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield tmp_path
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_lines_and_messages_are_heard_in_order_and_then_the_end(folder: Path) -> None:
    (folder / "part.py").write_text(APART)
    work = folder / "work"
    work.mkdir()
    with Processes(work) as processes:
        processes.start("apart", "part", "you")
        assert processes.receive(120) == {"part": "apart", "kind": "line", "text": "hello you True True False"}
        left = {"part": "apart", "kind": "line", "text": f"leaves what it leaves in {work}"}
        assert processes.receive(120) == left
        assert processes.receive(120) == {"part": "apart", "kind": "news", "text": "all is well"}
        assert processes.receive(120) == {"part": "apart", "kind": "ended", "status": 0}
        assert processes.receive(0) is None


@pytest.mark.parametrize(("name", "status"), [("unlucky", 1), ("controller", 0)])
def test_a_process_that_should_not_end_is_named_with_its_last_words(folder: Path, name: str, status: int) -> None:
    (folder / "part.py").write_text(f"import sys; sys.stderr.write('the disk is full'); sys.exit({status})")
    words = rf"'{name}' .* status {status}; its last lines:\nthe disk is full"
    with Processes(folder) as processes, pytest.raises(Failure, match=words):
        processes.start(name, "part")
        processes.receive(120)


def test_in_the_end_nothing_is_left_of_a_process_and_its_children(
    folder: Path, running_in: Callable[[Path], set[int]]
) -> None:
    (folder / "part.py").write_text(STUBBORN.replace("CHILD", "0"))
    with Processes(folder) as processes:
        processes.start("lasting", "part")
        processes.receive(120)
        deadline = time.monotonic() + 60
        while len(running_in(folder)) < 2:  # the child has no environment for a moment while it is started
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert running_in(folder) == set()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_processes_end_with_the_demo_also_when_it_is_killed(folder: Path, number: signal.Signals) -> None:
    (folder / "part.py").write_text(STUBBORN.replace("CHILD", "None"))
    os.mkfifo(folder / "held")
    command = [sys.executable, "-c", PARENT, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent, (folder / "held").open() as held:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"waiting\n"
        parent.send_signal(number)
        assert held.read() == ""  # which comes with the end of all who hold it
