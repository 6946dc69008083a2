"""The real controller, with streams that have marks."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from strandline.config import StreamConfig
from strandline.note import Note
from strandline.protocol import calls
from strandline.protocol.calls import Call
from strandline.protocol.transport import Connection

ROOT = Path(__file__).resolve().parents[2]
Value = TypeVar("Value")

AT_ONCE = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None)


@dataclass
class Controller:
    """A running controller; `note` brings about a mark where one writer alone says so."""

    connection: Connection
    names: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def url(self) -> str:
        return self.connection.controller

    def stream(self, segments: int = 2) -> str:
        name = f"stream-{next(self.names)}"
        self.run(calls.create_stream(name, segments, AT_ONCE))
        return name

    def note(self, stream: str, time: int, position: Mapping[str, int], key: str = "") -> None:
        self.run(calls.note(stream, Note(writer="w1", times={key: time}, position=position)))

    def run(self, call: Call[Value]) -> Value:
        return self.connection.run(call)


@pytest.fixture(scope="session")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """`strandline serve` on a free port, with a store of its own."""
    database = tmp_path_factory.mktemp("controller") / "strandline.db"
    command = [sys.executable, "-m", "controller", "serve", "--database", str(database), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert " at http://" in line, f"the controller did not start, and said {line!r}"
            with Connection(line.rpartition(" at ")[2].strip()) as connection:
                yield Controller(connection)
        finally:
            process.terminate()
