"""The controller's process: started, killed, stopped and paused; its time from start to first answer is measured."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.chaos.history import Answered, NotSent, Record
from tests.chaos.limits import ANSWER_S, END_S, READY_LOOK_S, READY_S
from tests.chaos.rawclient import RawClient
from tests.ports import free_port
from tests.served import ROOT


class Launcher:
    """The process that forks controllers."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.launcher"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def start(self, arguments: Sequence[str], log: Path) -> int:
        """Forks a controller; returns the id of its process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = {"arguments": list(arguments), "log": str(log)}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the launcher has ended; its errors are on standard error")
        return int(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(END_S)


class Served:
    """`strandline serve` on one port: one process after the other."""

    def __init__(self, launcher: Launcher, database: str, folder: Path, name: str = "controller") -> None:
        self.name = name
        self.port = free_port()
        self.log = folder / f"{name}.log"
        self.ready_s: list[float] = []  # from each start to the first answer
        self._launcher = launcher
        self._arguments = ["serve", "--database", database, "--port", str(self.port), "--log-format", "json"]
        self._process = 0
        self._handle = -1
        self._began = 0.0

    def start(self) -> None:
        self._began = time.monotonic()
        self._process = self._launcher.start(self._arguments, self.log)
        self._handle = os.pidfd_open(self._process)

    def send(self, what: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, what)

    async def ended(self) -> None:
        """Waits until the process has ended; kills one that does not."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._handle, over.set)
        try:
            await asyncio.wait_for(over.wait(), END_S)
        except TimeoutError:
            self.send(signal.SIGKILL)
            await over.wait()
            raise AssertionError(f"the controller did not end in {END_S} s; its log is {self.log}") from None
        finally:
            loop.remove_reader(self._handle)
            os.close(self._handle)
            self._handle = -1

    async def ready(self, *, measured: bool = True) -> float:
        """Waits until it answers that it is ready, and notes how long that took since the start. Starts it again if it
        found no store, as whoever supervises it does.

        Returns when a connection was refused last, so that nobody can have been served; 0 where none was.
        """
        refused = 0.0
        unrecorded: list[Record] = []
        client = RawClient("ready", [self.port], unrecorded.append)
        deadline = time.monotonic() + READY_S
        try:
            while True:
                call = await client.call("GET", "/readyz", answer_s=ANSWER_S)
                if isinstance(call.outcome, Answered) and call.outcome.status == 200:
                    break
                if isinstance(call.outcome, NotSent):
                    refused = call.began
                if self.is_over:  # looked at once: it may end at any moment
                    if not self._found_no_store:
                        raise AssertionError(f"the controller ended by itself; its log is {self.log}")
                    os.close(self._handle)
                    self.start()
                if time.monotonic() > deadline:
                    raise AssertionError(f"the controller was not ready in {READY_S} s; its log is {self.log}")
                await asyncio.sleep(READY_LOOK_S)
        finally:
            client.close()
        if measured:
            self.ready_s.append(time.monotonic() - self._began)
        return refused

    @property
    def is_over(self) -> bool:
        return self._handle < 0 or bool(select.select([self._handle], [], [], 0)[0])

    @property
    def _found_no_store(self) -> bool:
        """Whether the last process ended because the store was away when it started."""
        said = self.log.read_bytes().rpartition(b'"event": "starting"')[2]
        return b" cannot be opened" in said or (b'"cause": "away"' in said and b"startup failed" in said)

    def abandon(self) -> None:
        """Ends it at once, whatever it does."""
        if self._handle >= 0:
            self.send(signal.SIGKILL)
            os.close(self._handle)
            self._handle = -1
