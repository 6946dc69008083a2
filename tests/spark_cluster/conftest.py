"""A real standalone cluster, a Spark Connect server, and jobs that run on them: all processes of their own.

Strandline is installed from its wheel for them, and they run in other folders than the project's, so that what the
package lacks shows.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import venv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark
import pytest

from benchmarks.starting import STARTS, TOO_SLOW
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from tests.java import spark_options
from tests.ports import free_port
from tests.served import ROOT, OwnProcess
from tests.spark.connector import connector_jars
from tests.spark.operators import Rows, made
from tests.spark_python import ready_spark_python
from tests.summary import skip

PATIENCE_S = 240
LOOK_S = 0.05
BASE_MS = 100_000  # to Spark, what is not after 1970 began is late
SPARK_HOME = Path(pyspark.__file__).parent
JOB = Path(__file__).with_name("job.py")


def wait_for(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(LOOK_S)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the project's dependencies, and the project itself from its wheel."""
    folder = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    home = folder / "python"
    venv.create(home, with_pip=False, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    # Packages only, and not what they say of further paths: the editable install of this very checkout among them.
    dependencies = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "dependencies.pth").write_text(dependencies + "\n")
    target = ["--no-deps", "--no-index", "--quiet", "--target", str(packages)]
    subprocess.run([sys.executable, "-m", "pip", "install", *target, str(wheel)], check=True, capture_output=True)
    return home / "bin" / "python"


class Job:
    """A user's job. As a supervisor would, it starts it again where it ended since a Python was too slow to start."""

    def __init__(self, start: Callable[[int], tuple[subprocess.Popen[bytes], Path]]) -> None:
        """`start` is told how many times the job was started before."""
        self._start, self._starts = start, 0
        self._go()

    def _go(self) -> None:
        self._process, self._output = self._start(self._starts)
        self._starts += 1

    def said(self) -> str:
        """What it said since it was started last."""
        return self._output.read_text()

    def wait_for(self, happened: Callable[[], bool], what: str) -> None:
        """Waits for something that the job brings about. Where the job ends first, the test fails at once."""

        def looked() -> bool:
            found = happened()
            assert found or not self._has_ended(), f"the job ended before: {what}; it said {self.said()[-4000:]}"
            return found

        wait_for(looked, f"{what}; the job's output is in {self._output}")

    def wait(self) -> None:
        """Waits until it has ended, and well."""
        wait_for(self._has_ended, f"the job ends; its output is in {self._output}")

    def kill(self) -> None:
        """Ends it at once, for good."""
        self._process.kill()
        self._process.wait()

    def _has_ended(self) -> bool:
        status = self._process.poll()
        if status is None or status == 0:
            return status == 0
        said = self.said()
        assert TOO_SLOW in said and self._starts < STARTS, f"the job ended with status {status}; it said {said[-4000:]}"
        self._go()
        return False


class Machine:
    """Starts Spark's own processes and jobs, each in a folder of its own, and ends them."""

    def __init__(self, folder: Path, python: Path, sparks_python: str) -> None:
        """Jobs run in `python`; Spark starts the other one."""
        self._folder = folder
        self._python = python
        self._started: list[subprocess.Popen[bytes]] = []
        self._environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
            "PYSPARK_PYTHON": sparks_python,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": spark_options(),
            "SPARK_NO_DAEMONIZE": "1",
            "STRANDLINE_TESTS_IN": str(folder),
        }

    def spark_class(self, name: str, *arguments: str, output: str, until: str) -> Callable[[], str]:
        """Starts one of Spark's programs. What it returns waits until it runs, and gives what it has said by then."""
        process, said = self._start([str(SPARK_HOME / "bin" / "spark-class"), name, *arguments], output)

        def wait() -> str:
            wait_for(lambda: process.poll() is not None or until in said.read_text(), f"{until!r} in {said}")
            assert process.poll() is None, said.read_text()[-4000:]
            return said.read_text()

        return wait

    def job(self, given: Mapping[str, object], output: str, program: Path = JOB) -> Job:
        """Starts a user's job; returns when its queries run."""
        command = [str(self._python), str(program), json.dumps(given)]
        job = Job(lambda number: self._start(command, f"{output}-{number}"))
        job.wait_for(lambda: "ready" in job.said(), "the job starts")
        return job

    def _start(self, command: list[str], output: str) -> tuple[subprocess.Popen[bytes], Path]:
        home = self._folder / output
        home.mkdir()
        said = home / "output"
        with said.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=home, env=self._environment, stdout=file, stderr=file, start_new_session=True
            )
        self._started.append(process)
        return process, said

    def executors(self) -> list[int]:
        """The processes that run a job's tasks on the workers."""
        return self._processes(b"CoarseGrainedExecutorBackend")

    def _processes(self, word: bytes) -> list[int]:
        """Ours whose command has a word."""
        ours = f"STRANDLINE_TESTS_IN={self._folder}\0".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdecimal() and ours in (entry / "environ").read_bytes() + b"\0":
                    command = (entry / "cmdline").read_bytes()
                    if word in command:
                        found.append(int(entry.name))
            except OSError:
                continue  # it has ended meanwhile
        return found

    def end(self) -> None:
        """Ends everything that was started, and what that started."""
        for process in self._started:
            process.kill()
        for pid in self._processes(b""):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in self._started:
            process.wait()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, installed: Path) -> Iterator[Machine]:
    if not Path("/proc/self/environ").exists():
        skip("processes are looked for in /proc, which is not here", "use a Linux machine")
    folder = tmp_path_factory.mktemp("machine")
    with ready_spark_python(folder, installed) as python:
        started = Machine(folder, installed, python)
        yield started
        started.end()


