"""One history: writers, readers, groups and operators, who go from one controller to another, and faults."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias

from controller.storage.heads import due_streams
from controller.storage.tokens import add_token, digest_of, list_tokens, revoke_token
from strandline.access import Grant, Role
from strandline.core.note import Note
from strandline.core.segment import NewSegment
from strandline.core.served_time import SERVED_GAP_MS
from strandline.core.stream import Stream
from strandline.errors import (
    Fenced,
    GroupExists,
    PositionWentBack,
    Refused,
    StrandlineError,
    StreamExists,
    StreamRecreated,
    TimeWentBack,
    Unavailable,
    Undecided,
    UnknownGroup,
    UnknownReader,
    UnknownStream,
)
from strandline.wire.groups import GroupSettings, GroupWindow
from tests.drawn import Draw, Suite
from tests.several.judge import WRITER_TIMEOUT_MS, Judge
from tests.several.process import HostClock, Process
from tests.several.server import Server
from tests.several.virtual_time import VirtualLoop

SECONDS: Final = 12.0
PATIENCE_S: Final = 15.0  # of clients
STREAMS: Final = {"s": ("w-0", "w-1", "w-2"), "t": ("v-0", "v-1")}
SETTINGS: Final = {"max_ahead_ms": None, "writer_timeout_ms": WRITER_TIMEOUT_MS}
GROUP: Final = "g"
FAULTS: Final = (
    "stop", "stop in a transaction", "kill", "kill", "start", "fail", "fail over", "restore", "leap", "gap",
)  # fmt: skip
HUSH_S: Final = 3.0  # in which a stream comes to rest for the group
GONE_S: Final = 0.25  # after a deletion nobody shows any more what was deleted
CALM_S: Final = 14.0  # from a fault on, calls may fail


Call: TypeAlias = Callable[[Process], Awaitable[Any]]


class Lost(Exception):
    """No answer came."""


class _Bugs(logging.Handler):
    """A bug that a controller survives is one nevertheless."""

    def __init__(self, judge: Judge) -> None:
        super().__init__(logging.ERROR)
        self._judge = judge

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None and not self._judge.failed.done():
            self._judge.failed.set_exception(record.exc_info[1])


class World:
    def __init__(self, draw: Draw) -> None:
        self.random = draw.random
        self.calm = self.random.random() < 0.3  # without faults
        self.server = Server(Random(draw.seed + 1), 0.0 if self.calm else self.random.choice((0.0, 0.01, 0.04)))
        self.judge = Judge(self.server)
        self.processes: list[Process] = []
        self.number = 0
        self.over = False
        self.deletes_streams = self.random.random() < 0.5
        self.counts = self.judge.counts
        self.writers: dict[str, asyncio.Task[None]] = {}
        self.silent: set[str] = set()  # writers that say nothing at the end
        self.hushed_s = self.random.uniform(1.0, SECONDS - HUSH_S)  # since when nobody writes to a stream for a while

    def chance(self, percent: float) -> bool:
        return self.random.random() * 100 < percent

    def start_process(self) -> None:
        self.number += 1
        host = HostClock(self.server.now() + self.random.choice((0, 0, -3_000, 40_000)))
        self.processes.append(Process(self.number, self.server, self.judge, host))

    @property
    def may_fail(self) -> bool:
        now = asyncio.get_running_loop().time()
        return not self.calm and (self.server.trouble > 0 or now - self.server.troubled_at < CALM_S)

    # -- calls ---------------------------------------------------------------------------------------------------

    async def call(self, make: Call, at: Process | None = None) -> Any:
        """The answer of some controller, or Lost."""
        while at is None or not at.serves:
            serving = [each for each in self.processes if each.serves]
            if serving:
                at = self.random.choice(serving)
                break
            await asyncio.sleep(0.1)
        await at.awake()
        if not at.serves:
            raise Lost
        asked_at = asyncio.get_running_loop().time()
        task = at.run(_made(make, at))
        impatient = self.chance(0 if self.calm else 4)
        done, _ = await asyncio.wait([task], timeout=self.random.choice((0.002, 0.02)) if impatient else PATIENCE_S)
        if not done and impatient and self.chance(30):
            task.cancel()
        if not done or task.cancelled() or self.chance(0 if self.calm else 3):
            self.counts["lost"] += 1
            self.judge.must(not self.calm, "an answer was lost without a fault")
            raise Lost
        error = task.exception()
        if isinstance(error, Unavailable | Undecided):
            self.counts[error.code] += 1
            # A report is stored, and then one of its streams, or its group, turns out to be deleted: by somebody during
            # the call, or so shortly before that what is in memory did not show it.
            is_gone = isinstance(error.__cause__, UnknownStream | StreamRecreated | UnknownGroup)
            is_gone = is_gone and asked_at - self.judge.ended_at < GONE_S
            self.judge.must(is_gone or self.may_fail, f"a call failed without a fault: {error!r}")
        return task.result()

    # -- writers -------------------------------------------------------------------------------------------------

    async def write(self, stream: str, writer: str) -> None:
        random, judge = self.random, self.judge
        loop = asyncio.get_running_loop()
        segment = writer.rpartition("-")[2]
        time, offset, epoch = self.server.now(), 0, None
        sent: tuple[int, int] | None = None  # a note that may be stored or not
        restores = 0  # of the store, before it registered
        moved = 0  # by which its position shows whether it is stored
        open_calls = 0  # that may still be carried out
        heard_at = loop.time()
        while True:
            if self.chance(3) and not self.over:
                await asyncio.sleep(random.choice((1.0, 5.0)))
            else:
                await asyncio.sleep(random.choice((0.01, 0.1, 0.3, 0.6)))
            if self.over and writer in self.silent:
                return
            if stream == "t" and 0 <= loop.time() - self.hushed_s < HUSH_S:
                continue
            if (loop.time() - heard_at) * 1000 > WRITER_TIMEOUT_MS - 600:
                judge.forget_notes(stream, writer)
            at = random.choice(self.processes or [None])
            moves, asked_at, restored = judge.moves_of(stream), loop.time(), self.counts["restored"]
            try:
                if epoch is None and self.chance(30):
                    before = judge.greatest_epoch(stream)
                    name = f"{writer}{loop.time()}"
                    judge.forget_notes(stream, writer)
                    registered = await self.call(_registering(stream, writer, name), at)
                    epoch, restores = registered.epoch, self.counts["restored"]
                    if moves == judge.moves_of(stream):
                        judge.registered(stream, epoch, before)
                    time = max(time, self.server.now())
                    continue
                is_new = sent is None
                if sent is None:
                    time = max(time + random.choice((0, 1, 20)), self.server.now() - random.choice((0, 100)))
                    moved = random.choice((0, 1, 3))
                    offset += moved
                    sent = time, offset
                note = Note(writer=writer, times={"": sent[0]}, position={segment: sent[1]}, epoch=epoch)
                noted = await self.call(_taking(stream, note), at)
                judge.must(epoch is None or restores == restored, f"{writer} is not fenced after a restore")
                heard_at = asked_at
                judge.heard.pop((stream, writer), None)
                if not noted.answer.late and is_new:
                    judge.heard[stream, writer] = asked_at
                judge.noted(stream, writer, *sent, late=noted.answer.late or not is_new, moves=moves)
                sent, open_calls = None, 0
            except (Lost, Undecided):
                open_calls += 1
                judge.heard.pop((stream, writer), None)
            except Unavailable:
                if not open_calls and sent is not None and moved and moves == judge.moves_of(stream):
                    judge.unchanged(stream, writer, sent[1])
            except (TimeWentBack, PositionWentBack) as error:
                judge.must(open_calls > 0 or moves[1] > 0, f"{writer}: {sent} was refused: {error}")
                judge.forget_notes(stream, writer)
                sent, open_calls = None, 0
            except Fenced:
                epoch = None
                judge.forget_notes(stream, writer)
            except UnknownStream:
                judge.forget_notes(stream, writer)
                await asyncio.sleep(0.2)

    # -- readers -------------------------------------------------------------------------------------------------

    async def read(self, stream: str) -> None:
        random, judge = self.random, self.judge
        loop = asyncio.get_running_loop()
        seen: bytes | None = None
        after = 0
        before, moves = -1, judge.moves_of(stream)
        while not self.over:
            await asyncio.sleep(random.choice((0.001, 0.03, 0.03, 0.3)))
            if moves != judge.moves_of(stream):
                before = -1  # what it saw may be lost
            moves, asked_at = judge.moves_of(stream), loop.time()
            wait_ms = random.choice((0, 0, 200))

            try:
                page, version, loaded, process = await self.call(_asking(stream, seen, after, wait_ms))
            except (Lost, Unavailable, Undecided):
                continue
            except UnknownStream:
                after, seen, before = 0, None, -1
                continue
            except Refused as error:  # no mark has this seq yet
                judge.must(moves != judge.moves_of(stream) or moves != (0, 0), f"{stream}: after {after}: {error!r}")
                after, seen, before = 0, None, -1
                continue
            if moves != judge.moves_of(stream) or loaded is None or loaded.head.identity != page.identity:
                after, seen, before = 0, None, -1
                continue
            if not judge.is_of_this_history(loaded):
                self.counts["of a lost history"] += 1
                since = max(judge.went_back_at, process.store.failed_at)
                judge.must(asked_at - since < 0.25, f"{stream}: a lost history is served")
                after, seen, before = 0, None, -1
                continue
            is_gone = asked_at > judge.deleted_at.get(page.identity, asked_at) + 0.15
            if is_gone and judge.identity(stream) != page.identity:  # else its deletion was lost
                since = process.store.failed_at
                judge.must(asked_at - since < 0.25, f"{stream}: it is served after it was deleted")
            judge.shown(stream, page.identity, "", page.marks)
            if version is not None:
                number = int(version.rpartition(b"-")[2])
                if seen is not None and seen.rpartition(b"-")[0] == version.rpartition(b"-")[0]:
                    judge.must(number >= before, f"{stream}: a reader saw version {before}, and then {number}")
                seen, before = version, number
            after = page.marks[-1].seq if page.marks else after
            if self.chance(5):
                after = max(0, after - 3)

    # -- groups --------------------------------------------------------------------------------------------------

    async def follow(self, reader: str, places: dict[str, str]) -> None:
        """A reader of the group, with segments of its own: by stream, one."""
        random, judge = self.random, self.judge
        epoch: int | None = None
        read = dict.fromkeys(places, 0)
        while not self.over:
            await asyncio.sleep(random.choice((0.005, 0.05, 0.2, 0.5)))
            moves, told = judge.moves[""], judge.greatest(judge.facts.told, GROUP)
            positions = {stream: {segment: read[stream]} for stream, segment in places.items()}
            try:
                if self.chance(35):
                    window = await self.call(_window(judge))
                    judge.told(GROUP, window.watermarks, told, moves)
                    continue
                if epoch is None:
                    answer = await self.call(_joining(reader, positions))
                    epoch = answer.epoch
                else:
                    for stream, segment in places.items():
                        marks = judge.facts.marks.get((judge.identity(stream) or "", ""), [])
                        ahead = marks[-1][1].cut.offset(segment) if marks else 0
                        read[stream] = max(read[stream], ahead - random.choice((0, 0, 1)))
                    positions = {stream: {segment: read[stream]} for stream, segment in places.items()}
                    answer = await self.call(_reporting(reader, epoch, positions))
                if moves == judge.moves[""]:
                    judge.told(GROUP, answer.window.watermarks, told, moves)
                    self._check_places(positions)
            except (Lost, Unavailable, Undecided):
                continue
            except (Fenced, UnknownReader, UnknownGroup):
                epoch = None
            except (UnknownStream, StreamRecreated):
                await self._renew_group(reader)
            except Refused as error:
                judge.must(moves > 0, f"{reader}: {error!r}")
                epoch, read = None, dict.fromkeys(places, 0)

    def _check_places(self, positions: dict[str, dict[str, int]]) -> None:
        stored = self.judge.stored_group(GROUP)
        if stored is None:
            return
        for stream, position in positions.items():
            for segment, offset in position.items():
                found = stored.offsets.get((stream, segment), 0)
                self.judge.must(found >= offset, f"{stream}/{segment}: {offset} was reported, and {found} is stored")

    async def _renew_group(self, reader: str) -> None:
        """Its streams are others: it is made anew."""
        self.judge.moves[""] += 1
        self.judge.facts.told.pop(GROUP, None)
        with suppress(Lost, StrandlineError):
            await self.call(lambda each: each.groups.delete(GROUP))
        await self.create_group()

    async def create_group(self) -> None:
        settings = GroupSettings(streams=tuple(STREAMS), idle_timeout_ms=1_500, reader_timeout_ms=5_000)
        while True:
            try:
                await self.call(lambda each: each.groups.create(GROUP, settings))
                return
            except (Lost, Unavailable, Undecided):
                pass
            except UnknownStream:
                await asyncio.sleep(0.2)

    # -- operators -----------------------------------------------------------------------------------------------

    async def create(self, stream: str) -> None:
        settings = {
            "mark_interval_ms": self.random.choice((0, 100)),
            "max_ahead_ms": None,
            "writer_timeout_ms": WRITER_TIMEOUT_MS,
        }
        while True:
            try:
                await self.call(lambda each: each.streams.create(stream, 4, settings))
                return
            except (Lost, Unavailable, Undecided):
                pass

    async def operate(self) -> None:
        random, judge = self.random, self.judge
        while not self.over:
            await asyncio.sleep(random.choice((0.3, 1.0, 2.0)))
            stream = random.choice(sorted(STREAMS))
            writer = random.choice(STREAMS[stream])
            what = random.choice(("configure", "exclude", "evaluate", "scale", "delete", "create"))
            try:
                await self._operate(what, stream, writer)
            except (Lost, StrandlineError) as error:
                judge.must(not isinstance(error, StreamExists | GroupExists), repr(error))

    async def _operate(self, what: str, stream: str, writer: str) -> None:
        def change(call: Callable[[Stream, int], Any]) -> Call:
            return lambda each: each.streams.change(stream, call)

        match what:
            case "configure":
                settings = {"mark_interval_ms": self.random.choice((0, 50, 200))}
                await self.call(change(lambda found, now: found.configure(settings, now)))
            case "exclude":
                self.judge.excluded.add((stream, writer))
                self.judge.forget_notes(stream, writer)
                name = self.random.choice(("exclude", "include"))
                await self.call(change(lambda found, now: getattr(found, name)(writer, now)))
            case "evaluate":
                await self.call(lambda each: each.streams.evaluate(stream, ""))
            case "scale":
                parts = [NewSegment("a", 0.75, 0.875), NewSegment("b", 0.875, 1.0)]
                await self.call(change(lambda found, now: found.scale({"3": 0}, parts, now)))
            case "create":
                await self.create(stream)
            case "delete" if self.deletes_streams:
                await self.recreate(stream)

    async def recreate(self, stream: str) -> None:
        """Deletes a stream at one controller while others create it: each way is right."""
        judge = self.judge
        identity = judge.identity(stream)
        settings = SETTINGS
        calls = [lambda each: each.streams.delete(stream)]
        calls += [lambda each: each.streams.create(stream, 4, settings)] * self.random.choice((0, 1, 2))
        for writer in STREAMS[stream]:
            judge.forget_notes(stream, writer)
        found = await asyncio.gather(*map(self.call, calls), return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, Lost | Unavailable | Undecided | UnknownStream):
                raise each
        if found[0] is None and identity is not None:
            judge.deleted_at[identity] = asyncio.get_running_loop().time()
        self.counts["deleted"] += 1
        await self.create(stream)

    async def administer(self) -> None:
        """Makes and revokes tokens."""
        random, connection, tokens = self.random, self.server.connection, self.judge.tokens
        while not self.over:
            await asyncio.sleep(random.choice((0.01, 0.05, 0.1)))
            with connection.begin():
                valid = [each.grant.name for each in list_tokens(connection) if each.revoked_at is None]
            if len(valid) < 2 or random.random() < 0.3:
                name = f"token-{len(tokens)}"
                tokens[name] = name.encode()
                grant = Grant(name=name, role=Role.READER)
                self.server.change_tokens(partial(add_token, grant=grant, digest=digest_of(tokens[name]), now=0))
            else:
                self.server.change_tokens(partial(revoke_token, name=random.choice(valid), now=0))

    # -- faults --------------------------------------------------------------------------------------------------

    async def break_things(self) -> None:
        random, server = self.random, self.server
        loop = asyncio.get_running_loop()
        while not self.over and not self.calm:
            await asyncio.sleep(random.choice((0.2, 1.0, 2.0)))
            what = random.choice(FAULTS)
            serving = [each for each in self.processes if each.serves]
            self.counts[f"fault: {what}"] += 1
            server.troubled_at = loop.time()
            if what == "stop" and serving:
                random.choice(serving).stop(random.choice((0.1, 1.5, 4.0)))
            elif what == "stop in a transaction" and serving:
                random.choice(serving).store.stops_for_s = random.choice((0.5, 1.5, 4.0))
            elif what == "kill" and serving:
                self.kill(random.choice(serving))
                if len(self.processes) < 2:
                    self.start_process()
            elif what == "start" and len(self.processes) < 3:
                self.start_process()
            elif what == "fail":
                server.fails = True
                await asyncio.sleep(random.choice((0.05, 0.5, 4.0)))
                server.fails = False
                server.troubled_at = loop.time()
            elif what == "fail over":
                server.go_back(random.choice((0, 1, 2, 6)), restored=False)
            elif what == "restore" and self.chance(30):
                server.go_back(random.choice((0, 3)), restored=True)
            elif what == "leap" and self.chance(30):
                server.ahead_ms += random.choice((1, 1, -1)) * (SERVED_GAP_MS + random.choice((1_500, 60_000)))
                self.counts["leaps"] += 1
            elif what == "gap" and self.chance(50):
                for each in list(self.processes):
                    self.kill(each)
                began = loop.time()
                await asyncio.sleep(random.choice((1.0, 8.0)))
                self.judge.gaps.append((began, loop.time()))
                for _ in range(2):
                    self.start_process()

    def kill(self, process: Process) -> None:
        process.kill()
        self.processes.remove(process)

    # -- the end -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        random = self.random
        for _ in range(random.choice((2, 2, 3))):
            self.start_process()
        await asyncio.gather(*map(self.create, STREAMS))
        await self.create_group()
        for stream, writers in STREAMS.items():
            self.writers |= {writer: asyncio.create_task(self.write(stream, writer)) for writer in writers}
        jobs = [self.read(random.choice(sorted(STREAMS))) for _ in range(2)]
        jobs += [self.follow("r1", {"s": "0", "t": "0"}), self.follow("r2", {"s": "1", "t": "1"})]
        jobs += [self.operate(), self.administer()]
        tasks = [*self.writers.values(), *(asyncio.create_task(each) for each in jobs)]
        faults = asyncio.create_task(self.break_things())
        ending = asyncio.create_task(self._end(faults, asyncio.gather(*tasks, return_exceptions=True)))
        await asyncio.wait([*tasks, faults, ending, self.judge.failed], return_when="FIRST_EXCEPTION")
        for ended in (self.judge.failed, ending, faults, *tasks):
            if ended.done():
                ended.result()
        for each in self.processes:
            await each.commits.settled()
            each.check()

    async def _end(self, faults: asyncio.Task[None], over: asyncio.Future[Any]) -> None:
        """Faults cease; one writer of each stream says nothing any more, and nobody has the other stream in memory."""
        await asyncio.sleep(SECONDS)
        self.silent = {"w-1", "v-0", "v-1"}
        self.over = True
        await faults
        self.server.trouble = 0.0
        for each in list(self.processes):
            if not self.calm and self.chance(50):
                self.kill(each)
        while len(self.processes) < 2:
            self.start_process()
        while sum(each.serves for each in self.processes) < 2:
            await asyncio.sleep(0.1)
        await asyncio.wait([self.writers[name] for name in self.silent])
        await asyncio.sleep(2 * WRITER_TIMEOUT_MS / 1000 + 3.0)  # clocks go at half pace after one was set back
        self.check_silent()
        for each in self.processes:
            subjects = each.in_memory()
            commits = -1
            while subjects and commits != self.server.commits:  # of others, while it looks
                commits = self.server.commits
                await each.run(each.freshness.compare(subjects))
            heads = self.judge.heads(subjects)
            for subject in subjects:
                cached = each.commits.loaded(subject)
                late = cached is not None and cached.head.differs(heads.get(subject))
                self.judge.must(not late, f"{subject} is old after a look")
            await each.run(each.tokens.refresh())
            self.judge.same_tokens(each.tokens, now=True)
        self.silent = {writer for writers in STREAMS.values() for writer in writers}
        await over
        self.judge.failed.set_result(None)

    def check_silent(self) -> None:
        judge = self.judge
        connection = self.server.connection
        judge.must(not due_streams(connection, self.server.now() - 5_000), "a stream is due and nobody advances it")
        for stream in STREAMS:
            stored = judge.stored(stream)
            if stored is None:
                continue
            for name, writer in stored.stream.writers.items():
                if name in self.silent:
                    states = set(stored.stream.states(writer).values())
                    judge.must(not states & {"active", "joined"}, f"{name} of {stream} has not timed out: {states}")
                    self.counts["timed out at the end"] += 1


def _registering(stream: str, writer: str, name: str) -> Call:
    return lambda each: each.streams.register(stream, writer, None, registration=name)


async def _made(call: Call, at: Process) -> Any:
    return await call(at)


def _taking(stream: str, note: Note) -> Call:
    return lambda each: each.notes.take(stream, note)


def _joining(reader: str, positions: Mapping[str, Mapping[str, int]]) -> Call:
    return lambda each: each.groups.register(GROUP, reader, positions)


def _reporting(reader: str, epoch: int, positions: Mapping[str, Mapping[str, int]]) -> Call:
    return lambda each: each.groups.report(GROUP, reader, epoch, positions)


def _window(judge: Judge) -> Call:
    async def ask(each: Process) -> GroupWindow:
        window = await each.groups.window(GROUP)
        if loaded := each.groups.find_loaded(GROUP):
            judge.held_is_stored(loaded, window)
        return window

    return ask


def _asking(stream: str, seen: bytes | None, after: int, wait_ms: int) -> Call:
    """Asks for marks, as the route of HTTP does."""

    async def ask(each: Process) -> Any:
        await each.reads.catch_up(stream, seen)
        page = await each.reads.marks(stream, "", after, 100, wait_ms)
        return page, each.reads.version_of(stream), each.streams.find_loaded(stream), each

    return ask


def run(draw: Draw) -> Counter[str]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_run(draw))


async def _run(draw: Draw) -> Counter[str]:
    world = World(draw)
    bugs = _Bugs(world.judge)
    log = logging.getLogger("controller")
    log.addHandler(bugs)
    log.propagate = False
    try:
        await world.run()
    finally:
        log.removeHandler(bugs)
        log.propagate = True
        for each in world.processes:
            each.kill()
    return world.counts + world.server.counts


SEVERAL: Final = Suite("several", run)  # a promise that is broken may show as any error
