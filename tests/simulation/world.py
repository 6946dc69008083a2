"""The world of one seed: what happens next is drawn, step by step, and everything is told to the checker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

from strandline.core.segment import SegmentGraph
from strandline.core.served_time import SERVED_GAP_MS
from strandline.errors import Refused, UnknownWriter
from tests.simulation import scenario as scenarios
from tests.simulation.checker import Checker
from tests.simulation.controller import Controller, Host
from tests.simulation.ending import end
from tests.simulation.log import Event, Log, Piece, Scaling
from tests.simulation.network import Call, Kind, Network, Reply
from tests.simulation.people import Reader, interfere
from tests.simulation.scenario import Scenario
from tests.simulation.writers import Phase, Process

START_MS = 1_000
MOST_NEW_NAMES = 6
TRANSACTION_TURNS = 25  # of a hundred acts of a process: it begins a transaction, or ends it
PULSE_MS = 1_000


class World:
    """Draws a history from a seed and proves it as it goes; with `transactions`, writers have some."""

    def __init__(
        self,
        seed: int,
        *,
        trace: Callable[[str], None] | None = None,
        only_claims: bool = False,
        transactions: bool = False,
        draw: Callable[[Random, Random], Scenario] = scenarios.draw,
    ) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.host_random = Random(f"host {seed}")
        self.trace = trace
        self.transactions = transactions
        self.scenario: Scenario = draw(self.random, self.host_random)
        self.start_time = self.source_time = START_MS
        self.host = Host(START_MS)
        self.away_steps = 0  # for how many more the store is away
        self.log = Log(self.scenario.segments, open=self.scenario.open)
        self.network = Network()
        self.faults = True
        self.steps = 0
        graph = (
            SegmentGraph(open=True)
            if self.scenario.open
            else SegmentGraph.equal_shares(self.scenario.segments, START_MS)
        )
        self.controller = Controller(self.scenario.config, graph, self.host, self.scenario.history_notes)
        tails = [f"tail-{n}" for n in range(self.scenario.tails)]
        self.keys_of: dict[str, tuple[str, ...]] = dict.fromkeys(tails, ("",))
        self.processes: dict[str, list[Process]] = {}
        self.flying: list[Event] = []
        self.scalings: list[Scaling] = []
        self.readers = [Reader(self) for _ in range(2)]
        for _ in range(self.scenario.writers):
            self.new_name()
        self.checker = Checker(self.log, self.scenario.keys, self.scenario.config, tails, only_claims=only_claims)
        for name in self.keys_of:
            self.start_process(name)
        self.tell(lambda: f"{self.scenario}")

    def tell(self, what: Callable[[], str]) -> None:
        if self.trace is not None:
            self.trace(f"{self.controller.clock():>6} {what()}")

    def chance(self, percent: float) -> bool:
        return self.random.random() * 100 < percent

    # -- what processes ask of the world -------------------------------------------------------------------------

    def send(self, call: Call) -> None:
        lost = self.faults and not call.fragile and self.chance(self.scenario.loss)
        self.tell(lambda: f"{'lost' if lost else 'sent'}: {call}")
        if lost:
            return
        if self.faults and not call.fragile and self.chance(self.scenario.repeats / 3):
            self.network.slow.append((self.steps + self.random.randint(5, 50), call))
        else:
            self.network.calls.append(call)

    def keys_named(self, process: Process) -> bool:
        """Whether it names its keys as it registers: it may leave that where the stream knows them, and is sure to know
        them when the call is served."""
        writer = self.controller.stream.writers.get(process.name) if self.controller.stream else None
        held = () if writer is None else tuple(sorted(writer.key_states))
        named = held != self.keys_of[process.name] or self.chance(50)
        return named or self.checker.accounts.may_be_forgotten(process.name)

    def newest_process(self, name: str) -> Process:
        return self.processes[name][-1]

    def written_by(self, name: str) -> dict[str, int]:
        """The least position above everything that a writer has written, and was acknowledged."""
        position: dict[str, int] = {}
        for event in self.log.events():
            if event.writer == name and event.counted:
                position[event.segment] = max(event.offset + 1, position.get(event.segment, 0))
        return position

    def frontier(self, position: Mapping[str, int]) -> dict[str, int]:
        """The position without what its segments imply."""
        implied: set[str] = set()
        for name in position:
            pending = list(self.log.pieces[name].before)
            while pending:
                before = pending.pop()
                implied.add(before)
                pending.extend(self.log.pieces[before].before)
        return {segment: offset for segment, offset in position.items() if segment not in implied}

    def knows(self, name: str) -> bool:
        """Whether the controller has heard of a writer."""
        return name in self.checker.accounts and self.checker.accounts[name].last_word != ""

    def closed(self, process: Process) -> None:
        """A process has closed its writer, which may begin a new life at once, or be followed by another."""
        self.network.forget(process.name)
        if self.faults and self.newest_process(process.name) is process and self.chance(50):
            self.start_successor(process.name)

    # -- processes -----------------------------------------------------------------------------------------------

    def start_process(self, name: str) -> Process:
        """Starts the next process of a writer. One that cannot show an epoch goes on from a notebook."""
        earlier = self.processes.setdefault(name, [])
        registers = not self.chance(self.scenario.unregistered) or any(one.registers for one in earlier)
        process = Process(
            self,
            name,
            len(earlier) + 1,
            registers=registers,
            impolite=self.chance(self.scenario.impolite),
            tail=name.startswith("tail"),
        )
        earlier.append(process)
        if registers:
            process.call(Kind.REGISTER)
        else:
            # Closed while it was lost, without an epoch, a writer is only excluded: its promises stand.
            if len(earlier) > 1 and self.checker.accounts[name].last_word != "closed":
                process.bounds = dict(earlier[-2].bounds)
            self.checker.accounts[name].owner = process
            process.learn_position()
        self.tell(lambda: f"{process} starts{'' if registers else ', unregistered'}")
        return process

    def new_name(self) -> str:
        """A writer that nobody has heard of."""
        keys = self.scenario.keys
        if len(keys) > 1 and self.random.random() < 0.4:
            keys = (self.random.choice(keys),)
        name = f"w{len(self.keys_of) - self.scenario.tails}"
        self.keys_of[name] = keys
        return name

    def start_successor(self, name: str) -> None:
        """Starts the writer of a name again, or one of another name in its place."""
        room = len(self.keys_of) < self.scenario.tails + self.scenario.writers + MOST_NEW_NAMES
        if self.chance(self.scenario.churn) and room and not name.startswith("tail"):
            name = self.new_name()
        self.start_process(name)

    def act(self, process: Process) -> None:
        """One thing that a process may do."""
        if process.open_calls and self.chance(15):
            call = self.random.choice(process.open_calls)
            if not call.fragile:
                self.send(call)
            return
        match process.phase:
            case Phase.STARTING:
                if not process.waits_for(Kind.REGISTER):
                    process.call(Kind.REGISTER)
            case Phase.RUNNING:
                self._run(process)
            case Phase.FINISHING:
                process.go_on_finishing()
            case Phase.IDLE:
                if process.tail and self.log.end() == process.accepted:
                    return
                if process.writes and self.chance(40):
                    process.write()
                elif self.chance(30):
                    process.wake()
            case Phase.GONE | Phase.DEAD:
                pass

    def _run(self, process: Process) -> None:
        process.send_planned()
        if self.transactions and not process.tail and self.chance(TRANSACTION_TURNS):
            process.turn_transaction()
        drawn = self.random.random()
        if drawn < 0.5 and not process.tail:
            process.write()
        elif drawn < 0.92:
            if process.planned is None:
                process.plan_note()
        elif drawn < 0.98:
            closes = self.scenario.churn and self.chance(self.scenario.churn)
            process.finish(Kind.CLOSE if closes else self.random.choice((Kind.IDLE, Kind.IDLE, Kind.CLOSE)))

    def crash_process(self, process: Process) -> None:
        self.tell(lambda: f"{process} crashes")
        process.phase = Phase.DEAD
        process.open_calls.clear()
        if not process.registers:
            self.network.forget(process.name)

    # -- the log -------------------------------------------------------------------------------------------------

    def land(self, event: Event) -> None:
        if self.scenario.ingestion:
            skew = self.scenario.config.clock_skew_ms
            event.times[""] = self.controller.clock() + self.random.randint(-skew, skew)
        self.log.append(event, self.random.choice(self.log.live()))
        self.tell(lambda: f"landed: {event}")
        self.checker.landed(event)

    def ack(self, event: Event) -> None:
        self.flying.remove(event)
        assert event.process is not None
        self.tell(lambda: f"acked: {event}")
        self.checker.acked(event)
        if event.process.alive:
            event.process.acked(event)

    def move_log(self) -> None:
        if self.flying:
            event = self.random.choice(self.flying)
            if event.landed:
                self.ack(event)
            else:
                self.land(event)
        if self.scenario.tails and self.chance(25):
            self.land(Event(None, None, {}))

    def scale(self) -> None:
        """Splits or merges segments. In an open stream the controller hears of it before anybody writes there."""
        if len(self.log.pieces) >= 8 or (self.scenario.open and self.away_steps):
            return
        pairs = self.log.neighbours()
        parents: list[Piece]
        if pairs and self.chance(50):
            parents, parts = list(self.random.choice(pairs)), self.random.randint(1, 2)
        else:
            parents, parts = [self.random.choice(self.log.live())], 2
        if self.scenario.open:
            if self.controller.stream is None:
                return
            known = self.controller.stream.graph
            if any(piece.id not in known for piece in parents):
                return
        scaling = self.log.scale(parents, parts)
        self.tell(lambda: f"scaled: {scaling}")
        self.scalings.append(scaling)
        if self.scenario.open:
            self.tell_scalings()

    def tell_scalings(self) -> None:
        for scaling in self.scalings:
            self.operate("scale", scaling.seal, scaling.create)
        self.scalings.clear()
        self.commit()

    # -- the controller ------------------------------------------------------------------------------------------

    def deliver_call(self) -> None:
        calls = self.network.calls
        if self.controller.stream is None or not calls:
            return
        index = self.random.randrange(len(calls))
        call = calls[index]
        if call.fragile and self.away_steps:
            return  # who hears that nothing was changed, calls again
        del calls[index]
        if self.faults and not call.fragile and self.chance(self.scenario.repeats):
            self.network.slow.append((self.steps + self.random.randint(0, 40), call))
        self.controller.serve(call)
        self.tell(lambda: f"served: {call} -> {self.controller.pending[-1].result}")
        if call.fragile or self.chance(self.scenario.eager_commits) or not self.faults:
            self.commit()

    def operate(self, what: str, *arguments: Any) -> None:
        self.controller.operate(what, *arguments)
        self.tell(lambda: f"operator: {what} {arguments} -> {self.controller.pending[-1].result}")

    @property
    def away(self) -> bool:
        """Whether the store is."""
        return self.faults and self.away_steps > 0

    def commit(self) -> None:
        stream = self.controller.stream
        if stream is None:
            return
        away = self.away
        if away and not self.controller.failing:
            self.checker.counts["store away"] += 1
            self.tell(lambda: "the store is away")
        for done in self.controller.commit(away=away):
            for mark in done.changes.marks:
                self.tell(partial(str, mark))
            self.checker.done(done)
            call = done.call
            if call is None:
                gone = isinstance(done.result, UnknownWriter) and done.writer in done.changes.forgotten
                assert gone or not isinstance(done.result, Refused), done
            elif call.fragile:
                call.process.answered(Reply(call, done.result, done.now))
            elif not (self.faults and self.chance(self.scenario.loss)):
                self.network.replies.append(Reply(call, done.result, done.now))

    def deliver_reply(self) -> None:
        replies = self.network.replies
        if replies:
            reply = replies.pop(self.random.randrange(len(replies)))
            reply.call.process.answered(reply)

    def crash_controller(self) -> None:
        self.tell(lambda: f"controller crashes, forgets {[each.what for each in self.controller.pending]}")
        self.controller.crash()

    def start_controller(self) -> None:
        before = self.controller.clock()
        self.checker.notice_silence(before, self.host.certain_ms)
        self.controller.start()
        self.host.went(self.controller.clock() - before, served=False)
        if not self.away:
            self.beat()
        self.checker.counts["restart"] += 1
        stream = self.controller.stream
        assert stream is not None
        self.checker.restarted(stream.writers)
        self.tell(lambda: "controller starts")

    def serve(self) -> None:
        """What the controller does by itself."""
        stream = self.controller.stream
        if stream is None:
            if self.chance(12):
                self.start_controller()
            return
        if self.controller.failing and self.chance(40):
            self.commit()
            stream = self.controller.stream
            assert stream is not None
        wake = stream.next_wake()
        if wake is not None and wake <= self.controller.clock() and self.chance(70):
            self.operate("advance")
        if self.chance(10) and self.scenario.config.mark_interval_ms is None:
            self.operate("evaluate", self.random.choice(self.scenario.keys))
        if self.chance(self.scenario.eager_commits / 2):
            self.commit()
        if self.scalings and not self.away_steps and self.chance(20):
            self.tell_scalings()
        elif self.chance(self.scenario.crashes):
            self.crash_controller()

    # -- time ----------------------------------------------------------------------------------------------------

    def pass_time(self, passed_ms: int) -> None:
        """Lets time pass, and asks the controller's clock now and then, as its heart does."""
        while passed_ms > 0:
            part = min(passed_ms, PULSE_MS)
            passed_ms -= part
            self._pass(part)

    def pause(self, passed_ms: int) -> None:
        """The controller's process stands still."""
        self.checker.counts["paused"] += 1
        self._pass(passed_ms, running=False)
        self.tell(lambda: f"the controller stood still for {passed_ms} ms")

    def _pass(self, passed_ms: int, *, running: bool = True, set_by_ms: int = 0) -> None:
        before = self.controller.clock()
        if not running or set_by_ms:
            self.commit()  # what the checker does not know of before the clock goes further than served time, it misses
        self.checker.notice_silence(before, self.host.certain_ms)
        self.host.move(passed_ms)
        self.host.wall_ms += set_by_ms
        self.source_time += passed_ms
        went = self.controller.clock() - before
        self.check_clock(passed_ms, went)
        self.host.went(went, served=False)
        if running and not set_by_ms and self.controller.stream is not None and not self.away:
            self.beat()

    def beat(self) -> None:
        self.controller.beat()
        self.host.went(0, served=True)

    def check_clock(self, passed_ms: int, went: int) -> None:
        """The controller's clock shows what the host's does, or is ahead of it and goes at half its pace."""
        ahead = self.controller.clock() - self.host.wall_ms
        if ahead < 0 or went < passed_ms // 2 or (ahead and went > (passed_ms + 1) // 2):
            self.checker.complain(f"in {passed_ms} ms the clock went {went} ms, to {ahead} ms ahead")
        self.checker.counts["clock followed"] += went - passed_ms > SERVED_GAP_MS

    def move_host(self) -> None:
        """Somebody sets the host's clock, or stops the controller's process for a while."""
        scenario, random = self.scenario, self.host_random

        def chance(percent: float) -> bool:
            return random.random() * 100 < percent

        if chance(scenario.clock_steps):
            far = random.choice(scenario.clock_far)
            step = random.randint(-far, far)
            self.checker.counts["clock set"] += 1
            self.tell(lambda: f"the host's clock is set by {step} ms")
            self._pass(0, set_by_ms=step)
        if chance(scenario.pauses):
            self.pause(random.choice((2_000, 10_000)) * scenario.pace)
        if self.away_steps:
            self.away_steps -= 1
        elif chance(scenario.outages):
            self.away_steps = random.choice((5, 30))

    # -- a history -----------------------------------------------------------------------------------------------

    def step(self) -> None:
        scenario, random = self.scenario, self.random
        self.steps += 1
        self.network.come_up(self.steps)
        self.pass_time(random.choice((0, 1, 3, 10, 25)) * scenario.pace)
        self.move_host()
        everyone = [process for each in self.processes.values() for process in each if process.alive]
        if everyone:
            self.act(random.choice(everyone))
        self.move_log()
        for _ in range(2):
            self.deliver_call()
            self.deliver_reply()
        self.serve()
        drawn = random.random()
        if drawn < 0.03:
            self.scale()
        elif drawn < 0.12:
            random.choice(self.readers).read()
        elif drawn < 0.20:
            self._fate()
        if scenario.ingestion and self.chance(20):
            random.choice(self.readers).ask_rest()
        if self.chance(scenario.operators):
            interfere(self)

    def _fate(self) -> None:
        """Processes die, are started again, or are taken for dead."""
        name = self.random.choice(sorted(self.processes))
        process = self.newest_process(name)
        if process.phase in (Phase.DEAD, Phase.GONE):
            self.start_successor(name)
        elif self.chance(25) and self.scenario.crashes:
            self.crash_process(process)
            if self.chance(50):
                self.start_process(name)
        elif process.registers and process.phase is Phase.RUNNING and self.chance(20):
            self.start_process(name)

    def run(self) -> None:
        """The whole history; raises Broken."""
        for _ in range(self.scenario.steps):
            self.step()
        end(self)
