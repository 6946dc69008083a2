"""The state machine of a writer: its next step in each state, and that nothing is lost, however calls go."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strandline.core.changes import Registered
from strandline.core.note import Note
from strandline.errors import (
    ControllerAway,
    Fenced,
    OutcomeUnknown,
    Overloaded,
    PositionWentBack,
    StrandlineError,
    TimeTooFarAhead,
    TimeWentBack,
)
from strandline.logs.errors import TransactionUnderWay
from strandline.wire.streams import NoteAnswer
from writer_client import AutomaticTime, NotesMoving, NotesStuck, WriterClosed
from writer_client.machine import Do, Fail, Goal, Machine, Phase, ReadClock, SendAlone, Wait, decide
from writer_client.notes import Pending

TAKEN = NoteAnswer(late=False, floors={}, marks=())
LOST = OutcomeUnknown(call="POST …/notes", reason="lost", tried_ms=1, repeatable=True)
AWAY = ControllerAway(controller="http://127.0.0.1:1", reason="away", tried_ms=1)
OVERLOADED = Overloaded(waiting=1, limit=1)
FENCED = Fenced(name="w1", epoch=1, newest=2)


def new(**options: Any) -> Machine:
    return Machine("orders", "w1", has_log=True, **options)


def holding(**options: Any) -> Machine:
    """A writer that has registered."""
    machine = new(**options)
    register(machine)
    return machine


def register(machine: Machine, floor: int | None = None) -> None:
    machine.goal = Goal("register")
    machine.begin(Do.REGISTER)
    machine.registered(Registered(epoch=1, floors={"": floor}, noted={}, life="l"), clock=5_000)
    machine.looked(None, {}, {})
    assert decide(machine, 0) == Do.DONE
    machine.finished(None, 0)


def started(**options: Any) -> Machine:
    machine = holding(**options)
    machine.clockwork.start(0)
    return machine


def after(machine: Machine, *changes: Callable[[Machine], object]) -> Machine:
    for change in changes:
        change(machine)
    return machine


def note(machine: Machine) -> None:
    machine.outbox.add({"": 10}, {}, 0)


def note_at(machine: Machine) -> None:
    machine.outbox.add_at({"": 10}, {"0": 1}, {})


def about_to_flush(machine: Machine) -> None:
    machine.begin(Do.FLUSH)


def flush_begins(machine: Machine) -> None:
    about_to_flush(machine)
    machine.outbox.flush_begins(0)


def flushed(machine: Machine) -> None:
    flush_begins(machine)
    machine.flushed({"0": 1}, None, 0, 0)


def flushed_in_vain(machine: Machine) -> None:
    flush_begins(machine)
    machine.flushed(None, TransactionUnderWay(call="flush()"), 0, 0)


def sent(machine: Machine) -> None:
    machine.begin(Do.SEND)
    machine.take()


def answered(machine: Machine) -> None:
    machine.begin(Do.SEND)
    machine.answered([(*each, TAKEN) for each in machine.take()], 6_000)


def fenced(machine: Machine) -> None:
    note_at(machine)
    machine.begin(Do.SEND)
    machine.answered([(*each, FENCED) for each in machine.take()], 6_000)


def write(machine: Machine) -> None:
    machine.write_begins(0, lambda: 0)


def written(machine: Machine) -> None:
    write(machine)
    machine.clockwork.write_ended(0)


def failed(machine: Machine) -> None:
    machine.hold_back(ConnectionError())


def entered(machine: Machine) -> None:
    machine.registration.wanted = True


def in_transaction(machine: Machine) -> None:
    machine.in_transaction = True


def drained(machine: Machine) -> None:
    machine.draining = 1


def clock(machine: Machine) -> None:
    machine.clock_read(ReadClock(reads=True), lambda: 10, 0)


def no_clock(machine: Machine) -> None:
    def fails() -> int:
        raise ValueError

    machine.clock_read(ReadClock(reads=True), fails, 0)


def stop(machine: Machine) -> None:
    machine.stop()


CLOCK = AutomaticTime(period_ms=1_000)
CONTROLLERS = AutomaticTime(period_ms=1_000, domain="ingestion")


@pytest.mark.parametrize(
    ("machine", "now", "step"),
    [
        (new(), 0, Wait()),
        (after(new(), entered), 0, Do.HOLD),
        (after(new(), note), 0, Do.HOLD),
        (after(new(), note_at), 0, Do.HOLD),
        (holding(), 0, Wait()),
        (after(holding(), note), 0, Do.FLUSH),
        (after(holding(), note, flush_begins), 0, Wait()),
        (after(holding(), note, flush_begins, note), 0, Wait()),
        (after(holding(), note, flushed), 0, Do.SEND),
        (after(holding(), note_at), 0, Do.SEND),
        (after(holding(), note_at, note), 0, Do.FLUSH),
        (after(holding(), note_at, note, flush_begins), 0, Do.SEND),
        (after(holding(), note_at, sent), 0, Wait()),
        (after(holding(), note_at, sent, note_at), 0, Wait()),
        (after(holding(), note_at, answered), 0, Wait()),
        (after(holding(), failed, note), 0, Wait()),
        (after(holding(), failed, note_at), 0, Do.SEND),
        (after(holding(), failed, note, Machine.resume), 0, Do.FLUSH),
        (after(holding(), note, flushed_in_vain), 0, Wait(0.1)),
        (after(holding(), note, flushed_in_vain), 0.1, Do.FLUSH),
        (after(holding(), fenced), 0, Wait()),
        (after(holding(), fenced, note), 0, Wait()),
        (after(holding(), fenced, register, note), 0, Do.FLUSH),
        (after(holding(), note, Machine.release), 0, Wait()),
        # the clock
        (started(automatic=CLOCK), 0, ReadClock(reads=True)),
        (started(automatic=CONTROLLERS), 0, ReadClock(reads=False)),
        (after(started(automatic=CLOCK), in_transaction), 0, ReadClock(reads=False)),
        (after(started(automatic=CLOCK), write), 0, ReadClock(reads=False)),
        (after(started(automatic=CLOCK), drained), 0, Wait()),
        (after(started(automatic=CLOCK), stop), 0, Wait()),
        (after(started(automatic=CLOCK), fenced), 0, Wait()),
        (after(started(automatic=CLOCK), Machine.release), 0, Wait()),
        (after(started(automatic=CLOCK), clock), 0, Do.FLUSH),
        (after(started(automatic=CLOCK), no_clock), 0, Wait(1)),
        # going idle
        (started(idle_after_ms=500), 0.4, Wait(0.5)),
        (started(idle_after_ms=500), 0.5, Do.REST),
        (after(started(idle_after_ms=500), write), 0.5, Wait(0.6)),
        (after(started(idle_after_ms=500), in_transaction), 0.5, Wait(0.6)),
        (after(started(idle_after_ms=500), failed), 0.5, Wait(0.6)),
        (after(started(idle_after_ms=500), note_at, sent), 0.5, Wait(0.6)),
        (after(started(idle_after_ms=500), note, about_to_flush, note_at, answered), 0.5, Wait(0.6)),
        (after(started(idle_after_ms=500), stop), 0.5, Wait()),
        (after(started(idle_after_ms=500, automatic=CLOCK), no_clock, written), 0.5, ReadClock(True, last=True)),
        (after(started(idle_after_ms=500, automatic=CLOCK), no_clock), 0.5, ReadClock(True, last=True)),
        (after(started(idle_after_ms=500, automatic=CLOCK), clock, flushed, answered), 0.5, Do.REST),
        (
            after(started(idle_after_ms=500, automatic=CLOCK), clock, flushed, answered, written),
            0.5,
            ReadClock(True, last=True),
        ),
    ],
)
def test_the_background_takes_the_next_step(machine: Machine, now: float, step: object) -> None:
    assert decide(machine, now) == step


def steps_towards(machine: Machine, goal: Goal) -> list[object]:
    """The steps to a goal, if all calls succeed and the log ends at its third event."""
    steps: list[object] = []
    machine.goal = goal
    while True:
        step = decide(machine, 0)
        machine.begin(step)
        match step:
            case Do.DONE:
                machine.finished(None, 0)
                return steps
            case Fail(error):
                machine.finished(None, 0)
                return [*steps, type(error)]
            case Do.REGISTER:
                machine.registered(Registered(epoch=1, floors={"": None}, noted={}, life="l"), clock=5_000)
                machine.looked('{"life": "l", "times": {"": 70}}' if machine.keys else None, {"0": 2}, {})
            case Do.FIND_END:
                machine.found_end({"0": 3}, {"": 50})
            case SendAlone(pending, addressed):
                machine.answered([(pending, addressed, TAKEN)], None)
                machine.sent_alone(step, TAKEN)
                steps.append((dict(pending.times), dict(pending.position)))
                continue
            case Do.CLEAR_MEMO:
                machine.memo_cleared()
            case Do.IDLE | Do.CLOSE:
                machine.left()
        steps.append(step)


def committed(machine: Machine) -> None:
    machine.memo_of({"": 60})


LAST = ({"": 50}, {"0": 3})


@pytest.mark.parametrize(
    ("machine", "goal", "steps"),
    [
        (new(), "register", [Do.REGISTER]),
        (holding(), "register", [Do.REGISTER]),
        (after(holding(), fenced), "register", [Do.REGISTER]),
        (new(), "hold", [Do.REGISTER]),
        (holding(), "hold", []),
        (after(holding(), fenced), "hold", [Fenced]),
        (after(holding(), Machine.release), "hold", [WriterClosed]),
        (new(), "stay", []),
        (after(new(), entered), "stay", [Do.REGISTER, Do.FIND_END, LAST]),
        (holding(), "stay", [Do.FIND_END, LAST]),
        (after(holding(), note_at, answered), "stay", [Do.FIND_END, ({"": 10}, {"0": 3})]),
        (after(new(), partial(register, floor=70)), "stay", [Do.FIND_END, ({"": 70}, {"0": 3})]),
        (holding(), "idle", [Do.FIND_END, LAST, Do.IDLE]),
        (new(), "idle", [Do.REGISTER, Do.FIND_END, LAST, Do.IDLE]),
        (holding(), "close", [Do.FIND_END, LAST, Do.CLOSE]),
        (after(holding(), committed), "close", [Do.FIND_END, LAST, Do.CLEAR_MEMO, Do.CLOSE]),
        (new(), "close", [Do.REGISTER, Do.FIND_END, LAST, Do.CLOSE]),
        (new(closes_by_name=False), "close", []),
        (after(holding(), fenced), "close", [Fenced]),
        # a commit of an earlier process was not noted
        (new(keys=[""]), "register", [Do.REGISTER, ({"": 70}, {"0": 2})]),
    ],
)
def test_a_goal_is_reached_step_by_step(machine: Machine, goal: Any, steps: list[object]) -> None:
    assert steps_towards(machine, Goal(goal)) == steps


@pytest.mark.parametrize(
    "outcome",
    [
        lambda it: (it.registered(Registered(epoch=2, floors={}, life="l"), 0), it.looked(None, {}, {})),
        lambda it: it.call_failed(AWAY),
        lambda it: it.call_failed(FENCED),
        lambda it: it.left(),
    ],
)
def test_a_writer_that_is_released_during_a_call_stays_so(outcome: Callable[[Machine], object]) -> None:
    machine = after(holding(), note_at)
    machine.goal = Goal("close", own=True)
    machine.begin(Do.REGISTER)
    machine.release()
    machine.news.clear()
    outcome(machine)
    assert not machine.finished(WriterClosed(writer="w1"), 0)
    assert (machine.phase, decide(machine, 0)) == (Phase.RELEASED, Wait())
    assert not [each for each in machine.news if isinstance(each, NotesStuck | NotesMoving)]


# -- what is sent again, when some notes of a batch were answered and others were not ----------------------------


def times_sent_again(*batch: tuple[dict[str, int], NoteAnswer | StrandlineError]) -> list[dict[str, int]]:
    """The notes of a batch have these times and answers; which times does the next batch have?"""
    machine = holding()
    for offset, (times, _) in enumerate(batch):
        machine.outbox.waiting.add(Pending(times, {"0": offset}))
    answers = [(*each, answer) for each, (_, answer) in zip(machine.take(), batch, strict=True)]
    machine.answered(answers, None)
    assert machine.registration.times == {
        key: time for times, answer in batch if answer is TAKEN for key, time in times.items()
    }
    return [dict(pending.times) for pending in machine.outbox.waiting.take()]


def test_what_a_later_note_has_overtaken_is_not_sent_again() -> None:
    assert times_sent_again(({"": 1}, OVERLOADED), ({"": 2}, TAKEN)) == []


def test_a_note_overtaken_in_one_key_keeps_the_other() -> None:
    assert times_sent_again(({"": 1, "a": 5}, OVERLOADED), ({"": 2}, TAKEN)) == [{"a": 5}]


# -- answers that were lost, and a controller that refuses whatever goes back ------------------------------------


@dataclass
class Strict:
    """What a controller has stored of one writer; it judges each note by itself, whatever was sent before."""

    times: dict[str, int] = field(default_factory=dict)
    position: dict[str, int] = field(default_factory=dict)
    epoch: int = 1
    names: list[str] = field(default_factory=list)  # of registrations
    is_closed: bool = False

    def judge(self, note: Note) -> NoteAnswer | StrandlineError:
        if note.epoch is not None and note.epoch < self.epoch:
            return Fenced(name=note.writer, epoch=note.epoch, newest=self.epoch)
        for key, time in note.times.items():
            if time < self.times.get(key, time):
                return TimeWentBack(writer=note.writer, key=key, time=time, stored_time=self.times[key])
            if time > 1_000:
                return TimeTooFarAhead(key=key, time=time, clock=0, max_ahead_ms=1_000)
        for segment, offset in note.position.items():
            stored = self.position.get(segment, 0)
            if offset < stored:
                return PositionWentBack(writer=note.writer, segment=segment, offset=offset, stored_offset=stored)
        self.times.update(note.times)
        self.position.update(note.position)
        return TAKEN

    def register(self, name: str) -> Registered:
        if name not in self.names:
            self.names.append(name)
            self.epoch += 1
        return Registered(epoch=self.epoch, floors={"": self.times.get("")}, noted={}, life="l")


def exchange(machine: Machine, controller: Strict, *, done: bool = True, lost: bool = False) -> None:
    """One batch: whether it gets there, and whether its answer comes back."""
    sent = machine.take()
    results = [controller.judge(addressed.note) if done else LOST for _, addressed in sent]
    answers = [LOST if lost or not done else result for result in results]
    machine.answered([(*each, answer) for each, answer in zip(sent, answers, strict=True)], None)


NOTES = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["", "a"]), st.integers(0, 3), min_size=1),
        st.dictionaries(st.sampled_from(["0", "1"]), st.integers(0, 3)),
    ),
    max_size=6,
)


@given(batches=st.lists(st.tuples(NOTES, st.booleans(), st.booleans()), max_size=8))
@example(
    batches=[
        ([({"": 0}, {"0": 0}), ({"a": 0}, {"0": 1})], True, True),
        ([({"a": 0}, {"0": 1})], True, False),
    ]
)
def test_no_note_is_refused_for_what_a_lost_answer_took(
    batches: list[tuple[list[tuple[dict[str, int], dict[str, int]]], bool, bool]],
) -> None:
    machine, controller = holding(), Strict()
    times: dict[str, int] = {}
    position: dict[str, int] = {}
    for notes, done, lost in batches:
        for later, further in notes:
            times = {**times, **{key: times.get(key, 0) + step for key, step in later.items()}}
            position = {**position, **{segment: position.get(segment, 0) + step for segment, step in further.items()}}
            machine.outbox.add_at(
                {key: times[key] for key in later}, {segment: position[segment] for segment in further}, {}
            )
        exchange(machine, controller, done=done, lost=lost)
    for _ in range(20):
        exchange(machine, controller)
    assert (len(machine.outbox), machine.refusals) == (0, 0)
    assert (controller.times, machine.registration.times) == (times, times)
    assert controller.position == position


def test_what_another_one_noted_is_refused_also_where_an_answer_was_lost() -> None:
    machine, controller = holding(), Strict(times={"": 50})
    machine.outbox.add_at({"": 10}, {"0": 1}, {})
    machine.outbox.add_at({"": 20}, {"0": 2}, {})
    exchange(machine, controller, lost=True)
    exchange(machine, controller)
    assert (machine.refusals, len(machine.outbox), machine.registration.times) == (2, 0, {})
    machine.outbox.add_at({"": 60}, {"0": 3}, {})
    exchange(machine, controller)
    assert machine.registration.times == {"": 60}


def test_another_reason_for_refusal_is_reported_despite_lost_answers() -> None:
    machine, controller = holding(), Strict()
    machine.outbox.add_at({"": 10}, {"0": 1}, {})
    machine.outbox.add_at({"": 2_000}, {"0": 2}, {})
    exchange(machine, controller, lost=True)
    exchange(machine, controller)
    assert isinstance(machine.refused, TimeTooFarAhead)
    assert (machine.refusals, machine.registration.times) == (1, {"": 10})


# -- whatever happens ------------------------------------------------------------------------------------------------


class World:
    """A writer with its log and its controller, where each thing happens when it is drawn."""

    def __init__(self, faults: list[str]) -> None:
        self.machine = new()
        self.controller = Strict(epoch=0)
        self.faults = faults  # of the next calls
        self.written = 0
        self.noted: dict[int, int] = {}  # by time, how much was written when it was noted
        self.flushing: int | None = None  # the log's end when the flush began
        self.sent: list[Any] = []
        self.now = 0.0
        self.registrations = 0
        self.is_taken = False  # another process has the name

    def call(self, work: Callable[[], Any]) -> Any:
        """A call, which is lost, or its answer is."""
        assert not self.controller.is_closed, "nothing is sent after a close was answered"
        fault = self.faults.pop(0) if self.faults else ""
        result = work() if fault != "away" else None
        return {"away": AWAY, "lost": LOST}.get(fault, result)

    def judge(self, note: Note) -> NoteAnswer | StrandlineError:
        for time in note.times.values():
            assert note.position.get("0", 0) >= self.noted.get(time, 0), "a note came before what it depends on"
        return self.controller.judge(note)

    def reach(self, goal: Goal) -> None:
        machine = self.machine
        machine.goal = goal
        machine.finished(self.towards(), self.now)

    def towards(self) -> StrandlineError | None:
        machine = self.machine
        while True:
            step = decide(machine, self.now)
            machine.begin(step)
            match step:
                case Do.DONE:
                    return None
                case Fail(error):
                    return error
                case Do.REGISTER:
                    if machine.registration.name is None:
                        self.registrations += 1
                        machine.registration.name = str(self.registrations)
                    answer = self.call(lambda: self.controller.register(str(machine.registration.name)))
                    if isinstance(answer, StrandlineError):
                        machine.call_failed(answer)
                        return answer
                    self.is_taken = False
                    machine.registered(answer, 0)
                    machine.looked(None, {"0": self.written}, {"0": self.written})
                case Do.FIND_END:
                    machine.found_end({"0": self.written}, {})
                case SendAlone(pending, addressed):
                    note = addressed.note
                    result = self.call(lambda: self.judge(note))  # noqa: B023  # called at once
                    machine.answered([(replace(pending, awaited=(Future(),)), addressed, result)], 0)
                    if isinstance(result, StrandlineError):
                        return result
                    machine.sent_alone(step, result)
                case Do.IDLE | Do.CLOSE:
                    answer = self.call(lambda: FENCED if self.is_taken else None)
                    if isinstance(answer, StrandlineError):
                        machine.call_failed(answer)
                        return answer
                    self.controller.is_closed = step is Do.CLOSE
                    machine.left()
                case _:
                    raise AssertionError(step)

    def step(self) -> bool:
        """The background's next step; False if it waits."""
        machine = self.machine
        step = decide(machine, self.now)
        machine.begin(step)
        match step:
            case Do.HOLD | Do.REST:
                machine.finished(self.towards(), self.now)
            case Do.FLUSH:
                machine.outbox.flush_begins(self.written)
                self.flushing = self.written
            case Do.SEND:
                self.sent = machine.take()
            case _:
                return False
        return True

    def flushed(self, error: Exception | None = None) -> None:
        if self.flushing is not None:
            own, self.flushing = self.flushing, None
            self.machine.flushed(None if error is not None else {"0": own}, error, self.written, self.now)

    def answered(self) -> None:
        if self.sent:
            sent, self.sent = self.sent, []
            results = self.call(lambda: [self.judge(addressed.note) for _, addressed in sent])
            results = results if isinstance(results, list) else [results] * len(sent)
            self.machine.answered([(*each, result) for each, result in zip(sent, results, strict=True)], 0)

    def usable(self) -> bool:
        return self.machine.phase in (Phase.AWAY, Phase.HOLDING)

    def do(self, what: str) -> None:
        machine = self.machine
        match what:
            case "note" if self.usable():
                time = max(self.noted, default=0) + 1
                self.noted[time] = self.written
                machine.outbox.add({"": time}, {}, self.written)
            case "write" if self.usable():
                if machine.phase is not Phase.HOLDING and machine.is_quiet(drain=False):
                    self.reach(Goal("hold"))
                if machine.phase is Phase.HOLDING:
                    self.written += 1
            case "fails":
                machine.hold_back(ConnectionError())
            case "resume":
                machine.resume()
            case "flushed":
                self.flushed()
            case "put off":
                self.flushed(TransactionUnderWay(call="flush()"))
            case "answered":
                self.answered()
            case "register" | "idle" | "close" if machine.is_quiet(drain=what != "register"):
                if not (what != "register" and machine.failed_write):
                    self.reach(Goal(what))
            case "another":
                self.controller.register("another's")
                self.is_taken = True
            case "step":
                while self.step():
                    pass
            case "on":
                for does in ("step", "flushed", "step", "answered"):
                    self.do(does)
            case _:
                pass
        self.now += 0.05
        if self.noted and self.usable() and not machine.refusals:
            assert len(machine.outbox) or machine.registration.times == {"": max(self.noted)}, "a note is lost"


