"""Five readers in five processes share segments that split and merge twice; one is killed, one stopped and woken."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from reader_client import ReaderGroup
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.segment import NewSegment, Segment
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from tests.served import AT_ONCE, ROOT, served
from writer_client import Event, Writer

pytestmark = pytest.mark.full

READERS = ["r1", "r2", "r3", "r4", "r5"]
READER_TIMEOUT_MS = 1_000
STEPS = 15  # of each writer, between two scalings
WAIT_S = 60


@dataclass
class Told:
    """What one reader process wrote down: at which moment it got what."""

    events: list[tuple[int, str, int]] = field(default_factory=list)
    watermarks: list[tuple[int, int]] = field(default_factory=list)
    lowers: list[tuple[int, int]] = field(default_factory=list)
    fenced: int | None = None


@dataclass
class Run:
    """All that was written, and what every reader told."""

    written: dict[tuple[str, int], int]
    count: int
    segments: list[Segment]
    told: dict[str, Told]
    killed: str
    stopped: str


class World:
    """Three writers with clocks of their own, and the processes."""

    def __init__(self, folder: Path, connection: Connection, stack: ExitStack) -> None:
        self.folder, self.connection, self.random = folder, connection, Random(33)
        connection.run(calls.create_stream("orders", 2, AT_ONCE))
        self.log = stack.enter_context(SqliteLog.create(folder / "orders.log", 2))
        self.group = stack.enter_context(ReaderGroup(connection, "five"))
        self.group.create(["orders"], reader_timeout_ms=READER_TIMEOUT_MS)
        self.writers = []
        for name in ("a", "b", "c"):
            log = stack.enter_context(SqliteLog(folder / "orders.log"))
            self.writers.append(stack.enter_context(Writer(connection, "orders", name, log=log)))
        self.clocks = [1_000, 1_000, 1_000]
        self.count = 0  # of events
        self.processes = {name: self._start(name) for name in READERS}
        for process in self.processes.values():
            stack.callback(process.wait)
            stack.callback(process.kill)

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        script, log = Path(__file__).with_name("reader_process.py"), self.folder / "orders.log"
        command = [sys.executable, script, self.connection.controller, "five", name, "orders", log, self.folder / name]
        return subprocess.Popen([str(each) for each in command], env={**os.environ, "PYTHONPATH": str(ROOT)})

    def write(self) -> None:
        """Each writer appends a few events, older and newer ones mixed, and notes how far its time has come."""
        for _ in range(STEPS):
            self.count += 3 * len(self.writers)
            for number, writer in enumerate(self.writers):
                clock = self.clocks[number]
                times = [clock + self.random.randrange(40) for _ in range(3)]
                writer.write([Event(b"%d" % time, key=b"%d" % self.random.randrange(64)) for time in times])
                self.clocks[number] = clock + self.random.randrange(1, 15)
                writer.note_time(self.clocks[number])

    def scale(self, *changes: tuple[list[str], list[NewSegment]]) -> None:
        for seal, create in changes:
            self.connection.run(calls.scale("orders", self.log.scale(seal, create), create))

    def owners(self) -> dict[str, set[str]]:
        """By reader, the unfinished segments that it owns."""
        ended = {each.id: each.final_offset for each in self.log.segments()}
        return {
            each.reader: {
                segment for segment, offset in each.owned.get("orders", {}).items() if ended[segment] != offset
            }
            for each in self.group.describe().readers
        }

    def until(self, what: Callable[[], bool], claim: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not what():
            assert time.monotonic() < deadline, f"never came: {claim}"
            time.sleep(0.02)

    def stop_one(self, *others: str) -> tuple[str, set[str]]:
        """Stops a reader that owns segments; events come after that, which it does not read. Returns the segments, too.

        It may have been about to give them up, or to hear of them, with a call under way. Then another is stopped.
        """
        while True:
            name = self.owner(*others)
            self.processes[name].send_signal(signal.SIGSTOP)
            held = self.owners()[name]
            self.write()
            held &= self.owners()[name] & {segment for _, segment, _ in _read(self.folder / name).events}
            if held:
                return name, held
            self.processes[name].send_signal(signal.SIGCONT)

    def owner(self, *others: str) -> str:
        """A reader that owns segments and is none of these; waits for one."""
        found: list[str] = []

        def look() -> bool:
            found[:] = sorted(name for name, owned in self.owners().items() if owned and name not in others)
            return bool(found)

        self.until(look, "a reader with segments")
        return found[0]


def split(segment: str, low: float, high: float, *names: str) -> tuple[list[str], list[NewSegment]]:
    middle = (low + high) / 2
    return [segment], [NewSegment(names[0], low, middle), NewSegment(names[1], middle, high)]


def merge(*segments: str, low: float, high: float, name: str) -> tuple[list[str], list[NewSegment]]:
    return list(segments), [NewSegment(name, low, high)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The whole story, once.

    0 ─┬─ 2 ─┬─ 6 ─┬─ 8 ──┬─ 12
       └─ 3 ─┘     └─ 9 ──┘           r? killed      after the first split
    1 ─┬─ 4 ─┬─ 7 ─┬─ 10 ─┬─ 13       r? stopped     after the first merge, woken before the second
       └─ 5 ─┘     └─ 11 ─┘
    """
    folder = tmp_path_factory.mktemp("fleet")
    with served(folder / "strandline.db") as connection, ExitStack() as stack:
        world = World(folder, connection, stack)
        world.until(lambda: len(world.group.describe().readers) == len(READERS), "five readers")
        world.write()
        world.scale(split("0", 0.0, 0.5, "2", "3"), split("1", 0.5, 1.0, "4", "5"))
        world.write()
        killed = world.owner()
        world.processes[killed].kill()
        world.scale(merge("2", "3", low=0.0, high=0.5, name="6"), merge("4", "5", low=0.5, high=1.0, name="7"))
        world.write()
        stopped, held = world.stop_one(killed)
        world.scale(split("6", 0.0, 0.5, "8", "9"), split("7", 0.5, 1.0, "10", "11"))
        world.write()

        def is_taken_over() -> bool:
            others = [each.owned.get("orders", {}) for each in world.group.describe().readers if each.reader != stopped]
            return held <= {segment for owned in others for segment in owned}

        world.until(is_taken_over, "the stopped reader's segments are read by others")
        world.processes[stopped].send_signal(signal.SIGCONT)
        world.scale(merge("8", "9", low=0.0, high=0.5, name="12"), merge("10", "11", low=0.5, high=1.0, name="13"))
        world.write()
        for writer in world.writers:
            writer.close()
        connection.run(calls.seal("orders", world.log.seal()))
        codes = {name: process.wait(WAIT_S) for name, process in world.processes.items()}
        assert codes == {name: -signal.SIGKILL if name == killed else 0 for name in READERS}
        with SqliteLogReader(folder / "orders.log") as reader:
            ends = reader.end_offsets()
            written = {
                (event.segment, event.offset): int(event.value or b"")
                for segment, end in ends.items()
                for event in reader.rows(segment, 0, end)
            }
            told = {name: _read(folder / name) for name in READERS}
            yield Run(written, world.count, reader.segments(), told, killed, stopped)


