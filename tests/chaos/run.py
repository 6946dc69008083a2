"""One round: a fresh store, a controller, its load, a plan of faults, a calm end, and the history of all that."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from strandline.testing.log import ScriptedLog
from tests.chaos.checker import CACHE, JUDGE, Violation, judge
from tests.chaos.facts import Effect, Json, body_of, effect_of, notes_of, problem_of
from tests.chaos.faults import FAIL_OVER, Fault, Target, plan, plan_alone, strike_all
from tests.chaos.history import (
    Answered,
    Appended,
    Call,
    Ended,
    Record,
    Several,
    Stream,
    Struck,
    Unknown,
    write_history,
)
from tests.chaos.limits import CALM_S, CLOCK_LAG_S, LOOK_S, READER_TIMEOUT_MS, WRITER_TIMEOUT_MS
from tests.chaos.processes import Launcher, Served
from tests.chaos.programs import ReaderProgram, WindowProgram, WriterProgram
from tests.chaos.proxy import CALM, HARMFUL
from tests.chaos.rawclient import RawClient
from tests.chaos.readers import RawGroupReader, RawReader
from tests.chaos.site import Site, alone, several
from tests.chaos.writers import (
    Habits,
    Log,
    RawWriter,
    append_for_ever,
    create_for_ever,
    raw_writers,
    report_tail,
)
from tests.postgres import Postgres

SHARED = ("0", "1", "2")
STREAMS = (
    Stream("fast", SHARED),
    Stream("slow", SHARED),
    Stream("keyed", SHARED),
    Stream("own", ("0", "1", "2", "3")),
    Stream("timed", SHARED, timeout_ms=WRITER_TIMEOUT_MS),
    Stream("ingest", SHARED, domain="ingestion"),
    Stream("program", ("0", "1")),
)
KEYS: Mapping[str, tuple[str, ...]] = {"keyed": ("a", "b")}
MARK_INTERVAL_MS: Mapping[str, int] = {"slow": 200}
RAW_GROUP, PROGRAM_GROUP = "raw-group", "program-group"
GROUPS: Mapping[str, tuple[str, ...]] = {RAW_GROUP: ("fast", "slow"), PROGRAM_GROUP: ("program",)}  # with their streams


@dataclass(frozen=True, slots=True)
class Round:
    """What a round is made of. Equal rounds draw the same faults and habits; the machine's timing is its own."""

    store: str  # sqlite, postgresql
    seed: int
    kills: int
    harmful: bool  # whether connections are cut and answers lost
    controllers: int = 1  # of several, `kills` counts faults of any kind
    kinds: tuple[str, ...] = ()  # of the faults of several controllers; any

    @property
    def command(self) -> str:
        """What runs it again."""
        network = "harmful" if self.harmful else "calm"
        several = f" --controllers {self.controllers}" if self.controllers > 1 else ""
        several += f" --kinds {','.join(self.kinds)}" if self.kinds else ""
        return (
            f".venv/bin/python -m tests.chaos --store {self.store} --kills {self.kills} --round {self.kills} "
            f"--seed {self.seed} --network {network}{several}"
        )