OFTEN = st.sampled_from(["note", "write", "step", "on"])
SELDOM = st.sampled_from(
    ["flushed", "answered", "put off", "fails", "resume", "register", "idle", "close", "another", "note", "step"]
)


@settings(max_examples=1_000)
@given(
    happens=st.lists(OFTEN | SELDOM, min_size=15, max_size=40),
    faults=st.lists(st.sampled_from(["", "", "away", "lost"]), max_size=10),
)
def test_whatever_happens_no_note_is_lost_or_early_and_the_writer_comes_to_rest(
    happens: list[str], faults: list[str]
) -> None:
    world = World(faults)
    for what in happens:
        world.do(what)
    world.faults = []
    machine = world.machine
    machine.resume()
    for _ in range(20):
        world.now += 1
        while world.step():
            pass
        world.flushed()
        world.answered()
    assert isinstance(decide(machine, world.now), Wait)
    if machine.phase is Phase.FENCED:
        assert "another" in happens and not list(machine.outbox.waiting)
        return
    if "another" not in happens:
        assert machine.refusals == 0
    if machine.phase is not Phase.CLOSED:
        assert len(machine.outbox) == 0
    if world.noted and not machine.refusals:
        assert machine.registration.times == {"": max(world.noted)}
        assert world.controller.times == machine.registration.times
