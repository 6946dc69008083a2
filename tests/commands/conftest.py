"""A controller in a process of its own, and `strandline` as a person or a script would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from controller.cli import main
from tests.served import OwnProcess, run_command

ROOT = Path(__file__).parents[2]
STRANDLINE = (sys.executable, "-m", "controller")


def environment(**given: str) -> dict[str, str]:
    """This process's own, without what would set options."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STRANDLINE_")}
    return {**kept, "PYTHONPATH": str(ROOT), **given}


class Served:
    """`strandline serve` on a free port, and calls to bring about what commands then show."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self._serving = OwnProcess(folder / "store.db", port=port)
        self.process, self.url, self._client = self._serving.process, self._serving.url, self._serving.client
        self._names = (f"orders-{number}" for number in count(1))

    def call(self, method: str, path: str, body: object = None) -> Any:
        response = self._client.request(method, path, json=body)
        assert response.status_code < 300, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    def clock(self) -> int:
        return int(self._client.get("/v1/streams").headers["strandline-time"])

    def stream(self, **settings: Any) -> str:
        """A new stream with two segments, in which every note makes a mark."""
        name = next(self._names)
        self.call("PUT", f"/v1/streams/{name}", {"segments": 2, "mark_interval_ms": 0, **settings})
        return name

    def note(self, stream: str, writer: str, time: int, **position: int) -> None:
        offsets = {segment.removeprefix("s"): offset for segment, offset in position.items()}
        self.call("POST", f"/v1/streams/{stream}/notes", {"writer": writer, "time": time, "position": offsets})

    def kill(self) -> None:
        self._serving.kill()


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command printed, and what it left with."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The controller that the tests share; each has streams of its own."""
    controller = Served(tmp_path_factory.mktemp("served"))
    yield controller
    controller.kill()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts a controller on a store of the test's own."""
    started: list[Served] = []

    def begin(port: int = 0) -> Served:
        started.append(Served(tmp_path, port))
        return started[-1]

    yield begin
    for each in started:
        if each.process.poll() is None:
            each.kill()


@pytest.fixture
def strandline(served: Served, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process, which is quick, against the shared controller."""

    def run(*words: str) -> Ran:
        asks = words[0] not in ("completion", "assess") and "--controller" not in words
        capsys.readouterr()
        code = main([*words, "--controller", served.url] if asks else words)
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def outside(served: Served, tmp_path: Path) -> Run:
    """Runs a command in a process of its own, away from a terminal, with variables that are given by name."""

    def run(*words: str, **given: str) -> Ran:
        variables = environment(**{"STRANDLINE_CONTROLLER": served.url, **given})
        done = run_command(*words, environment=variables, folder=tmp_path)
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def start(served: Served, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command that goes on until it is told to end; whatever `more` says goes to Popen."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str, controller: str = served.url, columns: int = 200, **more: Any) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(
            subprocess.Popen(
                [*STRANDLINE, *words],
                cwd=tmp_path,
                env=environment(STRANDLINE_CONTROLLER=controller, TERM="xterm", COLUMNS=str(columns), LINES="30"),
                text=True,
                **{**pipes, **more},
            )
        )
        return started[-1]

    yield begin
    for each in started:
        if each.poll() is None:
            each.kill()
        each.communicate(timeout=30)
