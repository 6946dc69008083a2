"""A real controller for tests: in this process, with a clock that only they move, or in a process of its own."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from controller.commit import freshness
from controller.lifecycle import Controller
from strandline.client import calls
from strandline.client.calls import Call
from strandline.client.http import Connection
from strandline.core.config import StreamConfig
from strandline.testing import NOON, InProcessController, ManualClock
from tests.answers import check_answer
from tests.forks import Fork

Value = TypeVar("Value")
ROOT = Path(__file__).resolve().parents[1]
__all__ = [
    "AT_ONCE",
    "NOON",
    "ROOT",
    "InProcess",
    "ManualClock",
    "Outside",
    "OwnProcess",
    "Shared",
    "TwoControllers",
    "run_command",
    "served",
]

# Marks with every advance, and times that need not be near the clock.
AT_ONCE = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None)


class InProcess(InProcessController):
    """A controller in this process, asked by path and JSON."""

    token: str | None = None  # with which it is asked

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """The answer to any request, which has to be of the shape that is declared for its route."""
        if self.token is not None:
            more["headers"] = {"Authorization": f"Bearer {self.token}", **more.get("headers", {})}
        response = super().request(method, path, **more)
        if response.is_success:
            check_answer(method, path, response)
        return response

    async def _run_due(self) -> None:
        await self.app.state.controller.run_due()

    def call(self, method: str, path: str, body: object = None, *, expect: int | None = None) -> Any:
        """The answer's JSON; with `expect`, the status has to be that one, else any below 300."""
        response = self.request(method, path, **({} if body is None else {"json": body}))
        wanted = response.status_code < 300 if expect is None else response.status_code == expect
        assert wanted, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    def note(self, writer: str, time: int, position: dict[str, int], stream: str = "s", **more: Any) -> Any:
        body = {"writer": writer, "time": time, "position": position, **more}
        return self.call("POST", f"/v1/streams/{stream}/notes", body)

    def told(self, topic: str | None = None, *, path: str = "/v1/streams/s") -> list[dict[str, Any]]:
        """What a journal has so far; what waits for the next commit has gone with it by then."""
        self.portal.call(self._run_due)
        found = self.call("GET", f"{path}/journal?limit=1000")["entries"]
        return [each for each in found if topic in (None, each["topic"])]

    def marks(self, stream: str = "s", **query: Any) -> list[dict[str, Any]]:
        response = self.request("GET", f"/v1/streams/{stream}/marks", params={"limit": 1000, **query})
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["marks"]
        return found


class Shared(str):
    """The URL of a store that two controllers serve."""


class TwoControllers(InProcess):
    """Two controllers in this process on one store, with one clock. Each call goes to the other one than the call
    before it; `app` is the one that was called last. None answers from memory without a look at the store: what the
    tests ask for depends on the call before, which real callers show by the version that they send."""

    def _begin(self) -> None:
        looks = pytest.MonkeyPatch()
        looks.setattr(freshness, "FRESH_S", -1.0)
        self._serving.callback(looks.undo)
        super()._begin()
        first = self.app
        super()._begin()
        self._apps = itertools.cycle((first, self.app))
        self._controllers: list[Controller] = [each.state.controller for each in (first, self.app)]

    async def _application(self, scope: Any, receive: Any, send: Any) -> None:
        self.app = next(self._apps)
        await super()._application(scope, receive, send)

    async def _run_due(self) -> None:
        for each in self._controllers:
            await each.run_due()

    async def _pass_time(self, milliseconds: int) -> None:
        until = self.clock.now + milliseconds
        while True:
            nexts = [
                (moment, each) for each in self._controllers if (moment := each.streams.timers.next_moment) is not None
            ]
            if not nexts:
                break
            moment, due = min(nexts, key=lambda each: each[0])
            wait_ms = max(0, moment - due.clock.now())
            if self.clock.now + wait_ms >= until:
                break
            self.clock.now += wait_ms
            due.streams.timers.run_due()
            await asyncio.sleep(0)  # lets tasks run that wait for the effects
        self.clock.now = until
        await self._run_due()


