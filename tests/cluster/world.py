"""Controllers, a store, writers and readers in simulated time, with faults. One seed replays everything.

.venv/bin/python -m tests.cluster.world SEED
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Any

from controller.cluster.shards import fair_share
from tests.cluster.process import CALL_MS, Call, Process
from tests.cluster.store import Session, Store
from tests.cluster.truth import NOTHING_SHOWN, Broken, Truth

HEALED_MS = 6_000  # after the last fault, everybody is served again
ANSWERED_MS = 13_000  # after the last fault, every writer was answered since
LET_GO_MS = 15_000  # after the last fault, every writer that says nothing was let go
EVEN_MS = 9_000  # after the last controller came or went, shards are even
FOR_EVER_MS = 10**9
FAULTS = (
    "kill",
    "pause",
    "cut",
    "lose",
    "slow",
    "outage",
    "refuse",
    "set_clock",
    "drain",
    "join",
    "silence",
    "hand_over",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a history is like. What is not given is drawn from the seed."""

    faults: tuple[str, ...] = FAULTS
    ms: int = 25_000  # with faults
    every_ms: int = 1_500  # between two faults
    latency_ms: tuple[int, int] | None = None  # of a message
    slowed: float = 0.0  # the share of requests to the store that take long, besides faults
    controllers: int | None = None
    shards: int | None = None
    note_ms: int = 900  # between two notes of a writer, or two reads of a reader


