"""One writer at its controller and its log: performs the steps of its state machine under one lock.

The background performs the steps towards its own goals, and sends notes; a call of the program performs those towards
its goal, in the caller's thread (`reach`), when nothing is under way.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from numbers import Integral
from operator import index
from time import monotonic
from typing import Any, Final, TypeAlias
from weakref import WeakSet

from strandline.client import calls
from strandline.client.calls import Clocked, clocked
from strandline.client.http import Connection, new_registration
from strandline.core.note import DEFAULT_KEY, check_key, check_time
from strandline.core.time_units import Instant, milliseconds
from strandline.errors import InvalidConfig, InvalidNote, OutcomeUnknown, StrandlineError
from strandline.logs import Log, Memo, Position, Transaction
from strandline.logs.errors import NotAcknowledged, TransactionOver, TransactionUnderWay
from strandline.paced_log import PacedLog, Waiting
from strandline.wire.streams import NoteAnswer
from writer_client.automatic_notes import NOT_READ, AutomaticTime, GivenPositions, PositionSource
from writer_client.errors import NoLog, NotDrained, WriterClosed
from writer_client.lateness import Warn
from writer_client.machine import (
    Aim,
    Answered,
    Do,
    Fail,
    Failing,
    Goal,
    Machine,
    Phase,
    ReadClock,
    Reply,
    SendAlone,
    Wait,
    decide,
)
from writer_client.newest_time import NewestTime
from writer_client.notes import Addressed, Pending, Results, call_for
from writer_client.process_exit import Left, UnraisedRefusal, Unsent
from writer_client.reports import EventsLate, Report, Status

WAITING_REPORTS: Final = 1_000  # of late events, for `on_report` of one writer
LEAVING_CALLS: Final = {"stay": "leaving", "idle": "idle()", "close": "close()"}  # as errors name them

_log = logging.getLogger(__name__)

Times: TypeAlias = Instant | Mapping[str, Instant]  # a time, or times by key


@dataclass(eq=False, slots=True, weakref_slot=True)
class Begun:
    """An open transaction, and the events written in it so far."""

    transaction: Transaction
    written: NewestTime = field(default_factory=NewestTime)


class WriterSession:
    """See above. `machine` is read and changed under `lock` only."""

    def __init__(
        self,
        stream: str,
        writer: str,
        keys: Iterable[str],
        log: Log | None,
        automatic: AutomaticTime | None = None,
        on_report: Callable[[Report], None] | None = None,
        idle_after_ms: int | None = None,
        *,
        closes_by_name: bool = True,
    ) -> None:
        self.log = checked_log(log)
        self.positions: PositionSource | None = log  # the source of its positions
        if automatic is not None and automatic.position is not None:
            self.positions = GivenPositions(automatic.position)
        self.machine = Machine(
            stream,
            writer,
            keys,
            has_log=log is not None,
            automatic=automatic,
            idle_after_ms=idle_after_ms,
            raises=on_report is None,
            closes_by_name=closes_by_name,
        )
        # Ctrl-C finds this lock taken nowhere but in a `with` block: the methods of a condition are Python's own.
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self._paced = PacedLog("writer_client")
        self.reports: list[Report] = []
        self.timer: float | None = None  # the background's, until which it waits
        self._held: int | Exception = NOT_READ  # the clock, or the oldest event that the program holds back
        self._on_report = on_report
        self._works_alone = automatic is not None or idle_after_ms is not None
        self._waiting = Waiting(self._paced)
        self._failures = getattr(log, "failures_raised", 0)
        self._open: WeakSet[Begun] = WeakSet()  # a transaction without a reference can no longer be committed

    @property
    def automatic(self) -> AutomaticTime | None:
        return self.machine.clockwork.automatic

    @contextmanager
    def event(self) -> Iterator[Machine]:
        """Holds the lock for a change of the machine; afterwards passes on its news, wakes waiting threads, and calls
        the program's callback."""
        machine = self.machine
        with self.lock:
            if self._works_alone:
                machine.in_transaction = self.in_transaction
            try:
                yield machine
            finally:
                self._pass_on()
                self.changed.notify_all()
                reports, self.reports = self.reports, []
        if self._on_report is not None:
            for report in reports:
                try:
                    self._on_report(report)
                except Exception:
                    _log.exception("on_report of writer %r failed on %r", machine.writer, report)

    def _pass_on(self) -> None:
        machine = self.machine
        for each in machine.news:
            match each:
                case Reply(awaited, result):
                    _reply(awaited, result)
                case Warn(kind, text):
                    self._paced.warn(kind, text)
                case Failing(None):
                    self._waiting.ends(
                        f"notes of writer {machine.writer!r} of stream {machine.stream!r} are answered again"
                    )
                case Failing(error):
                    self._waiting.goes_on(
                        f"writer {machine.writer!r} of stream {machine.stream!r} waits, and tries again: {error}"
                    )
                case EventsLate() if len(self.reports) >= WAITING_REPORTS:
                    pass
                case _ if self._on_report is not None:
                    self.reports.append(each)
        machine.news.clear()

    # -- for the background ------------------------------------------------------------------------------------

    def next_steps(self) -> tuple[list[Do], float | None, bool]:
        """Begins all steps that can begin now, and returns them, when to ask again, and whether the writer has
        unsettled notes. Reads the clock itself."""
        steps: list[Do] = []
        now = monotonic()
        self._read_held(now)
        with self.event() as machine:
            while machine.goal is None:
                step = decide(machine, now)
                machine.begin(step)
                match step:
                    case ReadClock():
                        machine.clock_read(step, self._now, now)
                    case Wait(until):
                        return steps, until, machine.is_unsettled
                    case Do():
                        steps.append(step)
                    case _:
                        raise AssertionError(f"{step} is a step towards a goal")
            return steps, None, machine.is_unsettled

    def _read_held(self, now: float) -> None:
        """Reads how far time is free of events that are held back, if that is due. The program's function runs in this
        thread alone, and outside of the lock: it may take one that the program holds around its calls."""
        automatic = self.automatic
        if automatic is not None and automatic.oldest is not None and now >= self.machine.clockwork.due:
            try:
                self._held = automatic.now()
            except Exception as error:
                self._held = error

    def _now(self) -> int:
        assert self.automatic is not None
        if self.automatic.oldest is not None:  # an older reading stays true
            if isinstance(self._held, Exception):
                raise self._held
            return self._held
        return self.automatic.now()

    def answered(self, answers: Sequence[Answered], clock: int | None) -> bool:
        with self.event() as machine:
            return machine.answered(answers, clock)

    def flushed(self, own: Position | None, error: Exception | None) -> None:
        with self.event() as machine:
            elsewhere = self.failure_elsewhere()  # read in any case: its own failure is counted too
            machine.flushed(own, error or elsewhere, self.sent, monotonic())

    def reach_own(self, connection: Connection) -> bool:
        """Reaches the background's own goal. Returns whether it has to try again."""
        goal = self.machine.goal
        assert goal is not None
        failure: Exception | None = None
        try:
            self._perform_all(goal, connection)
        except Exception as error:
            failure = error
        with self.event() as machine:
            return machine.finished(failure, monotonic())

    # -- for calls of the program ------------------------------------------------------------------------------

    def reach(
        self,
        aim: Aim,
        connection: Connection,
        position: Mapping[str, int] | None = None,
        *,
        timeout_ms: int,
    ) -> Goal:
        """Waits until nothing is under way, and to leave until all notes are answered; then does what the aim says.

        Raises a refusal that was not reported yet, and on timeout the error that notes are stuck on, or NotDrained.
        """
        goal, machine = Goal(aim, position), self.machine
        drain = aim not in ("register", "hold")
        try:
            with self.lock:
                machine.draining += drain  # no more automatic notes while they empty
                try:
                    if not self.changed.wait_for(partial(machine.is_quiet, drain=drain), timeout_ms / 1000):
                        raise (
                            machine.stuck
                            or machine.outbox.put_off
                            or NotDrained(writer=machine.writer, count=len(machine.outbox), waited_ms=timeout_ms)
                        )
                finally:
                    machine.draining -= drain
                if drain and machine.failed_write and machine.stuck is not None:
                    raise machine.stuck
                if drain:
                    self._raise_unreported()
                machine.goal = goal
            self._perform_all(goal, connection)
            return goal
        finally:
            with self.event():
                if machine.goal is goal:
                    machine.finished(None, monotonic())

    def _perform_all(self, goal: Goal, connection: Connection) -> None:
        while True:
            with self.lock:
                step = decide(self.machine, monotonic())
                self.machine.begin(step)
            match step:
                case Do.DONE:
                    return
                case Fail(error):
                    raise error
                case Do.REGISTER:
                    self._register(connection)
                case Do.FIND_END:
                    self._find_end(goal)
                case SendAlone():
                    self._send_alone(step, goal, connection)
                case Do.CLEAR_MEMO:
                    self.bound_log("close()").begin().commit(Memo(self.machine.writer, ""))
                    with self.lock:
                        self.machine.memo_cleared()
                case Do.IDLE | Do.CLOSE:
                    call = calls.idle if step is Do.IDLE else calls.close
                    with self._calling():
                        connection.run(call(self.machine.stream, self.machine.writer, self.machine.registration.epoch))
                    with self.event() as machine:
                        machine.left()
                case _:
                    raise AssertionError(f"{step} is no step towards a goal")

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """Encloses a call that changes whether the writer holds time."""
        try:
            yield
        except StrandlineError as error:
            with self.event() as machine:
                machine.call_failed(error)
            raise

    def _register(self, connection: Connection) -> None:
        machine, log = self.machine, self.log
        if machine.registration.name is None:
            machine.registration.name = new_registration()
        with self._calling():
            answer = connection.run(
                clocked(calls.register(machine.stream, machine.writer, machine.keys, machine.registration.name))
            )
        with self.event():
            machine.registered(answer.value, answer.clock)
        memo = log.memo(machine.writer) if log is not None else None  # first: the end then lies above its events
        self._look(memo, log.end_offsets() if log is not None else {}, log.positions() if log is not None else {})

    def _look(self, memo: str | None, ends: Position, own: Position) -> None:
        with self.event() as machine:
            machine.looked(memo, ends, own)

    def _find_end(self, goal: Goal) -> None:
        self._check_no_other_transaction(LEAVING_CALLS[goal.aim])
        fallback: Mapping[str, int] = {}
        if not goal.own and self.automatic is not None:
            with self.event() as machine:
                fallback = machine.last_times(self._now)
        own = self.flush() if goal.position is None and self.positions is not None else None
        with self.event() as machine:
            machine.found_end(own, fallback)

    def _send_alone(self, step: SendAlone, goal: Goal, connection: Connection) -> None:
        answered = Future[NoteAnswer]()
        pending = replace(step.pending, awaited=(answered,))
        record([(self, pending, step.addressed)], partial(connection.run, call_for([step.addressed])))
        result: NoteAnswer | StrandlineError
        try:
            result = answered.result()
        except StrandlineError as error:
            if not goal.repairs:
                raise
            result = error
        with self.event() as machine:
            machine.sent_alone(step, result)

    def status(self) -> Status:
        with self.lock:
            machine, late = self.machine, self.machine.late
            return Status(
                epoch=machine.registration.epoch,
                noted=dict(machine.registration.times),
                waiting=len(machine.outbox),
                late=late.late,
                floors=dict(late.floors),
                late_events=late.events,
                refused=machine.refused,
                refusals=machine.refusals,
                stuck=machine.stuck,
                failed_write=machine.failed_write,
            )

    @property
    def is_busy(self) -> bool:
        """Whether there may be something to do for the background."""
        with self.lock:
            return self.machine.is_busy or bool(self.reports)

    @property
    def is_released(self) -> bool:
        return self.machine.phase is Phase.RELEASED

    @property
    def is_closed(self) -> bool:
        return self.machine.phase in (Phase.CLOSED, Phase.RELEASED)

    def _raise_unreported(self) -> None:
        error, self.machine.unreported = self.machine.unreported, None
        if error is not None:
            raise error.with_traceback(None)  # where it arose in the background is of no use

    def check_usable(self) -> None:
        """Raises a refusal that no call has raised yet, and what keeps the writer from being used. Call it under the
        lock."""
        machine = self.machine
        if machine.phase is Phase.HOLDING and machine.unreported is None:
            return
        if machine.phase is Phase.RELEASED:
            raise WriterClosed(writer=machine.writer)
        self._raise_unreported()
        if machine.phase is Phase.CLOSED:
            raise WriterClosed(writer=machine.writer)
        if machine.fenced is not None:
            raise machine.fenced.with_traceback(None)

    def release(self) -> None:
        """Ends everything."""
        with self.event() as machine:
            machine.release()

    # -- waiting, and the end of the process -------------------------------------------------------------------

    def wait_until_answered(self, timeout_ms: int) -> bool:
        """Waits until all notes so far are answered. Returns False on timeout."""
        machine = self.machine
        with self.lock:
            # A clock with a short period keeps adding notes: its notes so far are answered when their times are taken.
            noted = dict(machine.outbox.last) if self.automatic is not None else {}
            return self.changed.wait_for(
                lambda: not machine.outbox or self.is_released or machine.registration.has_taken(noted),
                timeout_ms / 1000,
            )

    def leave(self, deadline: float, *, patient: bool = True) -> list[Left]:
        """Stops automatic notes, and waits until all notes so far are answered or cannot be, at most until a deadline
        (`time.monotonic`), and unless it is `patient` only until one has to be sent again. Returns what is left to
        report."""
        machine = self.machine

        def over() -> bool:
            if not patient and machine.stuck is not None and not machine.outbox.under_way:
                return True
            return (
                not machine.outbox.unattended()
                or self.is_closed
                or machine.failed_write
                or machine.registration.has_taken(wanted)
            )

        with self.lock:
            wanted = machine.stop()
            self.changed.wait_for(over, max(0.0, deadline - monotonic()))
            return self._unraised() if machine.registration.has_taken(wanted) else self._unsent() + self._unraised()

    def unraised(self) -> list[Left]:
        """Returns a refusal that was not reported."""
        with self.lock:
            return self._unraised()

    def _unraised(self) -> list[Left]:
        machine = self.machine
        error, machine.unreported = machine.unreported, None
        return [UnraisedRefusal(machine.stream, machine.writer, str(error))] if error is not None else []

    def _unsent(self) -> list[Left]:
        machine = self.machine
        count = machine.outbox.unattended()
        if not count or self.is_released:
            return []
        reason = str(machine.stuck or machine.outbox.put_off or "the time was too short")
        if machine.failed_write:
            reason = f"a write had failed: {reason}"
        return [Unsent(machine.stream, machine.writer, count, reason)]

    # -- the log -----------------------------------------------------------------------------------------------

    def bound_log(self, call: str) -> Log:
        if self.log is None:
            raise NoLog(writer=self.machine.writer, call=call)
        return self.log

    @contextmanager
    def writing(self) -> Iterator[bool]:
        """Encloses a write, and the registration before it: the writer does not go idle in between. Yields False if it
        must register first, or is going idle."""
        begun = False
        try:
            with self.lock:
                ready = self.machine.write_begins(monotonic(), self._now)
                begun = True
            yield ready
        finally:
            if begun:
                with self.lock:
                    self.machine.clockwork.write_ended(monotonic())

    @contextmanager
    def holding_back(self, *, cancelled_only: bool = False) -> Iterator[None]:
        """Encloses a write: if it fails, notes are held back. With `cancelled_only`, encloses the wait for one in
        another thread, where a failure has done so already."""
        try:
            yield
        except TransactionOver:  # an earlier call has ended it: this one writes nothing
            raise
        except BaseException as error:
            failure: Exception
            if isinstance(error, Exception):
                failure = error
            else:  # cancellation or Ctrl-C
                failure = OutcomeUnknown(call="write()", reason="it was interrupted", tried_ms=0, repeatable=False)
            if failure is not error or not cancelled_only:
                with self.event() as machine:
                    machine.hold_back(failure)
            raise

    def resume(self) -> None:
        """Sends the notes that a failed write held back."""
        with self.lock:
            self.machine.resume()

    def wrote(self, written: NewestTime) -> None:
        """Records appended events."""
        with self.lock:
            self.machine.wrote(written, self.machine.outbox.last)
            self._pass_on()

    def begins(self, transaction: Transaction) -> Begun:
        """Records an open transaction."""
        with self.lock:
            self.machine.clock_before_begin(self._now)
            begun = Begun(transaction)
            self._open.add(begun)
            return begun

    def ended(self, begun: Begun, times: Mapping[str, int], *, committed: bool) -> None:
        """Records the end of a transaction, and notes its times."""
        machine = self.machine
        with self.lock:
            self._open.discard(begun)
            if committed:
                machine.wrote(begun.written, machine.registration.times)
            machine.in_transaction = self._works_alone and self.in_transaction
            machine.clockwork.active(monotonic())
            machine.transaction_ended(times, self.sent, self._now)
            self._pass_on()

    @property
    def in_transaction(self) -> bool:
        """Whether the log says that a transaction is open, whoever began it, or the end of one of this writer's is not
        recorded yet. No position covers its events, so the clock is not noted until it ends."""
        return len(self._open) > 0 or (self.log is not None and self.log.in_transaction())

    def check_no_transaction(self, call: str, besides: Begun | None = None) -> None:
        """Raises TransactionUnderWay if a transaction is open, other than `besides`, which is about to be committed."""
        if self.log is not None and self.log.in_transaction(besides.transaction if besides is not None else None):
            raise TransactionUnderWay(call=call)

    def _check_no_other_transaction(self, call: str) -> None:
        """The same for a transaction that is not this writer's own, whose commit registers an idle writer first."""
        own = list(self._open)
        self.check_no_transaction(call, besides=own[0] if len(own) == 1 else None)

    def flush(self) -> Position:
        """Waits for the acknowledgement of what is written. If that fails, `newest` is unknown from then on."""
        assert self.positions is not None
        try:
            position = self.positions.flush()
            if (failure := self.failure_elsewhere()) is not None:
                raise failure
            return position
        except BaseException:
            self.machine.newest.lost()
            self.failure_elsewhere()
            raise

    def failure_elsewhere(self) -> NotAcknowledged | None:
        """The failure that another writer on the same log object was told since the last call, if any: whose events
        failed is not known."""
        before, self._failures = self._failures, getattr(self.log, "failures_raised", 0)
        if self._failures <= before:
            return None
        reason = "another writer on this log object has the error, with its reason"
        return NotAcknowledged(path=self.machine.stream, count=self._failures - before, reason=reason, events=())

    @property
    def sent(self) -> int:
        """How many events are in the log or on their way, as far as it is known: below a position that is read while
        this number stays, nothing is newer."""
        count: int = getattr(self.log, "sent", self.machine.newest.appended)
        return count


