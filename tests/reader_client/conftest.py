"""The real controller, with streams that have marks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from strandline.note import Note
from strandline.protocol import calls
from strandline.protocol.calls import Call
from strandline.protocol.transport import Connection
from tests.served import AT_ONCE, served

Value = TypeVar("Value")


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
    with served(tmp_path_factory.mktemp("controller") / "strandline.db") as connection:
        yield Controller(connection)
