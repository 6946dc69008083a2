"""The notes of one writer on their way to the controller, and the rules by which they are sent.

    note_time(T) ──► fresh ──flush of the log──► waiting, with a position ──batch──► under way ──► answered
                       ▲ a write failed: held back until resume()   ▲ the controller is away: put back

`Background` gets its next step here and reports the outcome. The writer's own threads add notes, and claim the outbox
for their own calls. One lock protects all of it.

A failed write stops all notes without a position, also those from before it: a log may report an earlier append at a
later one. Only the application knows whether it will write the events again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from time import monotonic
from typing import Final

from strandline.client.calls import Clocked
from strandline.client.http import Connection
from strandline.core.changes import Registered
from strandline.core.note import DEFAULT_KEY, Note
from strandline.errors import (
    Fenced,
    OutcomeUnknown,
    PositionWentBack,
    Refused,
    StrandlineError,
    TimeWentBack,
    UnknownSegment,
    says_nothing_changed,
)
from strandline.logs import Position, Transaction
from strandline.logs.errors import TransactionOver, TransactionUnderWay
from strandline.paced_log import Waiting
from strandline.wire.streams import NoteAnswer
from writer_client.automatic_notes import AutomaticTime, PositionSource
from writer_client.batches import Addressed, Results, call_for
from writer_client.errors import NotDrained
from writer_client.pending import Pending, WaitingNotes, merged
from writer_client.process_exit import Left, UnraisedRefusal, Unsent
from writer_client.reports import NoteRefused, NotesMoving, NotesStuck, Report, Status
from writer_client.session import Begun, WriterSession

WAITING_REPORTS: Final = 1_000  # of late events, for `on_report` of one writer
TRANSACTION_CHECK_MS: Final = 100  # between checks whether a producer's own transaction has ended

_log = logging.getLogger(__name__)

Answered = tuple[Pending, Addressed, NoteAnswer | Exception]


@dataclass(frozen=True, slots=True)
class Todo:
    """The next steps of the background."""

    register: bool = False
    flush: PositionSource | None = None
    send: bool = False
    unsettled: bool = False  # there are unanswered notes, or a refusal that was not reported yet


class Outbox:
    """The notes of one writer; see above."""

    def __init__(
        self,
        session: WriterSession,
        automatic: AutomaticTime | None,
        on_report: Callable[[Report], None] | None,
        idle_after_ms: int | None = None,
    ) -> None:
        self.session = session
        self.automatic = automatic
        # Ctrl-C finds this lock taken nowhere but in a `with` block: the methods of a condition are Python's own.
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.fresh: dict[str, int] = {}
        self.fresh_newest: Mapping[str, int] = {}
        self.fresh_sent = 0
        self.last: dict[str, int] = {}  # the last noted times, answered or not
        self.last_position: dict[str, int] = {}  # the last positions that the caller gave
        self.waiting = WaitingNotes()
        self.closed = False
        self.unreported: Exception | None = None  # a refusal that was not reported yet
        self.wants_registration = False
        self._on_report = on_report
        self.reports: list[Report] = []
        self._claimed = self._draining = self._registering = self._flushing = self._leaving = False
        self._idle_after_ms = idle_after_ms
        self._active_at = monotonic()  # of the last write or manual note
        self._writing = 0
        self._before_write: int | Exception = 0  # the clock when the write under way began
        self._written = False  # since the clock was noted last
        self._is_quiet = False  # no write for `idle_after_ms`: the clock is no longer noted
        self._idling = False
        self._unpositioned: Pending | None = None  # gets its position from the flush under way
        self._flush_sent = 0  # events sent when that flush began, or, with `newest`, when it was noted
        self._under_way: list[Pending] = []
        self._may_be_done: Pending | None = None  # since an answer was lost: the greatest times and positions sent
        self._stuck: Exception | None = None
        self._failed_write = False
        self._put_off: Exception | None = None  # why there is no position now: usually an open transaction
        self._missed = False  # the clock was not noted because a transaction was open
        self._repeat_at = 0.0
        self._refused: Exception | None = None
        self._refusals = 0
        session.late.on_report = self._add_report
        session.send = self._send_alone
        self._waiting = Waiting(session.late.log)

    # -- for the background ------------------------------------------------------------------------------------

    def next_step(self) -> Todo:
        """Returns what to do next for this writer. Passes on what its own threads have to report."""
        with self._reporting():
            unsettled = (bool(self.count()) or self.unreported is not None) and not self.closed
            if self.closed or self._claimed or self._registering or self._idling:
                return Todo(unsettled=unsettled)
            if not self.session.holds:
                if not (self.fresh or self.waiting or self.wants_registration):
                    return Todo(unsettled=unsettled)
                self._registering = True
                return Todo(register=True, unsettled=unsettled)
            log = None
            if self.fresh and not self._flushing and not self._failed_write and self._put_off is None:
                self._flushing, log = True, self.session.positions
            return Todo(flush=log, send=bool(self.waiting) and not self._under_way, unsettled=unsettled)

    def registered(self, done: Registered | None, error: Exception | None) -> bool:
        """Records the outcome of registering. Returns whether to repeat it."""
        with self._reporting():
            self._registering = False
            if error is None:
                self.wants_registration = False
                self._set_moving()
                return False
            if isinstance(error, Refused):
                self.wants_registration = False
                self._refuse(dict(self.last), error)
                self._drop_all(error)
                return False
            self._set_stuck(error)
            return True

    def add_note(self, times: Mapping[str, int], newest: Mapping[str, int]) -> None:
        """Notes times at the position that the next flush of the log returns; `newest` covers the events written by
        now. Call it under the lock."""
        self._set_active()
        self.last.update(times)
        self.fresh.update(times)
        self.fresh_newest, self.fresh_sent = newest, self.session.sent

    def add_note_at(
        self,
        times: Mapping[str, int],
        position: Mapping[str, int],
        newest: Mapping[str, int],
        awaited: tuple[Future[NoteAnswer], ...] = (),
    ) -> None:
        """Notes times at a position from the caller. They replace times of the same keys that wait for a flush. Call it
        under the lock."""
        self._set_active()
        self.last.update(times)
        self.last_position.update(position)
        self.fresh = {key: time for key, time in self.fresh.items() if key not in times}
        if self._unpositioned is not None:
            left = {key: time for key, time in self._unpositioned.times.items() if key not in times}
            self._unpositioned = replace(self._unpositioned, times=left)
        self.waiting.add(Pending(dict(times), dict(position), dict(newest), awaited=awaited))

    def _set_active(self) -> None:
        """Restarts the wait for going idle: the writer writes, or notes manually."""
        if self._idle_after_ms is not None:
            self._active_at, self._is_quiet = monotonic(), False

    def flush_begins(self) -> None:
        """Assigns all fresh times to the flush that begins now."""
        with self.lock:
            self._unpositioned = Pending(self.fresh, {}, self.fresh_newest, from_log=True)
            self._flush_sent = self.fresh_sent if self.fresh_newest else self.session.sent
            self.fresh, self.fresh_newest = {}, {}

    def flushed(self, own: Position | None, error: Exception | None) -> bool:
        """Records the outcome of a flush. Returns whether there is no position yet, so that the flush must be
        repeated."""
        with self._reporting():
            pending, self._unpositioned, self._flushing = self._unpositioned, None, False
            assert pending is not None
            if self.session.fenced is not None:  # meanwhile
                return False
            elsewhere = self.session.failure_elsewhere()
            error = error or elsewhere
            if isinstance(error, TransactionUnderWay):
                self._put_off = error
            elif error is not None and self.session.log is None:  # the application's function failed, not a write
                self._put_off = error
                self._set_stuck(error)
            elif error is not None:
                self._hold_back(error)
            if own is None or self._failed_write:  # the append raised a failure that flush does not repeat
                self.fresh = {**pending.times, **self.fresh}
                return self._put_off is not None
            times = pending.times
            if self.automatic is not None:  # a clock that is behind the floor would be late
                floors = self.session.floors
                times = {
                    key: time for key, time in times.items() if (floor := floors.get(key)) is None or time >= floor
                }
            if times:
                newest: Mapping[str, int] = {}
                if self._flush_sent == self.session.sent:  # else more events may lie below the position
                    newest = self.session.known(own, pending.newest)
                self.waiting.add(replace(pending, times=times, position=own, newest=newest))
            return False

    def flush_again(self) -> None:
        """Allows the next flush, after one without a position."""
        with self.lock:
            self._put_off = None

    def notes_to_send(self) -> list[tuple[Pending, Addressed]]:
        """Takes all waiting notes; they are under way then."""
        with self.lock:
            if self.closed or self._claimed or self._under_way or self._idling:
                return []
            notes = self.waiting.take()
            if any(each.awaited for each in notes):
                # It is sent again within one call: a repeated note must not be behind another one of the same call.
                notes = [reduce(merged, notes)]
            self._under_way = notes
            return [(each, self.session.note_of(each.times, each.position, each.newest)) for each in notes]

    def keep(self, notes: list[Pending]) -> None:
        """Puts back notes that did not fit into the batch."""
        with self.lock:
            self._under_way = self._under_way[: len(self._under_way) - len(notes)]
            self.waiting.put_back(notes)

    def answered(self, answers: Sequence[Answered], clock: int | None) -> bool:
        """Records the answers to notes. Returns whether any must be sent again."""
        with self._reporting():
            self._under_way = []
            again: list[Pending] = []
            stuck = False
            for pending, addressed, result in answers:
                if isinstance(result, NoteAnswer):
                    self._taken(pending, addressed, result, clock)
                    pending.answer(result)
                    # An older note that must be repeated is covered for the same keys.
                    again = [rest for each in again if (rest := each.without(pending.times))]
                elif pending.awaited:
                    self._give_up(pending, addressed.note, result)
                    if isinstance(result, Fenced):
                        self._drop_all(result)
                        return False
                elif (left := self._rest_of(pending, result)) is not None:
                    again += left
                elif _is_final(pending, result):
                    if isinstance(result, StrandlineError):
                        self.session.not_taken(addressed.note, result)
                    self._refuse(pending.times, result)
                    if isinstance(result, Fenced):
                        self._drop_all(result)
                        return False
                else:
                    self._set_stuck(result)
                    stuck = True
                    again.append(pending if says_nothing_changed(result) else self._may_be_taken(pending))
            self.waiting.put_back(again)
            return stuck and bool(again)

    def _send_alone(self, connection: Connection, addressed: Addressed) -> NoteAnswer:
        """Sends a note of the session's in the caller's thread, while the background leaves the outbox alone."""
        note, answered = addressed.note, Future[NoteAnswer]()
        pending = Pending(note.times, note.position, note.newest, awaited=(answered,))
        record([(self, pending, addressed)], partial(connection.run, call_for([addressed])))
        return answered.result()

    def note_automatically(self) -> int | None:
        """Notes the clock. Returns the milliseconds until the next time, or None after the last."""
        automatic = self.automatic
        with self._reporting():
            if self.closed or self._leaving or automatic is None:
                return None
            if self._claimed or self._draining:  # by a call that registers or closes the writer, and ends soon
                return min(automatic.period_ms, TRANSACTION_CHECK_MS)
            if self._is_quiet or self.session.fenced or not (self.session.holds or self.wants_registration):
                return automatic.period_ms  # idle
            if self.session.in_transaction or isinstance(self._put_off, TransactionUnderWay):
                return self._repeat_last(automatic)
            self._missed = False
            if automatic.domain == "event":
                try:
                    self._note_clock(automatic)
                except Exception as error:  # of the application's clock: the next period tries again
                    self._set_stuck(error)
            elif self.count():
                pass  # repeating the last time would go back behind the notes under way; their answer has the clock
            elif self.session.noted_since:
                self.waiting.add(Pending(dict(self.session.times), {}, asks=True))
            elif self.session.clock is not None:  # from the answer to registering
                self._note_controller_clock(self.session.clock)
            return automatic.period_ms

    def _repeat_last(self, automatic: AutomaticTime) -> int:
        """Repeats the last note while a transaction is open, so that the writer is not silent: no later time is true
        yet. Returns the milliseconds until the next check, since a transaction may end without the writer."""
        self._missed = True
        if monotonic() >= self._repeat_at and self.session.noted_since and not (self.waiting or self._under_way):
            self._repeat_at = monotonic() + automatic.period_ms / 1000
            self.waiting.add(Pending(dict(self.session.times), {}))
        return min(automatic.period_ms, TRANSACTION_CHECK_MS)

    def _note_clock(self, automatic: AutomaticTime) -> None:
        """Notes the application's clock. While a write is under way, notes the clock at its beginning: by now it may be
        too late for the events of the write."""
        now = self._before_write if self._writing else automatic.now()
        if isinstance(now, Exception):
            raise now
        self._written = self._writing > 0
        for key in self.session.keys or (DEFAULT_KEY,):
            self.fresh[key] = self.last[key] = max(now, self.last.get(key, now))

    def _note_controller_clock(self, clock: int) -> None:
        """Notes the controller's clock, which was received before the position is read."""
        self._written = self._writing > 0
        self.fresh[DEFAULT_KEY] = self.last[DEFAULT_KEY] = max(clock, self.last.get(DEFAULT_KEY, clock))

    def last_times(self) -> Mapping[str, int]:
        """Returns the clock's times for a writer that goes idle or closes, and may have noted nothing yet."""
        automatic, clock = self.automatic, self.session.clock
        with self.lock:
            if automatic is None or self._failed_write or self.session.in_transaction:
                return {}
            if automatic.domain == "event":
                with suppress(Exception):  # without a clock there is no time
                    return dict.fromkeys(self.session.keys or (DEFAULT_KEY,), automatic.now())
            elif clock is not None:
                return {DEFAULT_KEY: clock}
            return {}

    @property
    def has_given_positions(self) -> bool:
        """Whether the clock is noted without a log, at positions from the application."""
        return self.automatic is not None and self.session.log is None

    def begins(self, transaction: Transaction) -> Begun:
        """Records an open transaction. A writer without a note notes the clock first, which stays true meanwhile."""
        with self.lock:
            if self.automatic is not None and self.automatic.domain == "event" and not self.last:
                with suppress(Exception):  # the next automatic note reports it
                    self._note_clock(self.automatic)
            return self.session.opened(transaction)

    def ended(self, begun: Begun, times: Mapping[str, int], *, committed: bool) -> None:
        """Records the end of a transaction: notes its time after all earlier notes, and the clock if that was
        missed."""
        with self.lock:
            self.session.ended(begun, committed=committed)
            self._written = True
            self._set_active()
            if times:
                self.add_note(times, {})
            self._put_off = None
            counts = not self.closed and (self.session.holds or self.wants_registration)
            if self._missed and counts and self.automatic is not None and not self.session.in_transaction:
                self._make_up_for(self.automatic)

    def _make_up_for(self, automatic: AutomaticTime) -> None:
        """Notes the missed clock at once: by the next period another transaction may be open."""
        clock = self.session.clock
        if automatic.domain == "event":
            with suppress(Exception):  # the next automatic note reports it
                self._note_clock(automatic)
                self._missed = False
        elif clock is not None:
            self._note_controller_clock(clock)
            self._missed = False

    # -- going idle --------------------------------------------------------------------------------------------

    def rest(self) -> int | None:
        """Returns the milliseconds until the next check whether the writer goes idle: 0 if it does now, None for
        never."""
        with self.lock:
            if self.closed or self._leaving or self._idle_after_ms is None:
                return None
            left_ms = round((self._active_at - monotonic()) * 1000) + self._idle_after_ms
            if left_ms > 0:
                return left_ms
            if self.session.fenced or not self.session.holds:
                return self._idle_after_ms
            self._is_quiet = not (self._writing or self.session.in_transaction)
            at_work = self._claimed or self._draining or self._registering or self._flushing or self._writing > 0
            if at_work or self._failed_write or self.count() or self.session.in_transaction:
                return min(self._idle_after_ms, TRANSACTION_CHECK_MS)
            if self._written and self.automatic is not None:  # time passes what was written last
                self._written = False
                self._make_up_for(self.automatic)
                return min(self._idle_after_ms, TRANSACTION_CHECK_MS)
            self._idling = True
            return 0

    def rested(self, error: Exception | None) -> int | None:
        """Records the outcome of going idle. Returns the milliseconds until the next check."""
        with self._reporting():
            self._idling = False
            self._set_active()
            if error is None:
                self.wants_registration = False
                self._set_moving()
            else:
                self._set_stuck(error)
            return self._idle_after_ms

    @contextmanager
    def writing(self) -> Iterator[bool]:
        """Encloses a write, and the registration before it: the writer does not go idle in between. Yields False if it
        must register first, or is going idle."""
        begun = False
        try:
            with self.lock:
                self._set_active()
                automatic = self.automatic
                if not self._writing and automatic is not None and automatic.domain == "event":
                    try:
                        self._before_write = automatic.now()
                    except Exception as error:  # the next automatic note reports it
                        self._before_write = error
                self._writing += 1
                begun = True
            yield self.session.holds and not self._idling
        finally:
            if begun:
                with self.lock:
                    self._writing -= 1
                    self._written = True
                    self._set_active()

    def beyond_the_clock(self, times: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the times of a commit that are later than the noted clock."""
        with self.lock:
            clock = self.session.clock
            if self.automatic is not None and self.automatic.domain == "ingestion" and clock is not None:
                times = {key: min(time, clock) for key, time in times.items()}  # the clock was read before the position
            return {key: time for key, time in times.items() if time > self.last.get(key, time - 1)}

    def repeat(self, times: Mapping[str, int]) -> None:
        """Notes the times of a commit whose own note was not taken."""
        with self.lock:
            self.add_note({key: max(time, self.last.get(key, time)) for key, time in times.items()}, {})

    def release(self) -> None:
        """Ends noting. Who still waits for an answer hears that it is not known."""
        with self.lock:
            self.session.closed = self.closed = True
            for each in [*self.waiting, *self._under_way]:
                each.answer(
                    OutcomeUnknown(call="note_time()", reason="the writer was released", tried_ms=0, repeatable=True)
                )
            self.changed.notify_all()

    def raise_unreported(self) -> None:
        """Raises a refusal that was not reported yet."""
        error, self.unreported = self.unreported, None
        if error is not None:
            raise error

    # -- for the writer ----------------------------------------------------------------------------------------

    @contextmanager
    def claim(self, *, drain: bool, timeout_ms: int) -> Iterator[None]:
        """Waits for the background's work under way, and keeps it from the outbox during the block. With `drain`, waits
        until all notes are answered."""

        def quiet() -> bool:
            busy = self._claimed or self._registering or self._flushing or bool(self._under_way) or self._idling
            if drain and not self._failed_write:
                busy = busy or bool(self.fresh) or bool(self.waiting)
            return not busy

        claimed = False
        try:
            with self.lock:
                self._draining = drain  # no more automatic notes while the outbox empties
                if not self.changed.wait_for(quiet, timeout_ms / 1000):
                    raise (
                        self._stuck
                        or self._put_off
                        or NotDrained(writer=self.session.writer, count=self.count(), waited_ms=timeout_ms)
                    )
                if drain and self._failed_write and self._stuck is not None:
                    raise self._stuck
                claimed = self._claimed = True
            yield
        finally:
            with self.lock:
                self._draining = False
                if claimed:
                    self._claimed = False
                self.changed.notify_all()

    def wait_until_answered(self, timeout_ms: int) -> bool:
        """Waits until all notes so far are answered. Returns False on timeout."""
        with self.lock:
            # A clock with a short period keeps adding notes: its notes so far are answered when their times are taken.
            noted = dict(self.last) if self.automatic is not None else {}
            return self.changed.wait_for(
                lambda: not self.count() or self.closed or self._has_taken(noted), timeout_ms / 1000
            )

    def leave(self, deadline: float, *, patient: bool = True) -> list[Left]:
        """Stops automatic notes, and waits until all notes so far are answered or cannot be, at most until a deadline
        (`time.monotonic`), and unless it is `patient` only until one has to be sent again. Returns what is left to
        report."""

        def over() -> bool:
            given_up = not patient and self._stuck is not None and not self._under_way
            return given_up or self._is_settled(wanted)

        with self.lock:
            self._leaving = True
            wanted = dict(self.last)
            self.changed.wait_for(over, max(0.0, deadline - monotonic()))
            return self._unraised() if self._has_taken(wanted) else self._unsent() + self._unraised()

    def left(self) -> list[Left]:
        """Returns the notes that are not answered, and a refusal that was not reported."""
        with self.lock:
            return self._unsent() + self._unraised()

    def unraised(self) -> list[Left]:
        """Returns a refusal that was not reported."""
        with self.lock:
            return self._unraised()

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
                with self._reporting():
                    self._hold_back(failure)
            raise

    def resume(self) -> None:
        """Sends the notes that a failed write held back."""
        with self.lock:
            self._failed_write, self._stuck = False, None

    def count(self) -> int:
        """Returns how many notes are not answered. Call it under the lock."""
        without_position = int(bool(self.fresh)) + int(self._unpositioned is not None)
        return without_position + len(self.waiting) + len(self._under_way)

    @property
    def is_busy(self) -> bool:
        """Whether there is something to do for the background."""
        with self.lock:
            return not self.closed and (self.wants_registration or self.count() > 0 or bool(self.reports))

    def _unattended(self) -> int:
        """Returns how many of them nobody waits for."""
        return self.count() - sum(bool(each.awaited) for each in [*self.waiting, *self._under_way])

    def status(self) -> Status:
        with self.lock:
            return Status(
                epoch=self.session.epoch,
                noted=dict(self.session.times),
                waiting=self.count(),
                late=self.session.late.late,
                floors=dict(self.session.late.floors),
                late_events=self.session.late.events,
                refused=self._refused,
                refusals=self._refusals,
                stuck=self._stuck,
                failed_write=self._failed_write,
            )

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Holds the lock; afterwards wakes waiting threads, and passes the new reports to the callback."""
        with self.lock:
            try:
                yield
            finally:
                self.changed.notify_all()
                reports, self.reports = self.reports, []
        if self._on_report is not None:
            for report in reports:
                try:
                    self._on_report(report)
                except Exception:
                    _log.exception("on_report of writer %r failed on %r", self.session.writer, report)

    def _add_report(self, report: Report) -> None:
        """Keeps a report for the callback; without one, nobody reads it."""
        if self._on_report is not None and len(self.reports) < WAITING_REPORTS:
            self.reports.append(report)

    # -- inside, under the lock --------------------------------------------------------------------------------

    def _taken(self, pending: Pending, addressed: Addressed, answer: NoteAnswer, clock: int | None) -> None:
        passed = self.session.passed
        self.session.noted(addressed.note)
        if self._may_be_done is not None:  # a note that is repeated may be behind this one now
            self._may_be_done = merged(self._may_be_done, pending)
        self.session.clock = clock
        self._refused = None
        self._set_moving()
        if pending.asks:
            if self.session.in_transaction:
                self._missed = True
            elif clock is not None:
                self._note_controller_clock(clock)
            return
        self.session.late.answered(pending.times, answer, passed)

    def _may_be_taken(self, pending: Pending) -> Pending:
        """Records that the answer to a note was lost: it may have been taken."""
        before = self._may_be_done
        self._may_be_done = pending if before is None else merged(before, pending)
        return replace(pending, may_be_done=True)

    def _rest_of(self, pending: Pending, error: Exception) -> list[Pending] | None:
        """Returns what remains of a note that is refused only because it, or a later one, was taken earlier and the
        answer was lost. None if it is refused for another reason."""
        reach = self._may_be_done
        if reach is None or not pending.may_be_done:
            return None
        match error:
            case TimeWentBack(key=key, stored_time=stored) if stored <= reach.times.get(key, stored - 1):
                rest = pending.without({key})
                return [] if rest is None else [rest]
            case PositionWentBack(segment=segment, stored_offset=stored) if stored <= reach.position.get(segment, -1):
                return [replace(merged(pending, reach), times=pending.times, asks=pending.asks)]
            case _:
                return None

    def _is_settled(self, wanted: Mapping[str, int]) -> bool:
        return not self._unattended() or self.closed or self._failed_write or self._has_taken(wanted)

    def _has_taken(self, wanted: Mapping[str, int]) -> bool:
        """Whether the controller has taken these times, or later ones."""
        taken = self.session.times
        return bool(wanted) and all(taken.get(key, time - 1) >= time for key, time in wanted.items())

    def _unraised(self) -> list[Left]:
        error, self.unreported = self.unreported, None
        return [UnraisedRefusal(self.session.stream, self.session.writer, str(error))] if error is not None else []

    def _unsent(self) -> list[Left]:
        count = self._unattended()
        if not count or self.closed:
            return []
        reason = str(self._stuck or self._put_off or "the time was too short")
        if self._failed_write:
            reason = f"a write had failed: {reason}"
        return [Unsent(self.session.stream, self.session.writer, count, reason)]

    def _refuse(self, times: Mapping[str, int], error: Exception) -> None:
        self._refused = error
        self._refusals += 1
        if self._on_report is None:
            self.unreported = error
        self.reports.append(NoteRefused(times, error))
        self._reset_last()

    def _give_up(self, pending: Pending, note: Note, error: Exception) -> None:
        """Drops an awaited note, and raises the error where it is awaited."""
        if isinstance(error, StrandlineError):
            self.session.not_taken(note, error)
        self._reset_last()
        pending.answer(error)

    def _reset_last(self) -> None:
        """Lets the next note go back behind a time that was never taken."""
        self.last = dict(self.session.may_have_noted)
        for pending in self.waiting:
            self.last.update(pending.times)
        self.last.update(self._unpositioned.times if self._unpositioned is not None else {})
        self.last.update(self.fresh)
        self.last_position = {}
        for pending in self.waiting:
            self.last_position.update(pending.position)

    def _hold_back(self, error: Exception) -> None:
        """Holds notes back after a failed write."""
        self.session.newest.lost()
        self.fresh_newest = {}  # the log may have newer events than the caller knew
        if self._unpositioned is not None:
            self._unpositioned = replace(self._unpositioned, newest={})
        self._failed_write, self._stuck = True, error
        self.reports.append(NotesStuck(error, failed_write=True))

    def _drop_all(self, error: Exception) -> None:
        for each in self.waiting.take():
            each.answer(error)
        self.fresh = {}
        self.last = dict(self.session.times)

    def _set_stuck(self, error: Exception) -> None:
        if self._stuck is None:
            self.reports.append(NotesStuck(error, failed_write=False))
        self._waiting.goes_on(
            f"writer {self.session.writer!r} of stream {self.session.stream!r} waits, and tries again: {error}"
        )
        if not self._failed_write:
            self._stuck = error

    def _set_moving(self) -> None:
        self._waiting.ends()
        if self._stuck is not None and not self._failed_write:
            self._stuck = None
            self.reports.append(NotesMoving())


# A note under way, and its outbox.
Sent = tuple[Outbox, Pending, Addressed]


def record(batch: Sequence[Sent], run: Callable[[], Clocked[Results]]) -> dict[Outbox, bool]:
    """Sends a batch, and records the answers. Returns whether any note of each outbox has to be sent again."""
    results: Sequence[NoteAnswer | Exception]
    try:
        answer = run()
        results, clock = answer.value, answer.clock
    except Exception as error:
        results, clock = [error] * len(batch), None
    by_outbox: dict[Outbox, list[Answered]] = {}
    for (outbox, pending, addressed), result in zip(batch, results, strict=True):
        by_outbox.setdefault(outbox, []).append((pending, addressed, result))
    return {outbox: outbox.answered(answers, clock) for outbox, answers in by_outbox.items()}


def _is_final(pending: Pending, error: Exception) -> bool:
    """Whether a note is refused for good. A segment that the log has and the controller does not is new: try again."""
    return isinstance(error, Refused) and not (isinstance(error, UnknownSegment) and pending.from_log)