# A note under way, and its writer.
Sent = tuple[WriterSession, Pending, Addressed]


def record(batch: Sequence[Sent], run: Callable[[], Clocked[Results]]) -> dict[WriterSession, bool]:
    """Sends a batch, and records the answers. Returns whether any note of each writer has to be sent again."""
    results: Sequence[NoteAnswer | Exception]
    try:
        answer = run()
        results, clock = answer.value, answer.clock
    except Exception as error:
        results, clock = [error] * len(batch), None
    by_writer: dict[WriterSession, list[Answered]] = {}
    for (writer, pending, addressed), result in zip(batch, results, strict=True):
        by_writer.setdefault(writer, []).append((pending, addressed, result))
    return {writer: writer.answered(answers, clock) for writer, answers in by_writer.items()}


def _reply(awaited: Iterable[Future[NoteAnswer]], result: NoteAnswer | Exception) -> None:
    """Passes an answer on to all who wait for it, and have not stopped waiting."""
    for each in awaited:
        if each.done() or not each.set_running_or_notify_cancel():
            continue
        if isinstance(result, NoteAnswer):
            each.set_result(result)
        else:
            each.set_exception(result)


def checked_log(log: Log | None) -> Log | None:
    """The log. Raises InvalidConfig for what is none, such as the path of one."""
    if log is not None and not hasattr(log, "append"):
        wanted = 'a log that is open, as SqliteLog("orders.log") or KafkaLog.connect("127.0.0.1:9092", "orders")'
        raise InvalidConfig(name="log", value=str(log)[:80], wanted=wanted)
    if log is not None and not callable(getattr(log, "in_transaction", None)):
        wanted = "a log whose in_transaction() returns whether a transaction is open, see strandline.logs.Log"
        raise InvalidConfig(name="log", value=type(log).__name__, wanted=wanted)
    return log


