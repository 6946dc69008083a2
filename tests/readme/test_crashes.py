"""The programs of the pages are killed in the middle of windows, and each event counts once in each of its windows."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reader_client import EventItem, EventReader, ReaderGroup
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.note import Note
from strandline.core.segment import NewSegment, SegmentGraph
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from strandline.wire.groups import GroupDescription
from tests.readme.pages import CONTROLLER, ROOT, Stranger, blocks_of
from tests.served import AT_ONCE

pytestmark = pytest.mark.full

NOON = 1767268800000
WAIT_S = 60
SURVIVE = "docs/how-to/windows-that-survive.md"


class World:
    """A stream with a log, a group that reads it, and programs that are killed."""

    def __init__(self, controller: str, folder: Path, segments: int, reader_timeout_ms: int) -> None:
        self.controller, self.folder = controller, folder
        self.connection = Connection(controller)
        self.log = SqliteLog.create(folder / "orders.log", segments)
        self.group = ReaderGroup(self.connection, "counting")
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.commands: dict[str, tuple[str, ...]] = {}
        self.written: list[int] = []
        self.connection.run(calls.create_stream("orders", segments, AT_ONCE))
        self.group.create(["orders"], reader_timeout_ms=reader_timeout_ms)

    def close(self) -> None:
        for each in self.running.values():
            each.kill()
            each.communicate()
        self.log.close()
        self.connection.close()

    def program(self, page: str, name: str) -> None:
        """Saves a program of a page."""
        (block,) = [each for each in blocks_of(page) if each.file == name]
        address = self.controller.partition("://")[2]
        (self.folder / name).write_text(block.text.replace(CONTROLLER, address))

    def start(self, name: str, *command: str) -> None:
        self.commands[name] = command
        self.running[name] = subprocess.Popen(
            [sys.executable, "-W", "ignore", *command],
            cwd=self.folder, env={"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def kill(self, name: str) -> str:
        """Kills a program; returns what it has said."""
        process = self.running.pop(name)
        process.kill()
        return process.communicate(timeout=WAIT_S)[0]

    def ended(self, name: str) -> tuple[int, str, str]:
        process = self.running.pop(name)
        said, wrong = process.communicate(timeout=WAIT_S)
        return process.returncode, said, wrong

    def write(self, *seconds: int, key: bytes | None = None) -> None:
        self.log.append([Event(b'{"time": %d}' % (NOON + 1_000 * each), key=key or b"%d" % each) for each in seconds])
        self.log.flush()
        self.written += seconds

    def note(self, second: int) -> None:
        position = {segment: offset for segment, offset in self.log.end_offsets().items() if offset}
        self.connection.run(
            calls.note("orders", Note(writer="w", times={"": NOON + 1_000 * second}, position=position))
        )

    def seal(self) -> None:
        self.connection.run(calls.seal("orders", self.log.seal()))

    def scale(self, seal: list[str], create: list[NewSegment]) -> None:
        self.connection.run(calls.scale("orders", self.log.scale(seal, create), create))

    def until(self, holds: Callable[[GroupDescription], bool]) -> GroupDescription:
        """Waits until the group is so."""
        deadline = time.monotonic() + WAIT_S
        while not holds(described := self.group.describe()):
            assert time.monotonic() < deadline, described
            for name in [
                name for name, process in self.running.items() if process.poll() not in (None, -signal.SIGKILL)
            ]:
                self.start_again(name)
            time.sleep(0.02)
        return described

    def start_again(self, name: str) -> None:
        """What a supervisor does, as the page says: a reader ends when another one has taken its segments over."""
        status, _, wrong = self.ended(name)
        assert status and "another reader has" in wrong, wrong
        self.start(name, *self.commands[name])

    def until_read(self, events: int) -> None:
        """Waits until the group has read so many events, those of segments that are over included."""

        def read_by_now() -> int:
            position = self.group.get_time_window().streams["orders"].position
            return sum(offset for _, offset in SegmentGraph(self.log.segments(), open=True).cut(position).items())

        self.until(lambda group: read_by_now() >= events)

    def until_lost(self, name: str) -> None:
        """Waits until a reader owns nothing."""
        self.until(lambda group: not any(each.owned for each in group.readers if each.reader == name))


@pytest.fixture
def world(controller: str, tmp_path: Path) -> Iterator[Callable[..., World]]:
    with contextlib.ExitStack() as worlds:

        def make(segments: int, reader_timeout_ms: int = 2_000) -> World:
            made = World(controller, tmp_path, segments, reader_timeout_ms)
            worlds.callback(made.close)
            return made

        yield make


def total(positions: Any) -> int:
    return sum(offset for position in positions.values() for offset in position.values())


def settled(described: GroupDescription) -> int:
    return sum(total(each.settled) for each in described.readers)


@pytest.fixture
def counting(world: Callable[..., World]) -> World:
    made = world(4)
    made.program(SURVIVE, "counting.py")
    program = made.folder / "counting.py"
    program.write_text(program.read_text().replace("event.value or 0", "(event.value or b'')[9:-1]"))
    return made


def counts(folder: Path) -> dict[int, int]:
    with contextlib.closing(sqlite3.connect(folder / "counts.db", timeout=WAIT_S)) as results:
        rows = results.execute("SELECT start, orders FROM counts").fetchall()
    return {(start - NOON) // 1_000: orders for start, orders in rows}


def finish(world: World, names: list[str]) -> None:
    """Lets readers end by themselves; one that was fenced is started again at once, as its page says."""
    deadline = time.monotonic() + 2 * WAIT_S
    for name in names:
        if name not in world.running:
            world.start(name, "counting.py", name)
    while reading := [name for name in names if name in world.running]:
        assert time.monotonic() < deadline, reading
        for name in reading:
            match world.running[name].poll():
                case None:
                    pass
                case 0:
                    world.ended(name)
                case _:
                    world.start_again(name)
        time.sleep(0.02)


def exact(world: World) -> dict[int, int]:
    return dict(Counter(each // 10 * 10 for each in world.written))


@pytest.mark.parametrize("seed", [1, 2])
def test_readers_that_are_killed_and_hang_in_turn_count_every_event_once(counting: World, seed: int) -> None:
    """Four segments of which two are split and merged meanwhile, three readers, and windows open all the time."""
    chance, world, names, second = random.Random(seed), counting, ["r1", "r2", "r3"], 0
    for turn in range(8):
        for name in names:
            if name not in world.running:
                world.start(name, "counting.py", name)
        before = len(world.written)
        for _ in range(3):
            world.write(*chance.sample(range(second, second + 6), 6), *chance.choices(range(second, second + 6), k=3))
            second += 3
            world.note(second)
        if turn == 2:
            world.scale(["0", "1"], [NewSegment("4", 0.0, 0.5)])
        if turn == 5:
            world.scale(["4", "2"], [NewSegment("5", 0.0, 0.4), NewSegment("6", 0.4, 0.75)])
        wanted = before + chance.randrange(len(world.written) - before)
        world.until_read(wanted)
        victim = chance.choice(names)
        if turn % 3 == 2:
            hung = world.running[victim]
            hung.send_signal(signal.SIGSTOP)
            world.until_lost(victim)
            hung.send_signal(signal.SIGCONT)
        else:
            world.kill(victim)
    world.seal()
    finish(world, names)
    finish(world, names[:1])  # for what a reader had that failed after the others had ended
    assert counts(world.folder) == exact(world)


def test_a_group_goes_back_to_a_checkpoint_of_all_of_it(counting: World) -> None:
    world = counting
    world.write(*range(25))
    world.note(25)
    world.start("r1", "counting.py", "r1")
    world.until(lambda group: settled(group) >= 20)
    with (
        contextlib.closing(sqlite3.connect(world.folder / "counts.db", timeout=WAIT_S)) as live,
        contextlib.closing(sqlite3.connect(world.folder / "checkpoint.db")) as copy,
    ):
        live.backup(copy)
    assert counts(world.folder) == {0: 10, 10: 10}
    world.write(*range(25, 40))
    world.note(40)
    world.until(lambda group: settled(group) >= 36)
    world.kill("r1")
    assert counts(world.folder) == {0: 10, 10: 10, 20: 10, 30: 10}

    for file in world.folder.glob("counts.db*"):
        file.unlink()
    shutil.copy(world.folder / "checkpoint.db", world.folder / "counts.db")
    (block,) = [each for each in blocks_of(SURVIVE) if "restored" in each.text]
    with (
        Stranger(world.folder, controller=world.controller) as stranger,
        contextlib.closing(sqlite3.connect(world.folder / "checkpoint.db")) as copy,
    ):
        stranger.names |= {"controller": world.controller, "copy": copy, "ReaderGroup": ReaderGroup}
        stranger.do(block)

    world.seal()
    finish(world, ["r2"])
    assert counts(world.folder) == exact(world) == {0: 10, 10: 10, 20: 10, 30: 10}


# -- chains ------------------------------------------------------------------------------------------------------------

CHAIN = "docs/how-to/chained-programs.md"
STEPS = {
    "the state is written": "    with output.begin() as transaction:",
    "the totals are committed": "    reader.settle()",
    "the group may know": "            writer.note_time(item.watermark, output.end_offsets())",
    "the time is noted": "        elif item.is_event:\n",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_chained_program_killed_at_any_step_writes_totals_once(world: Callable[..., World], step: str) -> None:
    """It is killed at every third turn, right after this step, and once anywhere."""
    chain = world(2, reader_timeout_ms=30_000)
    chain.program(CHAIN, "totals.py")
    program = chain.folder / "totals.py"
    text = (
        program.read_text().replace("totalling", "counting").replace("event.value or 0", "(event.value or b'')[9:-1]")
    )
    dying = (
        "if turn % 3 == 0 and not os.path.exists(f'died-{turn}'): open(f'died-{turn}', 'w'), os.kill(os.getpid(), 9)"
    )
    line = STEPS[step]
    assert text.count(line) == 1 or step == "the time is noted"
    before, _, after = text.partition(line)
    indent = " " * (12 if step == "the time is noted" else len(line) - len(line.lstrip()))
    program.write_text("import os\n" + f"{before}{indent}{dying}\n{line}{after}")
    SqliteLog.create(chain.folder / "totals.log", segments=2).close()
    chain.connection.run(calls.create_stream("totals", 2, AT_ONCE))
    for second in range(0, 60, 5):
        chain.write(*range(second, second + 5))
        chain.note(second + 5)
        if "chain" not in chain.running:
            chain.start("chain", "totals.py")
        process = chain.running["chain"]
        chain.until(lambda group: settled(group) == len(chain.written) or process.poll() is not None)  # noqa: B023  # at once
        if process.poll() is not None:
            assert chain.ended("chain")[0] == -signal.SIGKILL
    if "chain" in chain.running:
        chain.kill("chain")
    chain.seal()
    for _ in range(20):
        chain.start("chain", "totals.py")
        status, _, wrong = chain.ended("chain")
        if status == 0:
            break
        assert status == -signal.SIGKILL, wrong
    assert len(list(chain.folder.glob("died-*"))) >= 3

    found = list[tuple[int, int]]()
    with SqliteLogReader(chain.folder / "totals.log") as totals:
        with ReaderGroup(chain.connection, "reporting") as group:
            group.create(["totals"])
        options: dict[str, Any] = {"event_time": lambda event: json.loads(event.value)["time"], "time_domain": "event"}
        with EventReader(chain.connection, "reporting", "r1", {"totals": totals}, **options) as reader:
            for item in reader:
                if isinstance(item, EventItem):
                    total = json.loads(item.event.value or b"")
                    found.append(((total["time"] - NOON) // 1_000, total["orders"]))
            assert reader.late.total == 0 and reader.end_of_stream
    assert sorted(found) == [(end, 10) for end in range(10, 61, 10)]