def _read(path: Path) -> Told:
    told = Told()
    for line in path.read_text().splitlines():
        match line.split():
            case [moment, "E", segment, offset, _]:
                told.events.append((int(moment), segment, int(offset)))
            case [moment, "W", watermark]:
                told.watermarks.append((int(moment), int(watermark)))
            case [moment, "L", lower]:
                told.lowers.append((int(moment), int(lower)))
            case [_, "END", fenced]:
                told.fenced = int(fenced)
            case other:
                raise AssertionError(f"{path.name} wrote {other}")
    return told


def first_handed_out(run: Run) -> dict[tuple[str, int], int]:
    first: dict[tuple[str, int], int] = {}
    for told in run.told.values():
        for moment, segment, offset in told.events:
            first[segment, offset] = min(moment, first.get((segment, offset), moment))
    return first


def test_every_event_is_read_at_least_once(run: Run) -> None:
    assert len(run.written) == run.count
    assert first_handed_out(run).keys() == run.written.keys()


def test_below_a_lower_bound_nothing_comes_that_was_not_handed_out_before(run: Run) -> None:
    """For each bound that any reader was told, at the moment it was told: all that was ever written below it."""
    first = first_handed_out(run)
    by_time = sorted((time, first[place]) for place, time in run.written.items())
    bounds = [each for told in run.told.values() for each in told.watermarks + told.lowers]
    assert len(bounds) > 20
    for moment, lower in bounds:
        early = [handed for time, handed in by_time if time < lower and handed > moment]
        assert not early, f"{len(early)} events older than {lower} came after that was told"


def test_each_readers_watermarks_strictly_rise_and_reach_the_end(run: Run) -> None:
    last = max(watermark for told in run.told.values() for _, watermark in told.watermarks)
    for name, told in run.told.items():
        values = [watermark for _, watermark in told.watermarks]
        assert values == sorted(set(values))
        assert name == run.killed or values[-1] == last


def test_successors_come_only_after_all_of_their_predecessors(run: Run) -> None:
    first = first_handed_out(run)
    handed: dict[str, list[int]] = {}
    for (segment, _), moment in first.items():
        handed.setdefault(segment, []).append(moment)
    checked = 0
    for successor in run.segments:
        for before in successor.predecessors:
            if successor.id in handed and before in handed:
                assert max(handed[before]) < min(handed[successor.id])
                checked += 1
    assert checked >= 12


def test_the_reader_that_was_stopped_was_fenced_and_went_on(run: Run) -> None:
    assert (run.told[run.stopped].fenced or 0) >= 1
    assert run.told[run.killed].fenced is None