@dataclass(slots=True)
class World:
    """Everything there is."""

    seed: int
    plan: Plan = field(default_factory=Plan)
    time: float = 0.0  # real, in milliseconds
    trace: Callable[[str], None] | None = None
    random: Random = field(init=False)
    truth: Truth = field(init=False)
    store: Store = field(init=False)
    processes: dict[int, Process] = field(init=False, default_factory=dict)
    events: int = 0
    calm: bool = False
    lost: float = 0.0  # the share of requests to the store that get no answer
    slowed: float = 0.0  # the share that take long, or whose answers do
    down: bool = False
    refusing: bool = False  # commits fail, and beats do not
    quiet_until: float = 0.0  # writers say nothing
    muted_until: dict[tuple[int, int], float] = field(init=False, default_factory=dict)  # one of a shard says nothing
    latency: tuple[int, int] = (1, 10)
    writers: int = 1
    _heap: list[tuple[float, int, Callable[[], None]]] = field(init=False, default_factory=list)
    _order: count[int] = field(init=False, default_factory=count)
    _numbers: count[int] = field(init=False, default_factory=count)
    _names: count[int] = field(init=False, default_factory=count)

    def __post_init__(self) -> None:
        self.random = random = Random(self.seed)
        plan = self.plan
        self.slowed = plan.slowed
        self.latency = plan.latency_ms or random.choice([(1, 10), (5, 60), (20, 400)])
        shards, self.writers = plan.shards or random.randint(1, 4), random.randint(1, 2)
        self.truth = Truth(shards, self.writers)
        self.store = Store(self.truth, shards, self.writers)
        for _ in range(plan.controllers or random.randint(2, 3)):
            self.start(f"c{next(self._names)}", random.randrange(1_500))
        for shard in range(shards):
            for writer in range(self.writers):
                self.after(random.randrange(plan.note_ms), partial(self.note, shard, writer))
            self.after(random.randrange(plan.note_ms), partial(self.read, shard))
        self.after(random.randrange(2 * plan.every_ms), self.break_something)
        self.every(250, self.store.end_idle_sessions)
        self.every(400, self.tick)

    def run(self) -> None:
        """Runs to the end; raises Broken."""
        plan, truth = self.plan, self.truth
        self.run_until(plan.ms)
        self.heal()
        self.run_until(plan.ms + HEALED_MS)
        goal = [[time + 1 for time in times] for times in truth.said]
        self.run_until(plan.ms + ANSWERED_MS)
        for shard, times in enumerate(goal):
            for writer, time in enumerate(times):
                if truth.answered[shard][writer] < time and (shard, writer) not in self.muted_until:
                    raise Broken(f"writer {writer} of shard {shard} got no answer long after the last fault")
        while self.time < self.store.changed_at + EVEN_MS:
            self.run_until(self.store.changed_at + EVEN_MS)
        self.judge_shares()
        if self.muted_until and not truth.store_clock_was_set:
            self.run_until(max(self.time, plan.ms + LET_GO_MS))
            for shard, writer in self.muted_until:
                data = self.store.data[shard]
                if data.notes[writer] and not data.out[writer]:
                    raise Broken(f"writer {writer} of shard {shard} says nothing, and still holds time back")

    def run_until(self, time: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= time:
            self.time, _, do = heapq.heappop(heap)
            self.store.time = self.time
            self.events += 1
            do()
        self.time = self.store.time = time

    def judge_shares(self) -> None:
        serving = {process.member.id: process for process in self.processes.values() if process.serving}
        share = fair_share(len(self.store.shards), len(serving))
        owned = [row.owner for row in self.store.shards]
        for owner in serving:
            if owned.count(owner) > share or set(owned) - serving.keys():
                raise Broken(f"the shards of {list(serving)} are not even: {owned}")

    # -- time ----------------------------------------------------------------------------------------------------

    def after(self, ms: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.time + ms, next(self._order), do))

    def every(self, ms: float, do: Callable[[], None]) -> None:
        def again() -> None:
            do()
            self.after(ms, again)

        self.after(ms, again)

    def delay(self) -> float:
        return self.random.uniform(*self.latency)

    def tick(self) -> None:
        for process in list(self.processes.values()):
            if not process.paused:
                process.enter(process.tick)

    def tell(self, text: str) -> None:
        if self.trace is not None:
            self.trace(f"{self.time:8.0f} {text}")

    def new_id(self) -> int:
        return self.random.randrange(1, 2**63)

    # -- messages ------------------------------------------------------------------------------------------------

    def ask(
        self,
        process: Process,
        at_store: Callable[[Callable[[Any], None]], None],
        hear: Callable[[Any], None],
        give_up: Callable[[], None],
    ) -> None:
        """Sends something to the store. What is lost may be done all the same, before or after it is given up."""
        lost = self.random.random() < self.lost
        late = self.random.random() < (0.3 if lost else self.slowed)
        timeline = process.timeline  # its session is on this one
        there = self.delay() + (self.random.randrange(4_000) if late else 0)
        if lost:
            self.after(self.delay() + self.random.randrange(300), partial(process.enter, give_up))
            if self.random.random() < 0.3:
                return

        def arrive() -> None:
            if timeline != self.store.timeline:
                process.enter(process.leave_timeline)
                process.enter(give_up)
            elif self.down or process.cut:
                self.after(self.random.randrange(20, 900), partial(process.enter, give_up))
            else:
                at_store(reply)

        def reply(answer: Any) -> None:
            if process.cut:
                self.after(self.random.randrange(20, 900), partial(process.enter, give_up))
            elif not lost:
                late = self.random.randrange(2_500) if self.random.random() < self.slowed else 0
                self.after(self.delay() + late, partial(process.enter, partial(heard, answer)))

        def heard(answer: Any) -> None:
            if timeline == self.store.timeline:
                hear(answer)
            else:  # the session is gone
                give_up()

        self.after(there, arrive)

    def write(self, process: Process, session: Session, hear: Callable[[bool], None], lost: Callable[[], None]) -> None:
        """Sends the second part of a commit, in the session of the first."""

        def arrive(reply: Callable[[bool], None]) -> None:
            if session.over:
                reply(False)
                return
            session.idle_since = None  # the server works on it
            self.after(self.delay(), partial(finish, reply))

        def finish(reply: Callable[[bool], None]) -> None:
            if self.refusing:
                self.store.close(session)
                reply(False)
            elif not session.over:
                self.store.write(session)
                reply(True)
            else:
                reply(False)

        self.ask(process, arrive, hear, lost)

    def send(self, number: int, call: Call) -> None:
        """Sends a call to a controller."""
        process = self.processes.get(number)
        if process is not None:
            self.after(self.delay(), partial(process.enter, partial(process.call, call)))

    # -- clients -------------------------------------------------------------------------------------------------

    @property
    def there(self) -> list[Process]:
        """The controllers that run, or may go on."""
        return [process for process in self.processes.values() if not (self.calm and process.paused)]

    def has(self, name: str) -> bool:
        return any(process.member.identity.name == name for process in self.there)

    def anyone(self) -> int | None:
        """The controller that a client calls. While nothing is broken, it soon learns which ones are there."""
        numbers = [process.number for process in self.there]
        return self.random.choice(numbers) if numbers else None

    def note(self, shard: int, writer: int) -> None:
        """A writer says its time, until it is answered; then the next one."""
        self.after(self.plan.note_ms * self.random.uniform(0.5, 1.5), partial(self.note, shard, writer))
        said, answered, number = self.truth.said[shard], self.truth.answered[shard], self.anyone()
        if number is None or self.time < max(self.quiet_until, self.muted_until.get((shard, writer), 0)):
            return
        if said[writer] == answered[writer]:
            said[writer] += 1
        time = said[writer]

        def hear(done: bool) -> None:
            if done:
                answered[writer] = max(answered[writer], time)

        self.send(number, Call(shard, writer, time, hear, self.time + CALL_MS))

    def read(self, shard: int) -> None:
        self.after(self.plan.note_ms * self.random.uniform(0.5, 1.5), partial(self.read, shard))
        number = self.anyone()
        if number is not None:
            # A fence would hide rules that do without: those of plans in which every monotonic clock goes on.
            seen = self.truth.shown(shard) if "suspend" in self.plan.faults else NOTHING_SHOWN
            self.send(number, Call(shard, None, 0, lambda _: None, self.time + CALL_MS, seen=seen))

    # -- faults --------------------------------------------------------------------------------------------------

    def start(self, name: str, in_ms: float) -> None:
        def begin() -> None:
            if self.calm and self.has(name):
                return
            process = Process(self, name, next(self._numbers))
            self.processes[process.number] = process
            self.tell(f"{name} starts as {process.number}")
            process.enter(process.commit_each_second)

        self.after(in_ms, begin)

    def stopped(self, process: Process) -> None:
        """A process ended by itself: it was drained, or another one has its name."""
        process.alive = False
        self.processes.pop(process.number, None)
        self.tell(f"{process.number} stopped")
        name = process.member.identity.name
        if not self.has(name):
            self.start(name, 100 + self.random.randrange(5_000))

    def break_something(self) -> None:
        if self.calm:
            return
        self.after(self.random.randrange(2 * self.plan.every_ms), self.break_something)
        fault = self.random.choice(self.plan.faults)
        running = [process for process in self.processes.values() if not process.paused]
        if fault in ("kill", "pause", "suspend", "cut", "drain", "hand_over") and not running:
            return
        process = self.random.choice(running) if running else None
        self.tell(f"{fault} {process.number if process else ''}")
        getattr(self, fault)(process)

    def kill(self, process: Process) -> None:
        process.alive = False
        self.processes.pop(process.number, None)
        session = process.session
        if session is not None and not session.over:
            self.after(self.delay(), partial(self.store.hang_up, session))
        self.start(process.member.identity.name, self.random.choice([20, 300, 2_000, 8_000]))

    def pause(self, process: Process) -> None:
        process.paused = True
        ms = self.random.choice([200, 1_500, 3_500, 6_000, 12_000, FOR_EVER_MS])
        if ms > 6_000 and self.random.random() < 0.4:  # somebody starts it again, although it is only paused
            self.start(process.member.identity.name, 4_500)
        self.after(ms, partial(self.go_on, process))

    def go_on(self, process: Process) -> None:
        """Lets a paused process go on, but not two of one name: then the one that begins ends the other at once."""
        name = process.member.identity.name
        if any(each.member.identity.name == name and not each.member.id for each in self.processes.values()):
            self.after(500, partial(self.go_on, process))
        else:
            process.go_on()

    def suspend(self, process: Process) -> None:
        """Its host sleeps: its monotonic clock stands still meanwhile."""
        self.truth.host_was_suspended = True
        process.paused, process.suspended_at = True, self.time
        self.after(self.random.choice([1_500, 4_500, 9_000]), process.go_on)

    def cut(self, process: Process) -> None:
        process.cut = True
        self.after(self.random.choice([300, 2_000, 4_500, 9_000]), partial(setattr, process, "cut", False))

    def lose(self, _: Process | None) -> None:
        self.lost = 0.3
        self.after(3_000, partial(setattr, self, "lost", 0.0))

    def slow(self, _: Process | None) -> None:
        """The store takes long for some of what it is asked."""
        self.slowed = 0.3
        self.after(self.random.choice([2_000, 6_000]), partial(setattr, self, "slowed", self.plan.slowed))

    def hand_over(self, process: Process) -> None:
        """A controller releases a shard, whatever its share is: it could have seen one that has left since."""
        process.enter(partial(process.hand_over, self.random))
        for other in self.processes.values():
            if other is not process:
                self.after(self.random.randrange(600), partial(other.enter, other.look))

    def drain(self, process: Process) -> None:
        process.enter(lambda: process.member.drain(process.monotonic))

    def join(self, _: Process | None) -> None:
        if len(self.processes) < 4:
            self.start(f"c{next(self._names)}", 0)

    def set_clock(self, _: Process | None) -> None:
        self.store.step += self.random.choice([20_000, -20_000])
        self.truth.store_clock_was_set = True

    def outage(self, _: Process | None) -> None:
        """The store's server is away: every session ends."""
        self.down = True
        for session in list(self.store.sessions):
            self.store.close(session)
        self.after(self.random.choice([300, 2_500, 5_000, 10_000]), partial(setattr, self, "down", False))

    def refuse(self, _: Process | None) -> None:
        """Every commit fails for a while, although all can be reached."""
        self.refusing = True
        self.after(self.random.choice([1_500, 6_000, 9_000]), partial(setattr, self, "refusing", False))

    def fail_over(self, _: Process | None) -> None:
        """A standby receives nothing more, and then it becomes the primary."""
        standby = self.store.copy()

        def promote() -> None:
            if not self.calm:
                self.store.fail_over(standby)

        self.after(self.random.choice([50, 500, 1_500]), promote)

    def silence(self, _: Process | None) -> None:
        self.quiet_until = self.time + self.random.choice([4_000, 9_000])

    def mute(self, _: Process | None) -> None:
        """One writer says nothing."""
        who = self.random.randrange(len(self.store.shards)), self.random.randrange(self.writers)
        self.muted_until[who] = self.time + self.random.choice([9_000, 14_000, FOR_EVER_MS])

    def heal(self) -> None:
        """No fault from now on, and what was broken is whole again; a process that is paused may stay so for ever."""
        self.calm = True
        self.lost, self.slowed, self.down, self.refusing, self.quiet_until = 0.0, 0.0, False, False, 0.0
        self.muted_until = {who: until for who, until in self.muted_until.items() if until >= FOR_EVER_MS}
        self.latency = (1, 20)
        stays = self.random.random() < 0.5
        self.tell("no more faults")
        for process in list(self.processes.values()):
            process.cut = False
            if process.paused and not stays:
                self.go_on(process)
        if not any(not (process.paused or process.member.draining) for process in self.processes.values()):
            self.start("last", 0)


def main(seed: int) -> None:
    def show(line: str) -> None:
        sys.stdout.write(line + "\n")

    World(seed, trace=show).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