@dataclass(slots=True)
class Verdict:
    """What came of a round."""

    round: Round
    violations: list[Violation]
    history: Path  # the file; it stays where there are violations
    faults: Counter[str]
    kills: int
    seconds: float
    struck_s: float  # until the last fault was over
    outcomes: Counter[str]
    harms: Counter[str]
    ready_s: list[float]
    judged_s: float
    waits: Mapping[str, Sequence[float]]  # by fault, the longest that a repeated note waited during each of them

    def __str__(self) -> str:
        starts = sorted(self.ready_s)
        shown = {
            "seed": self.round.seed,
            "network": "harmful" if self.round.harmful else "calm",
            "kills": self.kills,
            "seconds": round(self.seconds, 1),
            "struck_s": round(self.struck_s, 1),
            "judged_s": round(self.judged_s, 1),
            "faults": dict(sorted(self.faults.items())),
            "calls": dict(sorted(self.outcomes.items())),
            "harms": dict(sorted(self.harms.items())),
            "start_s": [round(starts[len(starts) // 2], 2), round(starts[-1], 2)] if starts else [],
            "wait_s": {fault: [len(each), median(each), max(each)] for fault, each in self.waits.items()},
            "violations": len(self.violations),
        }
        return json.dumps(shown)


@dataclass(slots=True)
class Load:
    """All clients of a round, and how they are told that it is over."""

    raw: list[RawWriter] = field(default_factory=list)
    programs: list[WriterProgram] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    logs: dict[str, Log] = field(default_factory=dict)
    shared_log: ScriptedLog = field(default_factory=lambda: ScriptedLog(2))
    over: asyncio.Event = field(default_factory=asyncio.Event)
    readers_over: asyncio.Event = field(default_factory=asyncio.Event)
    programs_over: threading.Event = field(default_factory=threading.Event)
    given_up: threading.Event = field(default_factory=threading.Event)  # nobody waits for writers to close any more
    reader_programs_over: threading.Event = field(default_factory=threading.Event)


def run_round(
    round_: Round,
    launcher: Launcher,
    postgres: Postgres | None,
    folder: Path,
    *,
    without: frozenset[str] = frozenset(),
) -> Verdict:
    """Runs a round in a folder of its own, and judges its history."""
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier run
    folder.mkdir(parents=True)
    with _database(round_, postgres, folder) as database:
        world = _World(round_, launcher, postgres, database, folder)
        asyncio.run(world.run())
    began = time.monotonic()
    violations = judge(world.history, without=without)
    judged_s = time.monotonic() - began
    history = folder / "history.jsonl"
    write_history(history, world.history)
    outcomes = Counter(_shown(record) for record in world.history if isinstance(record, Call))
    return Verdict(
        round=round_,
        violations=violations,
        history=history,
        faults=world.faults,
        kills=world.kills,
        seconds=world.seconds,
        struck_s=world.struck_s,
        outcomes=outcomes,
        harms=world.harms,
        ready_s=[each for served in world.site.controllers for each in served.ready_s],
        judged_s=judged_s,
        waits=longest_waits(world.history),
    )


def _shown(call: Call) -> str:
    match call.outcome:
        case Answered(status):
            return str(status)
        case Unknown():
            return "unknown"
        case _:
            return "not sent"


@contextmanager
def _database(round_: Round, postgres: Postgres | None, folder: Path) -> Iterator[str]:
    if round_.store == "sqlite":
        yield f"sqlite:///{folder / 'store.db'}"
        return
    assert postgres is not None
    url = postgres.new_database()
    yield url
    postgres.give_back(url)


class _World:
    """A running round."""

    def __init__(
        self, round_: Round, launcher: Launcher, postgres: Postgres | None, database: str, folder: Path
    ) -> None:
        self.history: list[Record] = []
        self.faults: Counter[str] = Counter()
        self.harms: Counter[str] = Counter()
        self.kills = 0
        self.seconds = self.struck_s = 0.0
        self.site = Site([])
        self._standby: Postgres | None = None
        self._launcher = launcher
        self._folder = folder
        self._round = round_
        self._postgres = postgres if round_.store == "postgresql" else None
        self._database = database
        self._chance = random.Random(round_.seed)
        self._stuck: list[str] = []
        self._look_until = 0.0  # the last look waits for answers

    async def run(self) -> None:
        began = time.monotonic()
        if FAIL_OVER in self._round.kinds:
            assert self._postgres is not None
            self._standby = await asyncio.to_thread(self._postgres.standby)
        try:
            async with self._opened() as self.site:
                await self._start()
                await self._create()
                self.site.harm(HARMFUL if self._round.harmful else CALM)
                load = self._begin()
                try:
                    await self._strike(load)
                    self.struck_s = time.monotonic() - began
                    self.site.harm(CALM)
                    await self._calm_down(load)
                finally:
                    await self._end(load)
                self.harms = self.site.harms
                await self._final_look()
        except AssertionError as error:  # a controller did not come back
            self._stuck.append(str(error))
        finally:
            self.site.abandon()
            if self._standby is not None:
                await asyncio.to_thread(self._standby.remove)
                assert self._postgres is not None
                if not self._postgres.is_up:
                    await asyncio.to_thread(self._postgres.start)
        self.history.append(Ended(time.monotonic(), tuple(self._stuck)))
        self.seconds = time.monotonic() - began

    def _opened(self) -> AbstractAsyncContextManager[Site]:
        if self._round.controllers > 1:
            assert self._postgres is not None
            self.history.append(Several(self._round.controllers))
            count = self._round.controllers
            return several(self._launcher, self._postgres, self._database, self._folder, count, self._chance)
        return alone(Served(self._launcher, self._database, self._folder), self._chance)

    async def _start(self) -> None:
        for served in self.site.controllers:
            served.start()
            await served.ready(measured=False)

    async def _create(self) -> None:
        client = RawClient("setup", self.site.ports[:1], self.history.append)
        for stream in STREAMS:
            self.history.append(stream)
            segments: Any = len(stream.segments)
            body = {
                "segments": segments,
                "mark_interval_ms": MARK_INTERVAL_MS.get(stream.name, 0),
                "writer_timeout_ms": stream.timeout_ms,
                "time_domain": stream.domain,
            }
            await client.call("PUT", f"/v1/streams/{stream.name}", body)
        for group, streams in GROUPS.items():
            body = {"streams": list(streams), "reader_timeout_ms": READER_TIMEOUT_MS}
            await client.call("PUT", f"/v1/reader-groups/{group}", body)
        client.close()

    # -- the load ------------------------------------------------------------------------------------------------

    def _begin(self) -> Load:
        load, record = Load(), self.history.append
        load.logs = {stream.name: Log(stream, record) for stream in STREAMS if stream.name != "program"}
        site = self.site
        writers_ways, readers_ways = (site.writers_ports, site.ports), (site.readers_ports, site.ports)
        for stream, habits in self._habits().items():
            names = [f"{stream[0]}{number}" for number in range(len(habits))]
            load.raw += raw_writers(
                load.logs[stream], names, habits.__getitem__, writers_ways, record, self._chance, load.over
            )
        jobs: list[Any] = [writer.run() for writer in load.raw]
        ingest = load.logs["ingest"]
        jobs.append(append_for_ever(ingest, self._own_chance(), load.over))
        jobs.append(report_tail(self._client("tail", site.writers_ports), ingest, self._own_chance(), load.over))
        jobs.append(create_for_ever(self._client("creator", site.writers_ports), self._own_chance(), load.over))
        for number, stream in enumerate(("fast", "slow", "keyed", "own", "timed", "ingest")):
            client = self._client(f"reader-{stream}", readers_ways[number % 2])
            keys = KEYS.get(stream, ("",))
            reader = RawReader(client, load.logs[stream], keys, self._own_chance(), load.readers_over)
            jobs.append(reader.run())
        for number in range(2):
            client = self._client(f"member-{number}", site.readers_ports)
            logs = {stream: load.logs[stream] for stream in GROUPS[RAW_GROUP]}
            member = RawGroupReader(client, RAW_GROUP, f"member-{number}", logs, self._own_chance(), load.readers_over)
            jobs.append(member.run())
        load.tasks = [asyncio.create_task(job) for job in jobs]
        self._begin_programs(load)
        return load

    def _client(self, name: str, ports: Sequence[int]) -> RawClient:
        return RawClient(name, ports, self.history.append, self._own_chance() if len(ports) > 1 else None)

    def _habits(self) -> Mapping[str, Sequence[Habits]]:
        """By stream, what its raw writers are like. Where registrations may be lost, nobody makes any in between."""
        if self._standby is None:
            return _habits()
        return {stream: [replace(each, leaves=False) for each in habits] for stream, habits in _habits().items()}

    def _begin_programs(self, load: Load) -> None:
        if self._standby is not None:
            return  # what they keep in memory is of a history that is lost
        record, log = self.history.append, load.shared_log
        writers = [
            WriterProgram(
                f"p{number}",
                "program",
                log,
                self.site.writers_ports,
                record,
                self._own_chance(),
                load.programs_over,
                load.given_up,
                waiting=number == 0,
            )
            for number in range(4)
        ]
        load.programs = writers
        runs: list[Callable[[], None]] = [writer.run for writer in writers]
        for number in range(2):
            name, over = f"q{number}", load.reader_programs_over
            events = ReaderProgram(
                name, PROGRAM_GROUP, "program", log, self.site.readers_ports, record, self._own_chance(), over
            )
            runs.append(events.run)
        fast = load.logs["fast"].ends
        for stream, ends in (("program", log.end_offsets), ("fast", lambda: dict(fast))):
            windows = WindowProgram(
                f"windows-{stream}",
                stream,
                ends,
                self.site.readers_ports,
                record,
                self._own_chance(),
                load.reader_programs_over,
            )
            runs.append(windows.run)
        load.threads = [threading.Thread(target=run, daemon=True) for run in runs]
        for thread in load.threads:
            thread.start()

    def _own_chance(self) -> random.Random:
        return random.Random(self._chance.random())

    async def _strike(self, load: Load) -> None:
        faults = asyncio.create_task(self._strike_one())
        await asyncio.wait([faults, *load.tasks], return_when=asyncio.FIRST_COMPLETED)
        if not faults.done():
            faults.cancel()
            await asyncio.gather(faults, return_exceptions=True)
        for task in load.tasks:
            if task.done():
                task.result()  # it should go on: raises what ended it
        await faults

    async def _strike_one(self) -> None:
        asked, chance = self._round, self._own_chance()
        if asked.controllers > 1:
            steps = plan(chance, asked.kills, asked.controllers, asked.kinds)
        else:
            steps = plan_alone(chance, asked.kills, postgresql=self._postgres is not None)
        target = Target(self.site, self._postgres, self._standby, self._database, self.history.append)
        await strike_all(target, steps, self._count)

    def _count(self, fault: Fault) -> None:
        self.faults[fault.name] += 1
        self.kills += fault.kills if self._round.controllers == 1 else 1

    # -- the end -------------------------------------------------------------------------------------------------

    async def _calm_down(self, load: Load) -> None:
        """Faults are over: every writer gets its last note answered, time reaches what all have noted, and the group
        reads all of it. What does not move on for CALM_S is stuck, and nothing after it is waited for."""
        load.programs_over.set()
        load.over.set()
        deadline = time.monotonic() + CALM_S
        commit = load.tasks[: len(load.raw) + 3]
        _, late = await asyncio.wait(commit, timeout=CALM_S)
        for thread, program in zip(load.threads, load.programs, strict=False):
            await asyncio.to_thread(thread.join, max(0.1, deadline - time.monotonic()))
            if thread.is_alive():
                self._stuck.append(f"program {program.name} did not close its writer in {CALM_S} s")
        if late:
            self._stuck.append(f"{len(late)} raw writers did not get their last note answered in {CALM_S} s")
        if self._stuck:
            return
        client = self._client("calm", self.site.ports)
        try:
            await self._time_reaches(self._wanted(load), client)
            await self._group_reads_all(load, client)
        finally:
            client.close()

    async def _time_reaches(self, wanted: dict[tuple[str, str], int], client: RawClient) -> None:
        deadline = time.monotonic() + CALM_S
        last: dict[tuple[str, str], int] = {}
        held: dict[tuple[str, str], str | None] = {}
        while wanted and time.monotonic() < deadline:
            for stream, key in list(wanted):
                told = body_of(await client.call("GET", f"/v1/streams/{stream}"))
                if told is not None:
                    holder = told["held_by"].get(key)
                    held[stream, key] = None if holder is None else holder["writer"]
                mark = None if told is None else told["latest_marks"].get(key)
                if mark is None:
                    continue
                if mark["seq"] != last.get((stream, key)):
                    last[stream, key], deadline = mark["seq"], time.monotonic() + CALM_S
                if mark["time"] >= wanted[stream, key]:
                    del wanted[stream, key]
            await asyncio.sleep(LOOK_S)
        for (stream, key), at in wanted.items():
            by = held.get((stream, key))
            if by is not None and await self._registered_late(stream, by, client):
                continue  # it holds time rightly, and is over
            self._stuck.append(f"{stream} {key!r} has no mark at {at}, and has had no other one for {CALM_S} s")

    async def _registered_late(self, stream: str, writer: str, client: RawClient) -> bool:
        """Whether a registration that its writer gave up came in after its last note: no answer had so great an
        epoch."""
        path = f"/v1/streams/{stream}/writers"
        told = body_of(await client.call("GET", path)) or {"writers": []}
        stored = max((each.get("epoch") or 0 for each in told["writers"] if each["writer"] == writer), default=0)
        answers = [
            body_of(record)
            for record in self.history
            if isinstance(record, Call) and (record.method, record.path) == ("PUT", f"{path}/{writer}")
        ]
        return stored > max((answer["epoch"] for answer in answers if answer is not None), default=0)

    def _wanted(self, load: Load) -> dict[tuple[str, str], int]:
        """What time has to reach, by stream and key: the least of what its writers noted last."""
        wanted: dict[tuple[str, str], int] = {}
        for writer in load.raw:
            for key, at in writer.noted.items():
                place = writer.log.stream.name, key
                wanted[place] = min(at, wanted.get(place, at))
        if load.programs:
            wanted["program", ""] = min(program.last for program in load.programs)
        tails = [
            record.body["time"]
            for record in self.history
            if isinstance(record, Call) and record.client == "tail" and record.body and body_of(record) is not None
        ]
        lag_ms = round(CLOCK_LAG_S * 1000) if self._round.controllers > 1 else 0
        wanted["ingest", ""] = tails[-1] - lag_ms if tails else 0
        return wanted

    async def _group_reads_all(self, load: Load, client: RawClient) -> None:
        deadline = time.monotonic() + CALM_S
        path = f"/v1/reader-groups/{PROGRAM_GROUP}/time-window"
        ends = {segment: end for segment, end in load.shared_log.end_offsets().items() if end}
        position: Mapping[str, int] = {}
        while time.monotonic() < deadline:
            told = body_of(await client.call("GET", path))
            stands = told["streams"]["program"]["position"] if told is not None else position
            if stands == ends:
                return
            if stands != position:
                position, deadline = stands, time.monotonic() + CALM_S
            await asyncio.sleep(LOOK_S)
        self._stuck.append(f"{PROGRAM_GROUP} has stood at {dict(position)} for {CALM_S} s, not at {ends}")

    async def _end(self, load: Load) -> None:
        load.over.set()
        load.readers_over.set()
        load.programs_over.set()
        load.given_up.set()
        load.reader_programs_over.set()
        for task in load.tasks:
            task.cancel()
        await asyncio.gather(*load.tasks, return_exceptions=True)
        deadline = time.monotonic() + CALM_S
        for thread in load.threads:
            await asyncio.to_thread(thread.join, max(0.1, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in load.threads):
            self._stuck.append(f"{sum(each.is_alive() for each in load.threads)} programs did not end in {CALM_S} s")
        for segment, end in load.shared_log.end_offsets().items():
            for event in load.shared_log.between(segment, 0, end):
                found = json.loads(event.value or b"{}")
                times = {"": found["time"]}
                self.history.append(Appended("program", segment, event.offset, found["writer"], times))

    async def _final_look(self) -> None:
        """After one more kill of all: all marks, all writers, all streams, and where the groups stand. Before it, of
        several controllers each shows what it has."""
        self._look_until = time.monotonic() + CALM_S
        for number, port in enumerate(self.site.ports if self._round.controllers > 1 else ()):
            client = self._client(f"{CACHE}-{number}", [port])
            for stream in STREAMS:
                await self._list_all(client, stream.name)
            client.close()
        for served in self.site.controllers:
            served.send(signal.SIGKILL)
            await served.ended()
        for served in self.site.controllers:
            served.start()
        for served in self.site.controllers:
            await served.ready()
        client = self._client(JUDGE, self.site.ports)
        self._look_until = time.monotonic() + CALM_S
        for stream in STREAMS:
            await self._list_all(client, stream.name)
        probes = {record.path for record in self.history if isinstance(record, Call) and record.client == "creator"}
        for path in sorted(probes):
            await self._told(client, path)
        for group in GROUPS:
            await self._told(client, f"/v1/reader-groups/{group}/time-window")
        client.close()
        for served in self.site.controllers:
            served.send(signal.SIGTERM)
            await served.ended()

    async def _list_all(self, client: RawClient, stream: str) -> None:
        for key in KEYS.get(stream, ("",)):
            await self._list_marks(client, stream, key)
        await self._told(client, f"/v1/streams/{stream}/writers", {"limit": "1000"})

    async def _told(self, client: RawClient, path: str, query: Mapping[str, str] | None = None) -> Json | None:
        """What is answered in the end."""
        while effect_of(call := await client.call("GET", path, query=query)) is not Effect.DONE:
            if (problem_of(call) or {}).get("status", 500) < 500:
                break
            if time.monotonic() > self._look_until:
                self._stuck.append(f"{path} is not answered after all faults")
                break
            await asyncio.sleep(LOOK_S)
        return body_of(call)

    async def _list_marks(self, client: RawClient, stream: str, key: str) -> None:
        after = 0
        while True:
            query = {"key": key, "after": str(after), "limit": "1000"}
            told = await self._told(client, f"/v1/streams/{stream}/marks", query)
            if told is None or not told["marks"]:
                return
            after = told["marks"][-1]["seq"]


def longest_waits(history: Sequence[Record]) -> dict[str, list[float]]:
    """By fault, how long the longest note waited that was under way during each of them, with all its repetitions."""
    began: dict[tuple[object, ...], float] = {}
    waits: list[tuple[float, float]] = []
    answered: set[tuple[object, ...]] = set()
    calls = [each for each in history if isinstance(each, Call) and each.path.endswith("/notes")]
    for note in (note for each in sorted(calls, key=lambda each: each.ended) for note in notes_of(each)):
        began[note.same_note] = min(note.call.began, began.get(note.same_note, note.call.began))
        if note.effect is Effect.DONE and note.same_note not in answered:
            answered.add(note.same_note)
            waits.append((began[note.same_note], note.call.ended))
    found: dict[str, list[float]] = {}
    for each in history:
        if isinstance(each, Struck):
            longest = (to - since for since, to in waits if since < each.ended and to > each.began)
            found.setdefault(each.fault, []).append(round(max(longest, default=0.0), 2))
    return found


def _habits() -> Mapping[str, Sequence[Habits]]:
    """By stream, what its raw writers are like."""
    return {
        "fast": [
            Habits(segments=SHARED, whole_log=number % 2 == 0, uses_epochs=number < 3, leaves=number < 3, lag_ms=lag)
            for number, lag in enumerate((0, 0, 60, 300))
        ],
        "slow": [
            Habits(segments=SHARED, whole_log=number == 0, think_s=0.15, careless=number == 2, lag_ms=number * 150)
            for number in range(3)
        ],
        "keyed": [Habits(keys=("a", "b"), segments=SHARED, whole_log=number == 0, think_s=0.15) for number in range(2)],
        "own": [Habits(segments=own, tells_newest=True, lag_ms=40 * len(own)) for own in (("0",), ("1", "2"), ("3",))],
        "timed": [
            Habits(segments=SHARED, leaves=False, naps_s=nap, think_s=0.1, lag_ms=number * 50)
            for number, nap in enumerate((0.0, 0.0, WRITER_TIMEOUT_MS / 1000 + 2.5))
        ],
    }
