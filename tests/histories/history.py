"""Drawn histories of real writers and real readers over the embedded log and a controller in this process.

Several processes of one name write, note, commit, go idle, close, are fenced and are killed at any moment; the store is
restored, the stream made anew, its segments split; an operator closes and excludes. After each step every complete mark
is compared with the log's own events, and every watermark of the group with what its readers have returned.

What counts is an event that its writer promised nothing else about: it was not older than what its process had noted,
or had been given as its floor, and the process was the newest of its name. After a restore, or in a stream made anew,
the events of earlier processes count once their name is there again, as docs/how-to/backup.md says.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from controller.storage.backup import back_up, restore
from reader_client import EventItem, EventReader, ReaderGroup, WatermarkItem
from strandline.client import calls
from strandline.client.calls import Request
from strandline.client.http import Connection
from strandline.client.retry import Patience
from strandline.core.config import StreamConfig
from strandline.core.cut import Cut
from strandline.core.note import position_cut
from strandline.core.segment import NewSegment, SegmentGraph
from strandline.errors import StrandlineError
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from strandline.testing import Fault, InProcessController
from strandline.testing.faults import Entry
from strandline.wire.streams import WireMark
from tests.drawn import Draw, Suite
from writer_client import BackgroundWriter, Writer
from writer_client.departure import Leaving
from writer_client.machine import Phase
from writer_client.scale import scale_log

STREAM: Final = "s"
NAMES: Final = ("w1", "w2")
READERS: Final = ("r1", "r2")
STEPS: Final = 60
TIMEOUT_MS: Final = 5_000
SETTLED: Final = ("idle", "closed")  # states in which a writer of a backup counts as done with what it wrote later


class Untrue(AssertionError):
    """A complete mark, or a watermark, that an event on time contradicts."""


@dataclass
class Faulty:
    """The network of one process."""

    entry: Entry = None
    once: bool = False

    def take(self, request: Request) -> Entry:
        entry = self.entry
        if self.once:
            self.entry = None
        return entry


@dataclass
class Process:
    """One process of a writer's name."""

    name: str
    writer: Any
    log: SqliteLog
    connection: Connection
    network: Faulty
    bound: int | None = None  # it writes nothing older
    epoch: int | None = None
    number: int = 0
    alive: bool = True

    def kill(self) -> None:
        """It ends without a word."""
        self.alive = False
        self.network.entry, self.network.once = Fault.CONTROLLER_AWAY, False
        self.writer._machine.phase = Phase.RELEASED
        self.writer.release()
        self.connection.close()
        self.log.close()


@dataclass(frozen=True)
class Written:
    """An event."""

    segment: str
    offset: int
    time: int
    name: str


@dataclass
class Checked:
    """A mark, and the names whose earlier events it has to cover."""

    time: int
    cut: Cut
    complete: bool
    newest: int | None
    names: frozenset[str]
    events: int  # there were so many; later ones count in any case

    @classmethod
    def of(cls, mark: WireMark, cut: Cut, names: Iterable[str], events: Sequence[Written]) -> Checked:
        return cls(mark.time, cut, not mark.excluded, mark.newest, frozenset(names), len(events))

    def counts(self, number: int, event: Written) -> bool:
        return number >= self.events or event.name in self.names

    def check(self, name: object, events: Sequence[Written]) -> None:
        """Raises Untrue for an event that the mark has to cover and does not, and for one below it that is newer than
        it says."""
        for number, event in enumerate(events):
            is_below = event.offset < self.cut.offset(event.segment)
            if self.complete and not is_below and event.time < self.time and self.counts(number, event):
                raise Untrue(f"complete mark {name} of {self.time} at {dict(self.cut.offsets)}: {event}")
            if is_below and self.newest is not None and event.time > self.newest:
                raise Untrue(f"mark {name} at {dict(self.cut.offsets)} has newest {self.newest}: {event}")


