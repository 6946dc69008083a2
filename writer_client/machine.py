"""One writer as a state machine: what it knows, what it owes, and its next step. Without a lock, a thread, randomness,
input or output: "now" and what was received are arguments, the application's clock is a function that it is given, and
`news` has what is to be passed on.

    step = decide(writer, now)     the next step; changes nothing
    writer.begin(step)             it is under way
    writer.registered(…), flushed(…), answered(…), left(), call_failed(…), …      its outcome

The phases, and what a goal of the program or of the background changes in them:

              register                    idle, or its answer is lost
    AWAY ───────────────► HOLDING ────────────────────────────────────► AWAY
                             │ close ─► CLOSED             an answer says so: FENCED, until it registers again

The notes, which are sent only while it is HOLDING and has no goal:

    note_time(T) ──► fresh ──flush of the log──► waiting, with a position ──batch──► under way ──► answered
                       ▲ a write failed: held back until resume()   ▲ the controller is away: put back

A failed write stops all notes without a position, also those from before it: a log may report an earlier append at a
later one. Only the application knows whether it will write the events again.

`RegistrationState` is what it knows of the controller, `Outbox` has its notes, and `Clockwork` says when it notes its
clock and goes idle.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, Literal, TypeAlias

from strandline.core.changes import Registered
from strandline.core.note import DEFAULT_KEY, Note, check_key
from strandline.errors import (
    Fenced,
    InvalidConfig,
    OutcomeUnknown,
    Refused,
    StrandlineError,
    TooMany,
    UnknownSegment,
    says_nothing_changed,
)
from strandline.limits import MEMO_BYTES
from strandline.logs import Position
from strandline.logs.errors import TransactionUnderWay
from strandline.names import check_name
from strandline.wire.streams import NoteAnswer
from writer_client.automatic_notes import NOT_READ, AutomaticTime
from writer_client.clockwork import TRANSACTION_CHECK_MS, Clockwork, reading
from writer_client.errors import WriterClosed
from writer_client.lateness import Lateness, Warn
from writer_client.newest_time import NewestTime
from writer_client.notes import Addressed, Pending
from writer_client.outbox import Outbox
from writer_client.registration import RegistrationState, greatest
from writer_client.reports import NoteRefused, NotesMoving, NotesStuck, Report

Aim: TypeAlias = Literal["register", "hold", "stay", "idle", "close"]
Answered: TypeAlias = tuple[Pending, Addressed, NoteAnswer | Exception]


class Phase(Enum):
    AWAY = "new or idle, or perhaps idle or closed: it registers before it writes or notes"
    HOLDING = "certainly registered, and certainly not idle or closed since"
    FENCED = "another process has registered its name"
    CLOSED = "closed for good"
    RELEASED = "nothing more happens"


ENDED: Final = (Phase.CLOSED, Phase.RELEASED)


@dataclass(eq=False, slots=True)
class Goal:
    """What a caller waits for, or the background wants (`own`), and how far it has come."""

    aim: Aim
    position: Mapping[str, int] | None = None  # where the writer ends, from the caller
    own: bool = False
    held: bool = False  # when its call began
    answer: Registered | None = None
    registered: bool = False
    repairs: bool = False  # times that were committed but not noted
    end: Mapping[str, int] | None = None  # the position to leave with
    known: Mapping[str, int] = field(default_factory=dict)  # the greatest event times below it
    fallback: Mapping[str, int] = field(default_factory=dict)  # the clock's times, for a writer without any
    settled: bool = False  # its final position is noted
    left: bool = False


# -- steps -----------------------------------------------------------------------------------------------------


class Do(Enum):
    """The steps that say no more than what to do."""

    HOLD = "the background registers the writer"
    REST = "the background lets it go idle"
    FLUSH = "get a position for the fresh times"
    SEND = "send the waiting notes"
    REGISTER = "register, and look where the log ends"
    FIND_END = "find the final position"
    CLEAR_MEMO = "clear the log's memo: its time belongs to the life that ends"
    IDLE = "call the controller: it is idle"
    CLOSE = "call the controller: it is closed"
    DONE = "the goal is reached"


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before this time, or before something happens."""

    until: float | None = None


