"""One simulated process: a driver of a real `Member` and real tenures, with streams in memory, commits and loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from controller.cluster.actions import CommitOutcome, Drop, HandOver, Hold, PassOn, Refuse, Serve, Stop
from controller.cluster.member import Member, MemberPhase
from controller.cluster.records import Adopt, Beat, Begin, ControllerRow, End, Identity, Kind, Leave, Take
from controller.commit.serving import HEARTBEAT_MS
from controller.joint.shard_tenures import ShardTenures
from controller.storage.tenure import Tenure
from strandline.errors import NotOwner
from tests.cluster.store import START, Data, Session
from tests.cluster.truth import NOTHING_SHOWN, WRITER_TIMEOUT_MS, Shown

if TYPE_CHECKING:
    from tests.cluster.world import World

HELD_MS = 60  # between two looks of a call that waits
CALL_MS = 1_500  # how long a call waits for its stream to be loaded


@dataclass(slots=True)
class Memory:
    """A loaded stream, which may be ahead of the store."""

    data: Data
    durable: int  # marks that readers may be shown
    tenure: Tenure
    dirty: bool = False
    bad: str | None = None
    heard_at: dict[tuple[int, int], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """A note of a writer, or a read, for the stream of a shard."""

    shard: int
    writer: int | None  # None for a read
    time: int
    reply: Callable[[bool], None]
    until: float
    passed_on_to: int | None = None
    seen: Shown = NOTHING_SHOWN  # by the reader, when it asked
    since: int | None = None  # by the monotonic clock of the controller that it has come to


Waiting: TypeAlias = list[Call]


class Process:
    """A controller from its start to its end. Whatever reaches it while it is paused waits until it goes on."""

    def __init__(self, world: World, name: str, number: int) -> None:
        self.world = world
        self.number = number
        self.alive = True
        self.paused = False
        self.cut = False  # from the store
        self.timeline = world.store.timeline  # on which its sessions are
        self.origin = world.random.randrange(1_000_000)
        self.suspended_at: float | None = None  # since when its monotonic clock stands still
        self.asleep_ms = 0.0  # for how long it has stood still
        self.rate = world.random.uniform(0.99, 1.01)
        self.skew = world.random.choice([0, 0, 8_000, -8_000, 20_000])  # of its wall clock, which nothing may matter to
        self.member = Member(Identity(name, str(number), None, "1"), world.new_id)
        self.memory: dict[int, Memory] = {}
        self.tenures = ShardTenures(name, lambda: self.member.may_serve(self.monotonic))
        self.waiting: Waiting = []  # applied, and in the next commit
        self.session: Session | None = None
        self._loading: set[int] = set()
        self._wants_commit = False
        self._backlog: list[Callable[[], None]] = []
        self._timer = 0

    @property
    def monotonic(self) -> int:
        return int(self.origin + (self.world.time - self.asleep_ms) * self.rate)

    # -- running -------------------------------------------------------------------------------------------------

    def enter(self, do: Callable[[], None]) -> None:
        """Something reaches the process: an answer, a call, a timer."""
        if not self.alive:
            return
        if self.paused:
            self._backlog.append(do)
            return
        do()
        self.pump()

    def after(self, ms: float, do: Callable[[], None]) -> None:
        self.world.after(ms, partial(self.enter, do))

    def go_on(self) -> None:
        """Ends a pause: what was waiting happens in any order."""
        if not self.paused:
            return
        self.paused = False
        if self.suspended_at is not None:
            self.asleep_ms += self.world.time - self.suspended_at
            self.suspended_at = None
        backlog, self._backlog = self._backlog, []
        self.world.random.shuffle(backlog)
        for do in backlog:
            self.enter(do)
        self.enter(self.tick)

    def tick(self) -> None:
        """Lets silent writers go, of all loaded streams."""
        for shard in list(self.memory):
            if isinstance(self.member.route(self.monotonic, shard), Serve):
                self.let_go(shard, self.memory[shard], self.moment(shard))

    def commit_each_second(self) -> None:
        """Commits even where nothing has changed, and so learns soon that the store is away."""
        self._wants_commit = True
        self.after(HEARTBEAT_MS, self.commit_each_second)

    def pump(self) -> None:
        """Does what is due."""
        for action in self.member.due(self.monotonic):
            self.perform(action)
        for owned in self.member.owned.all():
            if not owned.closing and not self.tenures.has(owned):
                self.tenures.begin(owned, (), self.member.clock.now(self.monotonic))
        self.flush()
        self._timer += 1
        at = self.member.next_due()
        if at is not None and self.alive:
            assert at > self.monotonic, f"due again at {at}, now it is {self.monotonic}"
            self.world.after((at - self.monotonic) / self.rate + 1, partial(self._due, self._timer))

    def _due(self, timer: int) -> None:
        if timer == self._timer or self.paused:
            self.enter(lambda: None)

    def leave_timeline(self) -> None:
        """A new session is on another timeline than those before."""
        if self.timeline != self.world.store.timeline:
            self.timeline = self.world.store.timeline
            self.start_over()

    def start_over(self) -> None:
        self.member.start_over()

    def perform(self, action: Any) -> None:
        member = self.member
        match action:
            case Begin():
                self.ask(action, member.begun, member.begin_failed)
            case Beat():
                self.ask(action, member.beat_answered, member.beat_failed)
            case End():
                self.ask(action, member.ended, member.request_failed)
            case Take():
                self.ask(action, member.taken, member.request_failed)
            case Adopt():
                self.ask(action, member.adopted, member.request_failed)
            case Leave():
                self.ask(action, lambda now, leave, _: member.left(now, leave), member.request_failed)
            case HandOver(shards=shards):
                self.tenures.close(shards)
                self._wants_commit = True
            case Drop(shards=shards):
                for shard in shards:
                    self.drop(shard)
                self.tenures.end(shards)
            case Stop():
                self.world.stopped(self)

    def hand_over(self, random: Random) -> None:
        shards = self.member.owned.shards()
        if shards and isinstance(self.member.route(self.monotonic, shards[0]), Serve):
            given = [random.choice(shards)]
            self.member.owned.close(given)
            self.tenures.close(given)
            self.member._knows_shards = False  # it does not take the shard again before another one had its turn
            self.member._beat_at = self.monotonic + 700
            self._wants_commit = True

    def look(self) -> None:
        self.member.check_soon(self.monotonic)

    def drop(self, shard: int) -> None:
        self.memory.pop(shard, None)
        self.waiting = [call for call in self.waiting if call.shard != shard]

    def ask(self, request: Any, answered: Callable[..., None], failed: Callable[..., None]) -> None:
        """Sends a request to the store. One that gets no answer may still be done."""
        over = False

        def hear(answer: Any) -> None:
            nonlocal over
            if not over:
                over = True
                answered(self.monotonic, request, answer)

        def give_up() -> None:
            nonlocal over
            if not over:
                over = True
                failed(self.monotonic, request)

        self.world.ask(self, lambda reply: self.world.store.do(request, reply), hear, give_up)

    # -- commits -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Begins a commit, if there is something to write and none is under way."""
        dirty = {shard for shard, memory in self.memory.items() if memory.dirty}
        if self.session is not None or self.member.settling or not (dirty or self._wants_commit):
            return
        self._wants_commit = False
        commit = self.member.begin_commit(self.monotonic, dirty)
        if commit is None:
            self.discard()
            return
        writes = {shard: self.memory[shard].data.copy() for shard in dirty}
        now = self.member.clock.now(self.monotonic)
        self.tenures.commit_begins(now)
        bad = {shard: memory.bad for shard, memory in self.memory.items() if memory.bad is not None}
        heard_at = {who: at for shard in dirty for who, at in self.memory[shard].heard_at.items()}
        session = Session(commit, writes, bad, heard_at, self.tenures.grown(self.member.owned.all(), now))
        calls, self.waiting = self.waiting, []
        for shard in dirty:
            memory = self.memory[shard]
            memory.data.version += 1
            memory.dirty, memory.bad, memory.heard_at = False, None, {}
        self.session = session
        self.world.truth.commit_began(self.member.id, self.world.time)
        self.world.ask(
            self,
            lambda reply: reply(self.world.store.check(session)),
            lambda may: self.checked(session, calls, may),
            lambda: self.committed(session, calls, CommitOutcome.LOST),
        )

    def checked(self, session: Session, calls: Waiting, may: bool) -> None:
        if self.session is not session:
            return
        if not may:
            self.committed(session, calls, CommitOutcome.REFUSED)
        else:
            self.world.write(
                self,
                session,
                lambda done: self.committed(session, calls, CommitOutcome.DONE if done else CommitOutcome.FAILED),
                lambda: self.committed(session, calls, CommitOutcome.LOST),
            )

    def committed(self, session: Session, calls: Waiting, outcome: CommitOutcome) -> None:
        if self.session is not session:
            return
        self.session = None
        now = self.monotonic
        self.world.truth.commit_ended(session.commit.check.id, self.world.time, outcome is CommitOutcome.DONE)
        if outcome is not CommitOutcome.DONE:
            self.tenures.commit_failed()
            self.discard_failed(session)
            self.member.commit_ended(now, session.commit, outcome)
            return
        self.tenures.commit_is_done(self.member.clock.now(now), session.unserved)
        for shard, written in session.writes.items():
            if shard in self.memory:
                self.memory[shard].durable = max(self.memory[shard].durable, len(written.marks))
        self.member.commit_ended(now, session.commit, outcome)
        for call in calls:
            call.reply(True)

    def discard_failed(self, session: Session) -> None:
        """What was to be written, and what was applied on top of it, is forgotten."""
        for shard in session.writes:
            self.drop(shard)
        self.discard()

    def discard(self) -> None:
        for shard in [shard for shard, memory in self.memory.items() if memory.dirty]:
            self.drop(shard)

    # -- calls ---------------------------------------------------------------------------------------------------

    def call(self, call: Call) -> None:
        if self.world.time > call.until:
            return
        since = self.monotonic if call.since is None else call.since
        call = replace(call, since=since)
        seen, passed_on_to = call.seen.fence, call.passed_on_to
        match self.member.route(self.monotonic, call.shard, fence=seen, since=since, passed_on_to=passed_on_to):
            case Serve():
                if call.shard in self.memory:
                    self.serve(call)
                else:
                    self.load(call.shard)
                    self.after(HELD_MS, partial(self.call, call))
            case Hold():
                self.after(HELD_MS, partial(self.call, call))
            case PassOn(to=to):
                self.pass_on(call, to)
            case Refuse():
                call.reply(False)

    def pass_on(self, call: Call, to: ControllerRow) -> None:
        def refused(done: bool) -> None:
            if done:
                call.reply(True)
            else:
                self.after(HELD_MS, again)

        def again() -> None:
            self.member.check_soon(self.monotonic)
            self.call(call)

        other = replace(call, reply=refused, passed_on_to=to.id, since=None)
        self.world.send(int(to.address), other)

    def serve(self, call: Call) -> None:
        memory = self.memory[call.shard]
        now = self.moment(call.shard)
        if call.writer is None:
            shown = memory.data.marks[: self.newest_shown(memory)]
            store = self.world.store
            tenure = self.member.owned.get(call.shard)
            assert tenure is not None
            if self.timeline == store.timeline:  # else it has not heard of what was lost
                told = Shown(len(shown), now, tenure.fence)
                stored = store.data[call.shard].marks, store.now
                self.world.truth.judge_read(call.shard, call.seen, told, shown, stored)
            call.reply(True)
            return
        self.let_go(call.shard, memory, now)
        data = memory.data
        served = memory.tenure.unserved.served(now)
        if call.time >= data.notes[call.writer]:
            data.notes[call.writer], data.heard[call.writer], data.out[call.writer] = call.time, served, False
            # The clock may be behind by as long as the store took to answer: silence is judged to within a lease.
            memory.heard_at[call.shard, call.writer] = min(self.world.time, now - START)
        self.make_mark(call.shard, memory)
        self.waiting.append(call)

    def newest_shown(self, memory: Memory) -> int:
        return memory.durable

    def moment(self, shard: int) -> int:
        """The stream's time, as a call finds it."""
        memory = self.memory[shard]
        now = memory.data.clock = max(memory.data.clock, self.now(memory.tenure))
        memory.bad = memory.bad or self.world.truth.judge_clock(shard, now)
        return now

    def let_go(self, shard: int, memory: Memory, now: int) -> None:
        data, truth, served = memory.data, self.world.truth, memory.tenure.unserved.served(now)
        silent = [
            writer
            for writer, heard in enumerate(data.heard)
            if data.notes[writer] and not data.out[writer] and served - heard >= WRITER_TIMEOUT_MS
        ]
        for writer in silent:
            data.out[writer] = True
            memory.bad = memory.bad or truth.judge_let_go(shard, writer, self.world.time)
        if silent:
            self.make_mark(shard, memory)

    def make_mark(self, shard: int, memory: Memory) -> None:
        data = memory.data
        counted = [time for time, out in zip(data.notes, data.out, strict=True) if not out] or [max(data.notes)]
        if min(counted) > (data.marks[-1] if data.marks else 0):
            data.marks.append(min(counted))
            said = self.world.truth.said[shard]
            if any(data.marks[-1] > said[writer] for writer, out in enumerate(data.out) if not out):
                memory.bad = memory.bad or f"mark {data.marks[-1]} of shard {shard} is beyond what writers said: {said}"
        memory.dirty = True

    # -- loads ---------------------------------------------------------------------------------------------------

    def load(self, shard: int) -> None:
        tenure = self.tenure_of(shard)
        if tenure is None or shard in self._loading:
            return
        self._loading.add(shard)
        self.world.ask(
            self,
            lambda reply: reply(self.world.store.data[shard].copy()),
            lambda data: self.loaded(shard, tenure, data),
            lambda: self._loading.discard(shard),
        )

    def tenure_of(self, shard: int) -> Tenure | None:
        """The tenure in which a stream of this shard may be loaded now."""
        found = [each for each in self.tenures.under([shard]) if self.tenures.serves(each)]
        return found[0] if found and self.may_read() else None

    def may_read(self) -> bool:
        """The store reads nothing before it is known how a lost commit has ended."""
        return not self.member.settling

    def loaded(self, shard: int, tenure: Tenure, data: Data) -> None:
        self._loading.discard(shard)
        if shard not in self.memory and self.tenures.serves(tenure):
            try:
                tenure.check_latest(Kind.STREAM, str(shard), data.fence)
            except NotOwner:
                return
            self.remember(shard, tenure, data)

    def remember(self, shard: int, tenure: Tenure, data: Data) -> None:
        data.clock = max(data.clock, self.now(tenure))
        self.memory[shard] = Memory(data, len(data.marks), tenure)

    def now(self, tenure: Tenure) -> int:
        return tenure.moment(self.member.clock.now(self.monotonic)).now

    @property
    def serving(self) -> bool:
        return self.alive and not self.paused and self.member.phase is MemberPhase.SERVING