@pytest.fixture(scope="module")
def cluster(machine: Machine) -> str:
    """The address of a standalone cluster: a master, and two workers of one core each."""
    master = machine.spark_class(
        "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0",
        output="master", until="New state: ALIVE",
    )  # fmt: skip
    found = re.search(r"spark://127\.0\.0\.1:\d+", master())
    assert found is not None
    workers = [
        machine.spark_class(
            "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g",
            "--webui-port", "0", found[0], output=f"worker-{number}", until="Successfully registered with master",
        )
        for number in (1, 2)
    ]  # fmt: skip
    for worker in workers:
        worker()
    return found[0]


@pytest.fixture(scope="module")
def connect_server(machine: Machine) -> str:
    """The address of a Spark Connect server."""
    port = free_port()
    server = machine.spark_class(
        "org.apache.spark.deploy.SparkSubmit",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", "local[2]",
        "--conf", "spark.driver.memory=512m",
        "--conf", f"spark.connect.grpc.binding.port={port}",
        "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", "spark.ui.enabled=false",
        "--conf", "spark.sql.codegen.wholeStage=false",
        "--conf", "spark.sql.streaming.pollingDelay=100ms",
        "--conf", "spark.sql.shuffle.partitions=2",
        "--conf", "spark.sql.session.timeZone=UTC",
        "--conf", f"spark.jars={connector_jars()}",
        "spark-internal",
        output="connect", until="Spark Connect server started",
    )  # fmt: skip
    server()
    return f"sc://127.0.0.1:{port}"


class Story:
    """A stream with its log, written by one writer while a job reads it."""

    def __init__(self, controller: OwnProcess, folder: Path, name: str) -> None:
        self._connection = Connection(controller.url)
        self._name = name
        self._connection.run(calls.create_stream(name, 2, StreamConfig(mark_interval_ms=0, max_ahead_ms=None)))
        self.out = folder / "out"
        self.out.mkdir()
        self._log = SqliteLog.create(folder / "log.db", 2)
        self.events: list[dict[str, Any]] = []
        self._options = {"controller": controller.url, "stream": name, "path": str(folder / "log.db")}
        self._checkpoint = str(folder / "checkpoint")

    def given(self, where: str, which: Sequence[str]) -> dict[str, object]:
        """What the job is started with: where it runs, and which operators beside timers."""
        operators = str(Path(__file__).parents[1] / "spark")
        return {
            "where": where, "out": str(self.out), "checkpoint": self._checkpoint, "options": self._options,
            "operators": operators, "which": list(which),
        }  # fmt: skip

    def write(self, start: int, end: int) -> None:
        """Events from one time to another, and some behind it, out of order; and a note for them."""
        times = [BASE_MS + time for time in (*range(start + 900, end, 1_800), *range(start, end, 1_800), end - 1)]
        events = made(times, len(self.events) + 1)
        self._log.append(Event(json.dumps(each).encode(), key=each["key"].encode()) for each in events)
        self.events += events
        note = Note(writer="w", times={"": BASE_MS + end}, position=self._log.positions())
        self._connection.run(calls.note(self._name, note))

    def seal(self) -> None:
        self._connection.run(calls.seal(self._name, self._log.seal()))
        self._connection.close()
        self._log.close()

    def rows(self) -> Rows:
        """What the job emitted so far."""
        files = [json.loads(file.read_text()) for file in self.out.glob("*.json")]
        return Counter((operator, key, time, value) for file in files for operator, key, time, value in file)

    def has_closed(self, end: int) -> bool:
        """Whether both queries have emitted the window of ten seconds that ends then."""
        at = BASE_MS + end - 10_000
        return {"tumbling", "timers"} <= {operator for operator, _, time, _ in self.rows() if time == at}

    def stop(self) -> None:
        """Asks the job to end when it has read everything."""
        (self.out / "stop").touch()

    @property
    def dropped(self) -> int:
        return int((self.out / "dropped").read_text())


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnProcess]:
    started = OwnProcess(tmp_path_factory.mktemp("controller") / "store.db")
    yield started
    started.stop()


@pytest.fixture
def story(controller: OwnProcess, tmp_path: Path, request: pytest.FixtureRequest) -> Story:
    return Story(controller, tmp_path, re.sub(r"\W+", "-", request.node.name)[:60])