@dataclass(frozen=True, slots=True)
class ReadClock:
    """Note the clock; `reads` the application's. `last`: before the writer goes idle, out of turn."""

    reads: bool
    last: bool = False


@dataclass(frozen=True, slots=True)
class SendAlone:
    """Send this note, and wait for its answer."""

    pending: Pending
    addressed: Addressed


@dataclass(frozen=True, slots=True)
class Fail:
    """The goal cannot be reached."""

    error: StrandlineError


Step: TypeAlias = Do | Wait | ReadClock | SendAlone | Fail


# -- news ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a note that somebody waits for."""

    awaited: tuple[Future[NoteAnswer], ...]
    result: NoteAnswer | Exception


@dataclass(frozen=True, slots=True)
class Failing:
    """An attempt has failed, and is made again; None: one did not."""

    error: Exception | None


News: TypeAlias = Reply | Failing | Warn | Report


class Machine:
    """The state of one writer; see above. Who performs the steps sets `goal`, and what was seen outside, such as
    `in_transaction`; all else is changed by the methods only."""

    def __init__(
        self,
        stream: str,
        writer: str,
        keys: Iterable[str] = (),
        *,
        has_log: bool = False,
        automatic: AutomaticTime | None = None,
        idle_after_ms: int | None = None,
        raises: bool = True,
        closes_by_name: bool = True,
    ) -> None:
        """`raises`: a refusal that nobody waits for is raised by the next call. `closes_by_name`: also a name that it
        has not registered."""
        self.stream, self.writer = check_name("stream", stream), check_name("writer", writer)
        if isinstance(keys, str):
            raise InvalidConfig(name="keys", value=keys, wanted='a list of time keys, such as ["order_time"]')
        self.keys = tuple(check_key(key) for key in keys)
        self.has_log = has_log
        self._raises = raises
        self._closes_by_name = closes_by_name
        self.phase = Phase.AWAY
        self.goal: Goal | None = None
        self.news: list[News] = []
        self.late = Lateness(stream, writer, self.news)
        self.registration = RegistrationState(has_log=has_log)
        self.outbox = Outbox()
        self.clockwork = Clockwork(automatic, idle_after_ms)
        self.fenced: Fenced | None = None
        self.repaired: NoteAnswer | StrandlineError | None = None
        self.owed: Mapping[str, int] = {}  # times of commits that are not noted yet
        self._has_memo = False  # whether the log has a memo of this name
        self._own_memo = ""  # the last one of this process, whose times are noted without the log
        # what keeps notes back
        self.stuck: Exception | None = None
        self.failed_write = False
        self.refused: Exception | None = None
        self.refusals = 0
        self.unreported: Exception | None = None  # a refusal that no call has raised yet
        self.draining = 0  # callers that wait until all notes are answered
        self.in_transaction = False  # as the log said last
        self.newest = NewestTime()

    # -- what it has to do -----------------------------------------------------------------------------------------

    @property
    def is_unsettled(self) -> bool:
        """Whether there are unanswered notes, or a refusal that was not reported yet."""
        return self.phase is not Phase.RELEASED and (self.unreported is not None or len(self.outbox) > 0)

    @property
    def is_busy(self) -> bool:
        """Whether there may be something to do for the background."""
        return self.phase not in ENDED and (self.clockwork.started or self.registration.wanted or len(self.outbox) > 0)

    def is_quiet(self, *, drain: bool) -> bool:
        """Whether a goal can begin: nothing is under way, and with `drain` all notes are answered."""
        outbox = self.outbox
        if self.goal is not None or outbox.flushing or outbox.under_way:
            return False
        return not drain or self.failed_write or not (outbox.fresh or outbox.waiting)

    def begin(self, step: Step) -> None:
        """Records that a step is under way."""
        match step:
            case Do.HOLD | Do.REST:
                self.goal = Goal("hold" if step is Do.HOLD else "idle", own=True)
            case Do.FLUSH:
                self.outbox.flushing, self.outbox.put_off = True, None
            case Do.SEND:
                self.outbox.ready = True
            case Do.REGISTER | Do.IDLE | Do.CLOSE:  # what becomes of its phase is unknown until the answer
                assert self.goal is not None
                self.goal.held = self.phase is Phase.HOLDING
                if self.goal.held:
                    self.phase = Phase.AWAY
            case _:
                pass

    # -- goals -----------------------------------------------------------------------------------------------------

    def registered(self, answer: Registered, clock: int | None) -> None:
        """The controller has registered the writer; `looked` comes next."""
        assert self.goal is not None
        self.goal.answer = answer
        self.late.registered(answer, first=self.registration.epoch is None)
        self.registration.begins(answer, clock)
        self.fenced = None
        self._enter(Phase.AWAY)

    def looked(self, memo: str | None, ends: Position, own: Position) -> None:
        """The log ended at `ends`, and `own` is what this process has appended. `memo`, of the last commit, was read
        before. All that processes of this name appended, noted or not, lies below that end."""
        assert self.goal is not None
        if self.has_log:
            self.registration.look(ends, own)
            self._has_memo = bool(memo)
            if memo and memo != self._own_memo:
                self.owed = greatest(self.owed, self._times_in(memo))
        self.goal.registered = True
        floors = self.registration.known_floors
        self.owed = {key: time for key, time in self.owed.items() if time > floors.get(key, time - 1)}
        self.goal.repairs = bool(self.owed)
        if not self.owed:
            self._hold()

    def sent_alone(self, step: SendAlone, result: NoteAnswer | StrandlineError) -> None:
        """The outcome of a note that was sent alone."""
        assert self.goal is not None
        if not self.goal.repairs:
            self.goal.settled = isinstance(result, NoteAnswer)
            return
        self.goal.repairs, self.repaired = False, result
        owed = step.pending.times if isinstance(result, NoteAnswer) else self.owed  # a refused time is no longer owed
        self.registration.raise_floors(owed)
        self.late.raise_floors(owed)
        self._hold()

    def _hold(self) -> None:
        self.registration.wanted, self.clockwork.written = False, True  # the clock is noted once before it goes idle
        if self.phase is Phase.AWAY:
            self.phase = Phase.HOLDING

    def _enter(self, phase: Phase) -> None:
        """What has ended stays so, whatever a call that was under way brings."""
        if self.phase not in ENDED:
            self.phase = phase

    def found_end(self, own: Position | None, fallback: Mapping[str, int]) -> None:
        """The writer leaves at this position of the log, or at the caller's."""
        assert self.goal is not None
        self.goal.known = self.known(own, {}) if own is not None else {}
        self.goal.end, self.goal.fallback = own or self.goal.position or {}, fallback

    def memo_cleared(self) -> None:
        self._has_memo = False

    def left(self) -> None:
        """The controller has answered that the writer is idle or closed."""
        assert self.goal is not None
        self.goal.left, self.registration.wanted = True, False
        if self.goal.aim == "close":
            self._enter(Phase.CLOSED)
            self._answer_waiting(WriterClosed(writer=self.writer))

    def call_failed(self, error: StrandlineError) -> None:
        """Registering or leaving has failed."""
        assert self.goal is not None
        if self.goal.held and says_nothing_changed(error):
            self._enter(Phase.HOLDING)
        if isinstance(error, Fenced):
            self._fence(error)

    def finished(self, error: Exception | None, now: float) -> bool:
        """The goal is reached, or not. Returns whether the background has to try again."""
        goal, self.goal = self.goal, None
        assert goal is not None
        if not goal.own or self.phase in ENDED:
            return False
        self.clockwork.active(now)
        if error is None:
            self._set_moving()
        elif goal.aim == "hold" and isinstance(error, Refused):
            self.registration.wanted = False
            self._refuse(dict(self.outbox.last), error)
            self._drop_all(error)
        else:
            self._set_stuck(error)
            return goal.aim == "hold"
        return False

    def final_note(self, goal: Goal) -> SendAlone | None:
        """The note of the final position, unless a note since the registration covers it.

        Nothing older follows, so any time is true: the last one that may have been noted, or the floor, or the clock's.
        Without any, it notes the position alone.
        """
        position = self.registration.last_position(goal.end or {})
        if not self.owed and self.registration.covers(position):
            return None
        times = self.with_owed(self.registration.last_times) or goal.fallback
        return self._alone(times, position, goal.known)

    def _alone(self, times: Mapping[str, int], position: Mapping[str, int], newest: Mapping[str, int]) -> SendAlone:
        addressed = self.note_of(times, position, newest)
        return SendAlone(Pending(addressed.note.times, addressed.note.position, addressed.note.newest), addressed)

    def release(self) -> None:
        """Ends everything. Who still waits for an answer gets the error that it is not known."""
        self.phase = Phase.RELEASED
        self._answer_waiting(
            OutcomeUnknown(call="note_time()", reason="the writer was released", tried_ms=0, repeatable=True)
        )

    def _answer_waiting(self, error: Exception) -> None:
        self.news += [Reply(each.awaited, error) for each in self.outbox.positioned if each.awaited]

    # -- notes -----------------------------------------------------------------------------------------------------

    def note_of(self, times: Mapping[str, int], position: Mapping[str, int], newest: Mapping[str, int]) -> Addressed:
        """A note of these times. Its position also covers what the log had at the registration, of which the caller may
        not know; `newest` holds below the caller's position only."""
        reached = self.registration.reached(position)
        if reached != position:
            position, newest = reached, {}
        note = Note(writer=self.writer, times=times, position=position, epoch=self.registration.epoch, newest=newest)
        return Addressed(self.stream, note)

    def known(self, own: Position, given: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the greatest event times below a position: from the caller, or as given with the writes. Empty if
        unknown, as with events of other processes."""
        known = {} if self.registration.shares else given or self.newest.below(own)
        if not known and (given or self.newest.greatest):
            self.late.newest_unknown()
        return known

    def flushed(self, own: Position | None, error: Exception | None, sent: int, now: float) -> None:
        """The outcome of a flush; so many events are sent now."""
        pending, nothing_newer = self.outbox.flush_ends(sent)
        if self.phase is Phase.FENCED:  # meanwhile
            return
        if isinstance(error, TransactionUnderWay):
            self._put_off(error, now)
        elif error is not None and not self.has_log:  # the application's function failed, not a write
            self._put_off(error, now)
            self._set_stuck(error)
        elif error is not None:
            self.hold_back(error)
        if own is None or self.failed_write:  # the append raised a failure that flush does not repeat
            self.outbox.keep_fresh(pending)
            return
        times = pending.times
        if self.clockwork.automatic is not None:
            floors = self.registration.known_floors
            if self.clockwork.automatic.oldest is None:  # a clock that is behind the floor would be late
                times = {key: time for key, time in times.items() if time >= floors.get(key, time)}
            else:  # what is held back below the floor is late, and time waits for the rest
                times = {key: max(time, floors.get(key, time)) for key, time in times.items()}
        if times:
            newest: Mapping[str, int] = {}
            if nothing_newer:  # else more events may lie below the position
                newest = self.known(own, pending.newest)
            self.outbox.waiting.add(replace(pending, times=times, position=own, newest=newest))

    def _put_off(self, error: Exception, now: float) -> None:
        self.outbox.put_off_until(now + TRANSACTION_CHECK_MS / 1000, error)

    def take(self) -> list[tuple[Pending, Addressed]]:
        """Takes all waiting notes; they are under way then."""
        self.outbox.ready = False
        if self.phase is not Phase.HOLDING or self.goal is not None or self.outbox.under_way:
            return []
        return [(each, self.note_of(each.times, each.position, each.newest)) for each in self.outbox.take()]

    def answered(self, answers: Sequence[Answered], clock: int | None) -> bool:
        """The answers to notes. Returns whether any must be sent again after a pause."""
        self.outbox.under_way = []
        again: list[Pending] = []
        stuck = False
        for pending, addressed, result in answers:
            note = addressed.note
            if isinstance(result, NoteAnswer):
                self._taken(pending, note, result, clock)
                self.news.append(Reply(pending.awaited, result))
                # An older note that must be repeated is covered for the same keys.
                again = [rest for each in again if (rest := each.without(pending.times))]
                continue
            if not pending.awaited:
                if (left := self.outbox.rest_of(pending, result)) is not None:
                    again += left
                    continue
                if not _is_final(pending, result):
                    self._set_stuck(result)
                    stuck = True
                    again.append(pending if says_nothing_changed(result) else self.outbox.unanswered(pending))
                    continue
            if isinstance(result, StrandlineError):
                self._not_taken(note, result)
            if pending.awaited:
                self.outbox.go_back_to(self.registration.may_have_noted)
                self.news.append(Reply(pending.awaited, result))
            else:
                self._refuse(pending.times, result)
            if isinstance(result, Fenced):
                self._fence(result)
                return False
        self.outbox.waiting.put_back(again)
        return stuck and bool(again)

    def _taken(self, pending: Pending, note: Note, answer: NoteAnswer, clock: int | None) -> None:
        passed = self.registration.passed
        self.registration.took(note, clock)
        self.owed = {key: time for key, time in self.owed.items() if time > note.times.get(key, time - 1)}
        self.outbox.taken(pending)
        self.refused = None
        self._set_moving()
        if not pending.asks:
            self.late.answered(pending.times, answer, passed)
        elif self.in_transaction:
            self.clockwork.missed = True
        elif clock is not None:
            self._note_controller_clock(clock)

    def _not_taken(self, note: Note, error: StrandlineError) -> None:
        """A note that failed counts as possibly taken unless the error denies it."""
        if not says_nothing_changed(error):
            self.registration.may_have_taken(note)
        self.late.refused(error)
        if isinstance(error, Refused):
            self.owed = {key: time for key, time in self.owed.items() if time != note.times.get(key)}

    def _fence(self, error: Fenced) -> None:
        """Another process has the name: nothing that waits can be noted any more."""
        self.fenced = error
        self._enter(Phase.FENCED)
        self._drop_all(error)

    def _drop_all(self, error: Exception) -> None:
        dropped = self.outbox.drop(self.registration.times)
        self.news += [Reply(each.awaited, error) for each in dropped if each.awaited]

    def _refuse(self, times: Mapping[str, int], error: Exception) -> None:
        self.refused = error
        self.refusals += 1
        if self._raises:
            self.unreported = error
        self.news.append(NoteRefused(times, error))
        self.outbox.go_back_to(self.registration.may_have_noted)

    def hold_back(self, error: Exception) -> None:
        """A write has failed: notes are held back."""
        self.newest.lost()
        self.outbox.newest_unknown()
        self.failed_write, self.stuck = True, error
        self.news.append(NotesStuck(error, failed_write=True))

    def resume(self) -> None:
        """Sends the notes that a failed write held back."""
        self.failed_write, self.stuck = False, None

    def _set_stuck(self, error: Exception) -> None:
        if self.stuck is None:
            self.news.append(NotesStuck(error, failed_write=False))
        self.news.append(Failing(error))
        if not self.failed_write:
            self.stuck = error

    def _set_moving(self) -> None:
        self.news.append(Failing(None))
        if self.stuck is not None and not self.failed_write:
            self.stuck = None
            self.news.append(NotesMoving())

    # -- commits ---------------------------------------------------------------------------------------------------

    def memo_of(self, times: Mapping[str, int]) -> str:
        """Returns the memo for a commit, from which the writer's next process notes the time if this one cannot."""
        text = json.dumps({"life": self.registration.life, "times": dict(times)}, separators=(",", ":"))
        if len(text) > MEMO_BYTES:
            what = f"bytes for the times of {len(times)} keys, which the log keeps with a commit,"
            raise TooMany(what=what, count=len(text), limit=MEMO_BYTES)
        self._has_memo, self._own_memo = True, text
        return text

    def _times_in(self, memo: str) -> Mapping[str, int]:
        """The times of the last commit in the present life of the name. Raises InvalidConfig if the memo is not a
        writer's: one of the two would overwrite what the other needs after a crash."""
        try:
            kept = json.loads(memo)
            times: Mapping[str, int] = kept["times"] if kept["life"] == self.registration.life else {}
        except (ValueError, TypeError, KeyError):
            wanted = "the log has the memo of a LogSink, or of a program, under it: give the writer a name of its own"
            raise InvalidConfig(name="the writer's name", value=self.writer, wanted=wanted) from None
        return times

    def owe(self, times: Mapping[str, int]) -> Mapping[str, int]:
        """Records the times of a commit. Returns them with those of earlier commits that are not noted yet."""
        self.owed = self.with_owed(times)
        return self.owed

    def with_owed(self, times: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the times, with those of commits that are not noted yet."""
        return greatest(self.owed, times)

    def beyond_the_clock(self, times: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the times of a commit that are later than the noted clock."""
        clock = self.registration.clock
        if (
            self.clockwork.automatic is not None
            and self.clockwork.automatic.domain == "ingestion"
            and clock is not None
        ):
            times = {key: min(time, clock) for key, time in times.items()}  # it was read before the position
        return {key: time for key, time in times.items() if time > self.outbox.last.get(key, time - 1)}

    def repeat(self, times: Mapping[str, int], sent: int) -> None:
        """Notes the times of a commit whose own note was not taken."""
        last = self.outbox.last
        self.outbox.add({key: max(time, last.get(key, time)) for key, time in times.items()}, {}, sent)

    def wrote(self, written: NewestTime, noted: Mapping[str, int]) -> None:
        """Events were appended, after these times were noted."""
        self.newest.add_all(written)
        self.late.wrote(written.appended, written.greatest, noted)

    def transaction_ended(self, times: Mapping[str, int], sent: int, read: Callable[[], int]) -> None:
        """A transaction has ended: notes its time after all earlier notes, and the clock, which `read` reads, if that
        was missed: by the next period another transaction may be open."""
        self.clockwork.written = True
        if times:
            self.outbox.add(times, {}, sent)
        self.outbox.may_flush()
        counts = self.phase is Phase.HOLDING or (self.phase is Phase.AWAY and self.registration.wanted)
        if self.clockwork.missed and counts and not self.in_transaction:
            self._catch_up(reading(read) if self.clockwork.has_own_clock else None)

    # -- the clock, and going idle ---------------------------------------------------------------------------------

    def stop(self) -> Mapping[str, int]:
        """Automatic work ends. Returns the times that are to be answered."""
        self.clockwork.leaving = True
        return dict(self.outbox.last)

    def write_begins(self, now: float, read: Callable[[], int]) -> bool:
        """A write, or the registration before it, begins: the writer does not go idle before its end. `read` reads the
        clock. Returns whether it holds time, and need not register first."""
        self.clockwork.write_begins(now, read)
        return self.phase is Phase.HOLDING and self.goal is None

    def clock_before_begin(self, read: Callable[[], int]) -> None:
        """A writer without a note notes the clock before its transaction begins, which stays true meanwhile."""
        if self.clockwork.has_own_clock and not self.outbox.last:
            self._note_clock(reading(read))  # if it fails, the next automatic note reports it

    def clock_read(self, step: ReadClock, read: Callable[[], int], now: float) -> None:
        """Notes the clock, if it is true now: `read` reads the application's."""
        automatic, clockwork, waiting = self.clockwork.automatic, self.clockwork, self.outbox.waiting
        assert automatic is not None
        found = reading(read) if step.reads else None
        if step.last:
            clockwork.written = False
            self._catch_up(found)
            return
        clockwork.next_period(now)
        if not self._notes_clock(now):
            return
        registration = self.registration
        if self._is_blocked(now):  # no later time is true yet; the writer must not be silent
            clockwork.miss(now)
            if registration.has_noted and not (waiting or self.outbox.under_way) and clockwork.repeats(now):
                waiting.add(Pending(dict(registration.times), {}))
            return
        clockwork.missed = False
        if automatic.domain == "event":
            failure = self._note_clock(found)
            if failure is not None and failure is not NOT_READ:  # the next period tries again
                self._set_stuck(failure)
        elif self.outbox:
            pass  # repeating the last time would go back behind the notes under way; their answer has the clock
        elif registration.has_noted:
            waiting.add(Pending(dict(registration.times), {}, asks=True))
        elif registration.clock is not None:  # from the answer to registering
            self._note_controller_clock(registration.clock)

    def _notes_clock(self, now: float) -> bool:
        return not self._is_idling(now) and (self.phase is Phase.HOLDING or self.registration.wanted)

    def _is_idling(self, now: float) -> bool:
        """Whether there was no write for `idle_after_ms`."""
        due = self._idle_at
        return due is not None and now >= due and not self.clockwork.writing and not self.in_transaction

    @property
    def _idle_at(self) -> float | None:
        return self.clockwork.idle_at if self.phase is Phase.HOLDING else None

    def _is_blocked(self, now: float) -> bool:
        return self.in_transaction or (
            isinstance(self.outbox.put_off, TransactionUnderWay) and now < self.outbox.flush_at
        )

    def _note_clock(self, read: int | Exception | None) -> Exception | None:
        """Notes the application's clock. Returns why it has none."""
        now = self.clockwork.true_time(read)
        if not isinstance(now, int):
            return now
        for key in self.keys or (DEFAULT_KEY,):
            self.outbox.add_clock(key, now)
        return None

    def _note_controller_clock(self, clock: int) -> None:
        """Notes the controller's clock, which was received before the position is read."""
        self.clockwork.written = self.clockwork.writing > 0
        self.outbox.add_clock(DEFAULT_KEY, clock)

    def _catch_up(self, read: int | Exception | None) -> None:
        """Notes the missed clock at once. If it fails, the next automatic note reports it."""
        if self.clockwork.has_own_clock:
            self.clockwork.missed = self._note_clock(read) is not None
        elif self.clockwork.automatic is not None and self.registration.clock is not None:
            self._note_controller_clock(self.registration.clock)
            self.clockwork.missed = False

    def last_times(self, read: Callable[[], int]) -> Mapping[str, int]:
        """Returns the clock's times for a writer that goes idle or closes, and may have noted nothing yet."""
        if self.clockwork.automatic is None or self.failed_write or self.in_transaction:
            return {}
        if self.clockwork.has_own_clock:
            now = reading(read)
            return dict.fromkeys(self.keys or (DEFAULT_KEY,), now) if isinstance(now, int) else {}
        return {DEFAULT_KEY: self.registration.clock} if self.registration.clock is not None else {}

    # -- the next step ---------------------------------------------------------------------------------------------

    def next_of_background(self, now: float) -> Step:
        if self.phase in ENDED or self.phase is Phase.FENCED:
            return Wait()
        outbox, clockwork = self.outbox, self.clockwork
        notes_clock = (
            clockwork.started and self.clockwork.automatic is not None and not (clockwork.leaving or self.draining)
        )
        if notes_clock and now >= clockwork.note_at:
            is_true = self._notes_clock(now) and not self._is_blocked(now)
            return ReadClock(clockwork.has_own_clock and is_true and not clockwork.writing)
        if self.phase is Phase.AWAY and (outbox.fresh or outbox.waiting or self.registration.wanted):
            return Do.HOLD
        if self.phase is Phase.HOLDING:
            if outbox.fresh and not outbox.flushing and not self.failed_write and now >= outbox.flush_at:
                return Do.FLUSH
            if outbox.waiting and not outbox.under_way and not outbox.ready:
                return Do.SEND
        moments = [clockwork.note_at] if notes_clock else []
        if outbox.fresh and now < outbox.flush_at:
            moments.append(outbox.flush_at)
        if clockwork.started and self._idle_at is not None and not clockwork.leaving:
            assert clockwork.idle_after_ms is not None
            if now < self._idle_at:
                moments.append(self._idle_at)
            elif self.failed_write or clockwork.writing or self.in_transaction or outbox.flushing or outbox:
                moments.append(now + min(clockwork.idle_after_ms, TRANSACTION_CHECK_MS) / 1000)
            elif not self.draining:
                if clockwork.written and self.clockwork.automatic is not None:  # time passes what was written last
                    return ReadClock(reads=clockwork.has_own_clock, last=True)
                return Do.REST
        return Wait(min(moments, default=None))

    def next_of_goal(self, goal: Goal) -> Step:
        if self.phase in ENDED and not goal.left:
            return Fail(WriterClosed(writer=self.writer))
        if goal.aim != "register" and self.fenced is not None:
            return Fail(self.fenced)
        if goal.repairs:
            return self._alone(self.owed, {}, {})
        if self._must_register(goal):
            return Do.REGISTER
        is_counted = self.phase is Phase.HOLDING
        if goal.aim in ("register", "hold") or goal.left or (goal.aim == "stay" and (goal.settled or not is_counted)):
            return Do.DONE
        if goal.aim == "close" and self.registration.epoch is None and not self._closes_by_name:
            return Do.DONE
        if goal.end is None:
            return Do.FIND_END
        if not goal.settled and (last := self.final_note(goal)) is not None:
            return last
        if goal.aim == "stay":
            return Do.DONE
        if goal.aim == "close" and self._has_memo:
            return Do.CLEAR_MEMO
        return Do.CLOSE if goal.aim == "close" else Do.IDLE

    def _must_register(self, goal: Goal) -> bool:
        if goal.registered or goal.left:
            return False
        if goal.aim == "register":
            return True
        if self.phase is Phase.HOLDING:
            return False
        if goal.aim == "hold" or self.registration.wanted:  # the block was shorter than registering
            return True
        if goal.aim == "close" and self.clockwork.automatic is not None and not self.has_log:  # it may have written
            return True
        leaves = goal.aim == "idle" or (
            goal.aim == "close" and (self.registration.epoch is not None or self._closes_by_name)
        )
        return leaves and self.has_log and not self.registration.looked


def decide(writer: Machine, now: float) -> Step:
    """Returns the next step of a writer: towards its goal if it has one, which who set it performs; else the
    background's. Changes nothing."""
    return writer.next_of_background(now) if writer.goal is None else writer.next_of_goal(writer.goal)


def _is_final(pending: Pending, error: Exception) -> bool:
    """Whether a note is refused for good. A segment that the log has and the controller does not is new: try again."""
    return isinstance(error, Refused) and not (isinstance(error, UnknownSegment) and pending.from_log)