@dataclass
class History:
    """One history."""

    drawn: Draw
    open: ExitStack = field(default_factory=ExitStack)
    processes: dict[str, list[Process]] = field(default_factory=lambda: {name: [] for name in NAMES})
    newest: dict[str, Process] = field(default_factory=dict)  # by name, who registered last
    events: list[Written] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # whose earlier events count
    marks: dict[int, Checked] = field(default_factory=dict)  # of the present stream, by seq
    ever: dict[tuple[str, int, int], Checked] = field(default_factory=dict)  # by identity, seq, and when it was made
    highest: int = 0  # no floor is greater
    readers: dict[str, EventReader] = field(default_factory=dict)
    returned: set[tuple[str, int]] = field(default_factory=set)
    backups: list[tuple[Path, set[tuple[str, int]]]] = field(default_factory=list)  # and what was returned by then
    begun: int = 0
    seen: dict[str, int] = field(default_factory=dict)  # where the log ended when it was looked at

    def __post_init__(self) -> None:
        self.random, self.folder = self.drawn.random, self.drawn.folder
        self.asking = Random(self.drawn.seed)  # of its own: what is asked changes nothing
        self.now_ms = 0.0
        self.loses_writers = self.random.random() < 0.3
        self.path = self.folder / "s.log"

    # -- a history -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        with self.open:
            self.controller = self.open.enter_context(InProcessController(self.folder / "s.db"))
            self.connection = self.open.enter_context(self.controller.connection())
            self.group = self.open.enter_context(ReaderGroup(self.connection, "g"))
            SqliteLog.create(self.path, 2).close()
            self.tail = self.open.enter_context(SqliteLogReader(self.path))
            self.create()
            self.open.callback(self.end)
            for _ in self.drawn.steps(STEPS):
                self.step()
            for name in NAMES:  # a last process covers all, and all is read
                self.begin(name)
                self.attempt(self.newest_of(name), lambda each: each.writer.register())
                self.attempt(self.newest_of(name), lambda each: each.writer.idle())
            self.mark_by_another()
            for _ in range(40):
                self.read(self.random.choice(READERS))

    def end(self) -> None:
        for reader in self.readers.values():
            with suppress(StrandlineError):
                reader.close()
        for process in [each for name in NAMES for each in self.processes[name]]:
            process.kill()

    def create(self) -> None:
        timeout = TIMEOUT_MS if self.loses_writers else None
        config = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=timeout, forget_after_ms=10**9)
        segments = self.tail.segments()
        roots = [NewSegment(each.id, each.low, each.high) for each in segments if not each.predecessors]
        self.connection.run(calls.create_stream(STREAM, roots, config))
        for each in segments:
            if each.predecessors:
                parents = {one.id: one.final_offset or 0 for one in segments if one.id in each.predecessors}
                twins = [one for one in segments if one.predecessors == each.predecessors]
                self.connection.run(
                    calls.scale(STREAM, parents, [NewSegment(one.id, one.low, one.high) for one in twins])
                )
        with suppress(StrandlineError):
            self.group.create([STREAM], reader_timeout_ms=None)

    def step(self) -> None:
        acts: list[tuple[int, Callable[[], None]]] = [
            (4, lambda: self.begin(self.random.choice(NAMES))),
            (14, lambda: self.act(self.write)),
            (10, lambda: self.act(self.note)),
            (6, lambda: self.act(self.commit)),
            (4, lambda: self.act(lambda each: each.writer.register())),
            (5, lambda: self.act(lambda each: each.writer.idle())),
            (2, lambda: self.act(self.close)),
            (3, lambda: self.act(self.leave)),
            (5, self.kill),
            (3, self.mark_by_another),
            (2, self.restart),
            (1, self.recreate),
            (2, self.back_up),
            (2, self.restore),
            (2, self.scale),
            (2, self.close_by_operator),
            (9, lambda: self.read(self.random.choice(READERS))),
            (2, lambda: self.lose_reader(self.random.choice(READERS))),
        ]
        if self.loses_writers:
            acts += [(4, self.pass_time), (2, self.exclude)]
        act = self.random.choices([each for _, each in acts], [weight for weight, _ in acts])[0]
        act()
        self.check()
        self.controller.clock.now += 10

    def say(self, what: str) -> None:
        self.drawn.say(what)

    # -- writers -------------------------------------------------------------------------------------------------

    def newest_of(self, name: str) -> Process:
        return self.processes[name][-1]

    def begin(self, name: str) -> None:
        """Another process of a name; those before it may still be there."""
        network = Faulty()
        connection = self.controller.connection(network, patience=Patience(attempts=2))
        log = SqliteLog(self.path)
        kind = self.random.choice((Writer, BackgroundWriter))
        leaving: Leaving = self.random.choice(("stay", "idle", "close"))
        writer = kind(connection, STREAM, name, log=log, leaving=leaving)
        self.begun += 1
        self.processes[name].append(Process(name, writer, log, connection, network, number=self.begun))
        self.say(f"{name}/{self.begun} begins: {kind.__name__}, leaving {leaving}")

    def act(self, what: Callable[[Process], object]) -> None:
        name = self.random.choice(NAMES)
        alive = self.processes[name]
        if not alive:
            self.begin(name)
        process = self.random.choice(alive[-2:])
        if self.random.random() < 0.06:
            process.network.entry, process.network.once = Fault.ANSWER_LOST, True
        self.attempt(process, what)
        process.network.entry = None

    def attempt(self, process: Process, what: Callable[[Process], object]) -> None:
        try:
            what(process)
            said = "done"
        except StrandlineError as error:
            said = type(error).__name__
        self.say(f"{process.name}/{process.number} {said}")
        if process.alive:
            self.registered(process)
            if process.writer._session.is_released:
                self.kill_one(process)

    def registered(self, process: Process) -> None:
        """Notices a registration, which makes this process the newest of its name."""
        epoch = process.writer.epoch
        if epoch == process.epoch:
            return
        process.epoch = epoch
        self.say(f"{process.name}/{process.number} has epoch {epoch}, floors {dict(process.writer.floors)}")
        self.newest[process.name] = process
        self.names.add(process.name)
        floor = process.writer.floors.get("")
        if floor is not None:
            process.bound = max(floor, process.bound or floor)

    def may_write(self, process: Process) -> bool:
        """It is the newest of its name, or registers before it writes."""
        return process.writer._machine.phase is not Phase.HOLDING or self.newest.get(process.name) is process

    def time_for(self, process: Process) -> int:
        """The time of an event that it may write."""
        holds = process.writer._machine.phase is Phase.HOLDING
        least = self.highest if not holds or process.bound is None else process.bound
        return least + self.random.choice((0, 0, 1, 5, 40))

    def draw(self, process: Process) -> tuple[list[Event], int]:
        times = [self.time_for(process) for _ in range(self.random.randint(1, 3))]
        return [
            Event(json.dumps([time, process.name]).encode(), key=b"%d" % self.random.randrange(100)) for time in times
        ], max(times)

    def write(self, process: Process) -> None:
        if not self.may_write(process):
            return
        events, newest = self.draw(process)
        process.writer.write(events, newest=newest if self.random.random() < 0.7 else None)

    def note(self, process: Process) -> None:
        time = max(process.bound or 0, self.highest - self.random.choice((0, 10, 50))) + self.random.choice((0, 3, 30))
        self.say(f"{process.name}/{process.number} notes {time}")
        process.writer.note_time(time)
        process.bound = max(time, process.bound or time)
        self.highest = max(self.highest, time)
        if isinstance(process.writer, BackgroundWriter):
            process.writer.wait_until_answered(2_000)
            process.writer.status()

    def commit(self, process: Process) -> None:
        """A transaction, whose process may be killed before the commit, or before its note."""
        if not self.may_write(process):
            return
        end = self.random.choice(("kill", "abort", "commit", "commit", "commit", "kill after"))
        with ExitStack() as ended, process.writer.begin() as transaction:
            if end.startswith("kill"):
                ended.callback(self.kill_one, process)
            self.registered(process)
            events, _ = self.draw(process)
            transaction.write(events)
            time = self.time_for(process) if self.random.random() < 0.8 else None
            self.say(f"{process.name}/{process.number} commits with {time}, {end}")
            if end == "abort":
                return
            if end != "kill":
                if end == "kill after":
                    process.network.entry, process.network.once = Fault.CONTROLLER_AWAY, False
                if time is not None:
                    process.bound = max(time, process.bound or time)
                    self.highest = max(self.highest, time)
                transaction.commit(time)
                if end == "commit" and isinstance(process.writer, BackgroundWriter):
                    process.writer.wait_until_answered(2_000)  # its mark is seen before another name registers

    def close(self, process: Process) -> None:
        process.writer.close()

    def leave(self, process: Process) -> None:
        """The end of its block."""
        if isinstance(process.writer, BackgroundWriter):
            process.writer._machine.registration.wanted = process.writer.epoch is None
            process.writer.__exit__(None, None, None)
        else:
            process.writer.__exit__(None, None, None)

    def kill(self) -> None:
        alive = [each for name in NAMES for each in self.processes[name]]
        if alive:
            self.kill_one(self.random.choice(alive))

    def kill_one(self, process: Process) -> None:
        self.say(f"{process.name}/{process.number} is killed")
        self.registered(process)
        self.processes[process.name].remove(process)
        process.kill()

    # -- others --------------------------------------------------------------------------------------------------

    def mark_by_another(self) -> None:
        """A writer without events lets time rise as far as the others let it."""
        self.highest += 10
        self.say(f"another notes {self.highest}")
        with Writer(self.connection, STREAM, "another", leaving="close") as another, suppress(StrandlineError):
            another.note_time(self.highest, {})

    def pass_time(self) -> None:
        self.controller.pass_time(self.random.choice((1_000, TIMEOUT_MS, 3 * TIMEOUT_MS)))
        self.say("time passes")

    def exclude(self) -> None:
        name, call = self.random.choice(NAMES), self.random.choice((calls.exclude, calls.include))
        with suppress(StrandlineError):
            self.connection.run(call(STREAM, name))
        self.say(f"an operator calls {call.__name__} {name}")

    def close_by_operator(self) -> None:
        """Nothing is known any more of what the name's processes wrote and did not note."""
        name = self.random.choice(NAMES)
        with suppress(StrandlineError):
            self.connection.run(calls.close(STREAM, name))
        self.forget([name])
        self.say(f"an operator closes {name}")

    def forget(self, names: Iterable[str]) -> None:
        """From now on these names count once they have registered again."""
        for name in names:
            self.names.discard(name)
            self.newest.pop(name, None)

    def restart(self) -> None:
        self.controller.restart()
        self.say("the controller restarts")

    def recreate(self) -> None:
        self.say("the stream is made anew")
        self.connection.run(calls.delete_stream(STREAM))
        self.create()
        self.begin_again(())
        self.returned.clear()
        self.backups.clear()  # a restore of another stream of the name would take back what its writers were told
        for reader in READERS:
            self.lose_reader(reader)
        with suppress(StrandlineError):
            self.group.delete()
        self.group.create([STREAM], reader_timeout_ms=None)
        self.come_back()

    def come_back(self) -> None:
        """Some of the processes register, as they are told to, and some of these have nothing to do any more."""
        for name in NAMES:
            if self.processes[name] and self.random.random() < 0.6:
                process = self.newest_of(name)
                self.attempt(process, lambda each: each.writer.register())
                if process.alive and self.random.random() < 0.6:
                    self.attempt(process, lambda each: each.writer.idle())
        self.check()

    def begin_again(self, names: Iterable[str]) -> None:
        """The controller has lost what it had, except of these names."""
        self.forget(NAMES)
        self.names = set(names)
        self.marks.clear()

    def back_up(self) -> None:
        file = self.folder / f"backup-{self.controller.clock.now}.db"
        back_up(str(self.controller.database), file)
        self.backups.append((file, set(self.returned)))
        self.say("a backup")

    def restore(self) -> None:
        if not self.backups:
            return
        self.say("the store is restored")
        segments = {each.id for each in self.tail.segments()}
        with self.controller.stopped():
            for end in ("", "-wal", "-shm"):
                Path(f"{self.controller.database}{end}").unlink(missing_ok=True)
            copy = self.folder / "copy.db"
            shutil.copy(self.backups[-1][0], copy)
            restore(str(self.controller.database), copy, self.controller.clock.now)
        for reader in READERS:
            self.lose_reader(reader)
        known = {each.segment.id for each in self.connection.run(calls.describe(STREAM)).segments}
        self.begin_again(self.held_names())
        self.returned |= self.backups[-1][1]
        if segments - known:  # as after any scaling that the controller has not taken
            self.scale_again(known)
        self.come_back()

    def held_names(self) -> set[str]:
        """Names of this test whose last words in the store are not that they are done."""
        found = self.controller.request("GET", f"/v1/streams/{STREAM}/writers").json()["writers"]
        return {each["writer"] for each in found if each["writer"] in NAMES and each["state"] not in SETTLED}

    def scale_again(self, known: set[str]) -> None:
        """The controller takes up the log's scalings that it does not have."""
        segments = {each.id: each for each in self.tail.segments()}
        for each in segments.values():
            if each.id in known:
                continue
            twins = [one for one in segments.values() if one.predecessors == each.predecessors]
            finals = {name: segments[name].final_offset or 0 for name in each.predecessors}
            with suppress(StrandlineError):
                self.connection.run(
                    calls.scale(STREAM, finals, [NewSegment(one.id, one.low, one.high) for one in twins])
                )
            known |= {one.id for one in twins}

    def scale(self) -> None:
        live = [each for each in self.tail.segments() if each.final_offset is None]
        if len(live) > 4:
            return
        split = self.random.choice(live)
        assert split.low is not None and split.high is not None
        middle, number = (split.low + split.high) / 2, len(self.tail.segments())
        halves = [NewSegment(str(number), split.low, middle), NewSegment(str(number + 1), middle, split.high)]
        with SqliteLog(self.path) as log:
            scale_log(self.connection, STREAM, log, [split.id], halves)
        self.say(f"{split.id} is split")

    # -- readers -------------------------------------------------------------------------------------------------

    def read(self, name: str) -> None:
        """A reader returns some items."""
        if name not in self.readers:
            reader = EventReader(
                self.connection,
                "g",
                name,
                {STREAM: self.tail},
                time_domain="event",
                report_ms=1,
                now_ms=lambda: self.now_ms,
                ordered=self.random.random() < 0.5,
            )
            try:
                reader.__enter__()
            except StrandlineError as error:
                self.say(f"{name}: {type(error).__name__}")
                return
            self.readers[name] = reader
        reader = self.readers[name]
        try:
            for _ in range(self.random.randint(1, 8)):
                self.collect()
                self.now_ms += 1
                item = reader.read(0)
                if item is None:
                    return
                if isinstance(item, WatermarkItem):
                    self.say(f"{name} returns the watermark {item.watermark}")
                    window = reader.window
                    if window is not None and window.complete:
                        self.check_watermark(item.watermark)
                elif isinstance(item, EventItem):
                    self.returned.add((item.event.segment, item.event.offset))
        except StrandlineError as error:
            self.say(f"{name}: {type(error).__name__}")
            self.lose_reader(name)

    def lose_reader(self, name: str) -> None:
        """A reader is killed, and another takes its segments."""
        reader = self.readers.pop(name, None)
        if reader is None:
            return
        self.say(f"{name} is killed")
        reader._release()
        with suppress(StrandlineError):
            self.group.offline(name, {})

    # -- what has to hold ----------------------------------------------------------------------------------------

    def collect(self) -> None:
        """Takes what is new in the log: events whose process was the newest of its name, and kept its own word."""
        ends = self.tail.end_offsets()
        for segment, end in ends.items():
            begin = self.seen.get(segment, 0)
            for event in self.tail.rows(segment, begin, end) if begin < end else ():
                time, name = json.loads(event.value or b"")
                self.events.append(Written(segment, event.offset, time, name))
                self.highest = max(self.highest, time)
            self.seen[segment] = end

    def check(self) -> None:
        self.collect()
        graph = SegmentGraph(self.tail.segments())
        after = max(self.marks, default=0)
        page = self.connection.run(calls.marks(STREAM, after=after, limit=1000))
        for mark in page.marks:
            name = (page.identity, mark.seq, mark.created_at)
            if name not in self.ever and all(segment in graph for segment in mark.cut):
                cut = graph.closed(mark.cut, position_cut(mark.cut))
                self.ever[name] = Checked.of(mark, cut, self.names, self.events)
                self.say(
                    f"mark {mark.seq} of {mark.time} at {dict(mark.cut)}, newest {mark.newest}, without {mark.excluded}"
                )
            if name in self.ever:
                self.marks[mark.seq] = self.ever[name]
        for seq, checked in self.marks.items():
            checked.check(seq, self.events)
        self.check_wait(self.asking.randint(0, self.highest + 1))

    def check_wait(self, time: int) -> None:
        """Where everything older than a time is said to be there, of everybody, it lies below the cut that is given."""
        found, graph = self.connection.run(calls.marks_at(STREAM, time)), SegmentGraph(self.tail.segments())
        ceiling = found.ceiling
        if not found.complete or ceiling is None or ceiling.seq not in self.marks:
            return
        cut = graph.closed(ceiling.cut, position_cut(ceiling.cut))
        for number, event in enumerate(self.events):
            counts = event.time < time and self.marks[ceiling.seq].counts(number, event)
            if counts and event.offset >= cut.offset(event.segment):
                raise Untrue(f"everything older than {time} is said to be below {dict(ceiling.cut)}: {event}")

    def check_watermark(self, watermark: int) -> None:
        """All that the marks up to the watermark cover was returned."""
        passed = [each for each in self.marks.values() if each.complete and each.time <= watermark]
        for number, event in enumerate(self.events):
            if (event.segment, event.offset) in self.returned:
                continue
            if any(event.time < each.time and each.counts(number, event) for each in passed):
                raise Untrue(f"watermark {watermark} before {event} was read")


def run(draw: Draw) -> None:
    History(draw).run()


HISTORIES: Final = Suite("histories", run, Untrue)