def by_key(time: Times | None, *, newest: bool = False) -> Mapping[str, int]:
    """The times by key, in milliseconds. A datetime between two of them is the earlier one, so that a note claims no
    more than it says; as the `newest` time of events it is the later one. Raises what is wrong with them."""
    if time is None:
        return {}
    given = time if isinstance(time, Mapping) else {DEFAULT_KEY: time}
    if not given and not newest:
        raise InvalidNote(name="times", value={}, wanted="at least one key with a time")
    name = "newest" if newest else "time"
    times = {key: each if type(each) is int else _whole(name, each, newest) for key, each in given.items()}
    for key, each in times.items():
        check_key(key)
        check_time(name, each)
    return times


def _whole(name: str, time: Any, up: bool) -> Any:  # what it cannot be is refused later
    """A datetime, or a whole number of another type such as NumPy's, as milliseconds."""
    if isinstance(time, datetime):
        return milliseconds(name, time, up=up)
    return index(time) if isinstance(time, Integral) and not isinstance(time, bool) else time


def noted_times(time: Times) -> Mapping[str, int]:
    """The times of a note by key, as `by_key` gives them. Raises InvalidNote for None too."""
    value: object = time  # a program may not have a time yet
    if value is None:
        raise InvalidNote(name="time", value=None, wanted="whole milliseconds, or a datetime with a time zone")
    return by_key(time)