class OwnProcess:
    """`strandline serve` in a process of its own, on a free port of the loopback interface."""

    def __init__(
        self,
        database: Path | str,
        *options: str,
        port: int = 0,
        trusted: ssl.SSLContext | None = None,
        files: int | None = None,
        program: Path = ROOT,
        **limits: float,
    ) -> None:
        """`trusted` is for TLS; `files` is how many files it may have open, connections among them; `program` is the
        folder with the program; `limits` are those of the application that it is to have in place of its own.

        The process is a fork, which saves most of its start, unless it is to have another program or other bounds."""
        self.database = database
        module = "tests.limited" if limits else "controller"
        arguments = [json.dumps(limits)] if limits else []
        arguments += ["serve", "--database", str(database), "--port", str(port), *options]
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the process; a pipe could fill up
        self.process: Fork | subprocess.Popen[str]
        if sys.platform == "linux" and files is None and program is ROOT:
            self.process = Fork(module, arguments, self._said.fileno())
        else:
            bounds = [] if files is None else ["prlimit", f"--nofile={files}:{files}"]
            environment = {**os.environ, "PYTHONPATH": str(program)}
            folder = None if program is ROOT else program  # Python looks there first
            self.process = subprocess.Popen(
                [*bounds, sys.executable, "-m", module, *arguments],
                stdout=subprocess.PIPE, stderr=self._said, text=True, env=environment, cwd=folder,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"https?://\S+", line)
        if found is None:
            self._end()
            raise AssertionError(f"it did not start: {line}{self.errors}")
        self.url = found[0]
        self.client = httpx.Client(base_url=self.url, timeout=30, verify=trusted or False)

    def kill(self) -> None:
        """Ends it as a crash would."""
        self.process.kill()
        self._finish()

    def stop(self, *signals: signal.Signals) -> int:
        """Ends it in order, by SIGTERM unless these are given; returns what it exits with."""
        for each in signals or (signal.SIGTERM,):
            self.process.send_signal(each)
        return self._finish()

    def _finish(self) -> int:
        self.client.close()
        return self._end()

    def _end(self) -> int:
        status = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.read()  # to its end, which comes when the processes that it forked have ended as well
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self._said.seek(0)
        self.log = self._said.read()
        self.errors = "".join(line for line in self.log.splitlines(keepends=True) if " INFO " not in line)
        self._said.close()
        return status


def run_command(
    *words: str, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`strandline` with these words, run to its end in a process of its own, with nothing to read.

    The process is a fork, as that of `OwnProcess`."""
    if sys.platform != "linux":
        return subprocess.run(
            [sys.executable, "-m", "controller", *words], env={**(environment or os.environ), "PYTHONPATH": str(ROOT)},
            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
    with tempfile.TemporaryFile("w+") as errors:
        process = Fork("controller", words, errors.fileno(), environment=environment, folder=folder)
        process.stdin.close()
        try:
            with process.stdout:
                said = process.stdout.read()
            status = process.wait()
        finally:
            process.kill()
        errors.seek(0)
        return subprocess.CompletedProcess(words, status, said, errors.read())


@dataclass
class Outside:
    """A running controller, looked at from outside."""

    connection: Connection
    segments: int = 2  # of a new stream, where nothing else is said
    names: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def url(self) -> str:
        return self.connection.controller

    def stream(self, segments: int | None = None, config: StreamConfig = AT_ONCE) -> str:
        """A new stream's name."""
        name = f"stream-{next(self.names)}"
        self.run(calls.create_stream(name, self.segments if segments is None else segments, config))
        return name

    def run(self, call: Call[Value]) -> Value:
        return self.connection.run(call)


@contextmanager
def served(database: Path) -> Iterator[Connection]:
    """A controller in a process of its own with this store, looked at through a connection."""
    process = OwnProcess(database)
    try:
        with Connection(process.url) as connection:
            yield connection
    finally:
        process.stop()
