"""Drawn histories of a group over several streams, whose writers go idle, close, come back and seal between marks.

Each writer keeps its word: it writes nothing older than what it noted or got as its floor, and leaves only after all
that it wrote was noted. So whatever a group's window says, no event below its watermark may remain to be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from strandline.client import calls, group_calls
from strandline.client.http import Connection
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.testing import InProcessController
from strandline.wire.groups import GroupSettings, GroupWindow

STREAMS = ("x", "y")
WRITERS = ("v", "w")
MARK_INTERVAL_MS = 1_000
CONFIG = StreamConfig(mark_interval_ms=MARK_INTERVAL_MS, max_ahead_ms=None, writer_timeout_ms=None)

STEPS = 150
# These find a group that leaves out a stream at its last mark, or at the noted positions of a sealed one.
SEEDS = (14, 19, 22)


@dataclass
class Side:
    """A stream: its log, of which the group has read some, and what each writer that is there has promised."""

    name: str
    log: list[int] = field(default_factory=list)
    read: int = 0
    promised: dict[str, int] = field(default_factory=dict)
    sealed: bool = False


@dataclass
class Played:
    """Streams and a group at a controller, and what is true of them."""

    controller: InProcessController
    connection: Connection
    number: int

    def __post_init__(self) -> None:
        self.sides = {name: Side(f"{name}{self.number}") for name in STREAMS}
        self.group = f"g{self.number}"
        for side in self.sides.values():
            self.controller.create_stream(side.name, 1, CONFIG)
        names = tuple([side.name for side in self.sides.values()])
        self.connection.run(group_calls.create_group(self.group, GroupSettings(streams=names, reader_timeout_ms=None)))
        nothing = {name: {"0": 0} for name in names}
        answer = self.connection.run(group_calls.register_reader(self.group, "r", nothing, "first"))
        self.epoch = answer.epoch

    def step(self, random: Random) -> None:
        side = self.sides[random.choice(STREAMS)]
        match random.choices(["writer", "read", "time", "seal"], [24, 8, 2, 0.1])[0]:
            case "writer" if not side.sealed:
                act = random.choices(["write", "note", "idle", "close"], [6, 5, 3, 2])[0]
                self.act(side, act, random.choices(WRITERS, [1, 6])[0], random.choice((0, 1, 5, 30)))
            case "read":
                side.read = min(len(side.log), side.read + random.randint(1, 3))
                self.report()
            case "time":
                self.controller.pass_time(random.choice((1, 2)) * MARK_INTERVAL_MS // 2)
                self.report()
            case "seal" if not side.sealed:
                self.connection.run(calls.seal(side.name, {"0": len(side.log)}))
                side.sealed = True

    def act(self, side: Side, act: str, writer: str, amount: int) -> None:
        """What a writer does. It registers before it writes, and notes all that it wrote before it leaves."""
        if writer not in side.promised and act not in ("write", "note"):
            return
        if writer not in side.promised:
            floor = self.connection.run(calls.register(side.name, writer)).floors.get("")
            side.promised[writer] = 0 if floor is None else floor
        match act:
            case "write":
                side.log.append(side.promised[writer] + amount)
            case "note":
                side.promised[writer] += amount
                self.note(side, writer)
            case _:
                self.note(side, writer)
                self.connection.run(calls.idle(side.name, writer) if act == "idle" else calls.close(side.name, writer))
                del side.promised[writer]

    def note(self, side: Side, writer: str) -> None:
        self.connection.run(
            calls.note(side.name, Note(writer=writer, times={"": side.promised[writer]}, position={"0": len(side.log)}))
        )

    def report(self) -> GroupWindow:
        positions = {side.name: {"0": side.read} for side in self.sides.values()}
        window = self.connection.run(group_calls.report(self.group, "r", self.epoch, positions)).window
        assert window.complete
        for side in self.sides.values():
            unread = side.log[side.read :]
            for bound in (window.watermarks.get(""), window.streams[side.name].lower):
                assert bound is None or not unread or min(unread) >= bound, (bound, side, window)
        return window


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[InProcessController, Connection]]:
    path = tmp_path_factory.mktemp("leaving") / "s.db"
    with InProcessController(path) as controller, controller.connection() as connection:
        yield controller, connection


@pytest.mark.parametrize("seed", [*SEEDS, *[pytest.param(seed, marks=pytest.mark.full) for seed in range(100, 140)]])
def test_what_was_written_before_leaving_is_read_before_a_group_goes_on(
    served: tuple[InProcessController, Connection], seed: int
) -> None:
    played, random = Played(*served, seed), Random(seed)
    for _ in range(STEPS):
        played.step(random)
    for side in played.sides.values():
        side.read = len(side.log)
    last = played.report()
    if not any(side.promised for side in played.sides.values()):  # everybody has left, and everything is read
        assert set(last.idle) == {side.name for side in played.sides.values() if side.log or side.sealed}
