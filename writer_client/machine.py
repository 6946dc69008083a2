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

What it remembers of the controller holds as long as its registration: before the next one, another process of its name
may have written, noted or closed, and the store may have been restored or the stream made anew. So each registration
looks at the log again, and forgets what the controller had.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import reduce
from typing import Final, Literal, TypeAlias

from strandline.core.changes import Registered
from strandline.core.note import DEFAULT_KEY, Note, check_key
from strandline.errors import (
    Fenced,
    InvalidConfig,
    OutcomeUnknown,
    PositionWentBack,
    Refused,
    StrandlineError,
    TimeWentBack,
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
from writer_client.errors import WriterClosed
from writer_client.lateness import Lateness, Warn
from writer_client.newest_time import NewestTime
from writer_client.notes import Addressed, Pending, WaitingNotes, merged
from writer_client.reports import NoteRefused, NotesMoving, NotesStuck, Report

TRANSACTION_CHECK_MS: Final = 100  # between looks whether a transaction has ended, or an idle writer's work

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
        self.automatic = automatic
        self.idle_after_ms = idle_after_ms
        self._raises = raises
        self._closes_by_name = closes_by_name
        self.phase = Phase.AWAY
        self.goal: Goal | None = None
        self.news: list[News] = []
        self.late = Lateness(stream, writer, self.news)
        # the registration
        self.wants_registration = False  # since its block was entered
        self.registration: str | None = None  # the name of one whose outcome is unknown
        self.epoch: int | None = None
        self.floors: Mapping[str, int | None] = {}
        self.clock: int | None = None  # the controller's, as of its last answer
        self.fenced: Fenced | None = None
        self.repaired: NoteAnswer | StrandlineError | None = None
        self._life = ""  # of the name
        self._looked = False  # whether the log was looked at since
        self._found: Position = {}  # where it ended then
        self._shares = False  # whether it had events of other processes then
        # what the controller has
        self.times: dict[str, int] = {}
        self.may_have_noted: Mapping[str, int] = {}  # the greatest times that it may have taken
        self.noted_since = False  # whether it has taken a note since the registration
        self._position: dict[str, int] = {}  # since the registration
        self._given: dict[str, int] = {}  # without a log: all that was ever noted
        # what is owed to it
        self.last: dict[str, int] = {}  # the last noted times, answered or not
        self.last_position: dict[str, int] = {}  # the last positions that the caller gave
        self._fresh: dict[str, int] = {}
        self._fresh_newest: Mapping[str, int] = {}
        self._fresh_sent = 0  # events sent when they were noted
        self._flushing = False
        self._unpositioned: Pending | None = None  # gets its position from the flush under way
        self._flush_sent = 0  # events sent when that flush began, or, with `newest`, when it was noted
        self.waiting = WaitingNotes()
        self._ready = False  # to be sent with the next batch
        self.under_way: list[Pending] = []
        self._may_be_done: Pending | None = None  # since an answer was lost: the greatest times and positions sent
        self.owed: Mapping[str, int] = {}  # times of commits that are not noted yet
        self._has_memo = False  # whether the log has a memo of this name
        self._own_memo = ""  # the last one of this process, whose times are noted without the log
        # what keeps notes back
        self.stuck: Exception | None = None
        self.failed_write = False
        self.put_off: Exception | None = None  # why the last flush gave no position: usually an open transaction
        self._flush_at = 0.0  # the next one is not before this time
        self.refused: Exception | None = None
        self.refusals = 0
        self.unreported: Exception | None = None  # a refusal that no call has raised yet
        self.draining = 0  # callers that wait until all notes are answered
        # what it does by itself
        self.in_transaction = False  # as the log said last
        self.newest = NewestTime()
        self._started = self._leaving = False
        self._note_at = self._repeat_at = 0.0
        self._active_at = 0.0  # the last write or manual note
        self.writing = 0
        self._before_write: int | Exception = 0  # the clock when the write under way began
        self._written = False  # or registered, since the clock was noted last
        self._missed = False  # the clock was not noted because a transaction was open

    # -- what it has to do -----------------------------------------------------------------------------------------

    def count(self) -> int:
        """How many notes are not answered."""
        without_position = int(bool(self._fresh)) + int(self._unpositioned is not None)
        return without_position + len(self.waiting) + len(self.under_way)

    @property
    def is_unsettled(self) -> bool:
        """Whether there are unanswered notes, or a refusal that was not reported yet."""
        return self.phase is not Phase.RELEASED and (self.unreported is not None or self.count() > 0)

    @property
    def is_busy(self) -> bool:
        """Whether there may be something to do for the background."""
        return self.phase not in ENDED and (self._started or self.wants_registration or self.count() > 0)

    def is_quiet(self, *, drain: bool) -> bool:
        """Whether a goal can begin: nothing is under way, and with `drain` all notes are answered."""
        if self.goal is not None or self._flushing or self.under_way:
            return False
        return not drain or self.failed_write or not (self._fresh or self.waiting)

    def unattended(self) -> int:
        """How many unanswered notes nobody waits for."""
        return self.count() - sum(bool(each.awaited) for each in [*self.waiting, *self.under_way])

    def has_taken(self, wanted: Mapping[str, int]) -> bool:
        """Whether the controller has taken these times, or later ones."""
        return bool(wanted) and all(self.times.get(key, time - 1) >= time for key, time in wanted.items())

    @property
    def passed(self) -> Mapping[str, int]:
        """By key, the time below which this writer has no more events: its last note, or its floor on registering."""
        return _greatest(self._known_floors, self.times)

    @property
    def _known_floors(self) -> Mapping[str, int]:
        return {key: floor for key, floor in self.floors.items() if floor is not None}

    def begin(self, step: Step) -> None:
        """Records that a step is under way."""
        match step:
            case Do.HOLD | Do.REST:
                self.goal = Goal("hold" if step is Do.HOLD else "idle", own=True)
            case Do.FLUSH:
                self._flushing, self.put_off = True, None
            case Do.SEND:
                self._ready = True
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
        self.late.registered(answer, first=self.epoch is None)
        self.clock, self.epoch, self.floors, self._life = clock, answer.epoch, answer.floors, answer.life
        self.registration, self.fenced = None, None
        self._enter(Phase.AWAY)
        self._looked, self._position, self.noted_since = False, {}, False

    def looked(self, memo: str | None, ends: Position, own: Position) -> None:
        """The log ended at `ends`, and `own` is what this process has appended. `memo`, of the last commit, was read
        before. All that processes of this name appended, noted or not, lies below that end."""
        assert self.goal is not None
        if self.has_log:
            self._found = {segment: offset for segment, offset in ends.items() if offset}
            self._shares = self._shares or any(offset > own.get(segment, 0) for segment, offset in self._found.items())
            self._has_memo = bool(memo)
            if memo and memo != self._own_memo:
                self.owed = _greatest(self.owed, self._times_in(memo))
            self._looked = True
        self.goal.registered = True
        floors = self._known_floors
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
        self.floors = {**self.floors, **owed}
        self.late.raise_floors(owed)
        self._hold()

    def _hold(self) -> None:
        self.wants_registration, self._written = False, True  # the clock is noted once before it goes idle
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
        self.goal.left, self.wants_registration = True, False
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
        self.active(now)
        if error is None:
            self._set_moving()
        elif goal.aim == "hold" and isinstance(error, Refused):
            self.wants_registration = False
            self._refuse(dict(self.last), error)
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
        position = self.reached({**self._given, **(goal.end or {})})
        if not self.owed and all(offset <= self._position.get(name, 0) for name, offset in position.items()):
            return None
        times = self.with_owed(_greatest(self._known_floors, self.may_have_noted)) or goal.fallback
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
        self.news += [Reply(each.awaited, error) for each in [*self.waiting, *self.under_way] if each.awaited]

    # -- notes -----------------------------------------------------------------------------------------------------

    def note_of(self, times: Mapping[str, int], position: Mapping[str, int], newest: Mapping[str, int]) -> Addressed:
        """A note of these times. Its position also covers what the log had at the registration, of which the caller may
        not know; `newest` holds below the caller's position only."""
        if self._found and self.reached(position) != position:
            position, newest = self.reached(position), {}
        note = Note(writer=self.writer, times=times, position=position, epoch=self.epoch, newest=newest)
        return Addressed(self.stream, note)

    def reached(self, own: Mapping[str, int]) -> Position:
        """Returns a position above all events that processes of this writer's name have appended."""
        return {**own, **{segment: max(own.get(segment, 0), offset) for segment, offset in self._found.items()}}

    def known(self, own: Position, given: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the greatest event times below a position: from the caller, or as given with the writes. Empty if
        unknown, as with events of other processes."""
        known = {} if self._shares else given or self.newest.below(own)
        if not known and (given or self.newest.greatest):
            self.late.newest_unknown()
        return known

    def add_note(self, times: Mapping[str, int], newest: Mapping[str, int], sent: int) -> None:
        """Notes times at the position that the next flush of the log returns; `newest` covers the events sent by
        now."""
        self.last.update(times)
        self._fresh.update(times)
        self._fresh_newest, self._fresh_sent = newest, sent

    def add_note_at(
        self,
        times: Mapping[str, int],
        position: Mapping[str, int],
        newest: Mapping[str, int],
        awaited: tuple[Future[NoteAnswer], ...] = (),
    ) -> None:
        """Notes times at a position from the caller. They replace times of the same keys that wait for a flush."""
        self.last.update(times)
        self.last_position.update(position)
        self._fresh = {key: time for key, time in self._fresh.items() if key not in times}
        if self._unpositioned is not None:
            left = {key: time for key, time in self._unpositioned.times.items() if key not in times}
            self._unpositioned = replace(self._unpositioned, times=left)
        self.waiting.add(Pending(dict(times), dict(position), dict(newest), awaited=awaited))

    def flush_begins(self, sent: int) -> None:
        """Assigns all fresh times to the flush that begins now; so many events are sent."""
        self._unpositioned = Pending(self._fresh, {}, self._fresh_newest, from_log=True)
        self._flush_sent = self._fresh_sent if self._fresh_newest else sent
        self._fresh, self._fresh_newest = {}, {}

    def flushed(self, own: Position | None, error: Exception | None, sent: int, now: float) -> None:
        """The outcome of a flush; so many events are sent now."""
        pending, self._unpositioned, self._flushing = self._unpositioned, None, False
        assert pending is not None
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
            self._fresh = {**pending.times, **self._fresh}
            return
        times = pending.times
        if self.automatic is not None:
            floors = self._known_floors
            if self.automatic.oldest is None:  # a clock that is behind the floor would be late
                times = {key: time for key, time in times.items() if time >= floors.get(key, time)}
            else:  # what is held back below the floor is late, and time waits for the rest
                times = {key: max(time, floors.get(key, time)) for key, time in times.items()}
        if times:
            newest: Mapping[str, int] = {}
            if self._flush_sent == sent:  # else more events may lie below the position
                newest = self.known(own, pending.newest)
            self.waiting.add(replace(pending, times=times, position=own, newest=newest))

    def _put_off(self, error: Exception, now: float) -> None:
        self.put_off, self._flush_at = error, now + TRANSACTION_CHECK_MS / 1000

    def take(self) -> list[tuple[Pending, Addressed]]:
        """Takes all waiting notes; they are under way then."""
        self._ready = False
        if self.phase is not Phase.HOLDING or self.goal is not None or self.under_way:
            return []
        notes = self.waiting.take()
        if any(each.awaited for each in notes):
            # It is sent again within one call: a repeated note must not be behind another one of the same call.
            notes = [reduce(merged, notes)]
        self.under_way = notes
        return [(each, self.note_of(each.times, each.position, each.newest)) for each in notes]

    def keep(self, count: int) -> None:
        """Puts back the last notes, which did not fit into the batch."""
        if count:
            at = len(self.under_way) - count
            self.waiting.put_back(self.under_way[at:])
            del self.under_way[at:]

    def answered(self, answers: Sequence[Answered], clock: int | None) -> bool:
        """The answers to notes. Returns whether any must be sent again after a pause."""
        self.under_way = []
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
                if (left := self._rest_of(pending, result)) is not None:
                    again += left
                    continue
                if not _is_final(pending, result):
                    self._set_stuck(result)
                    stuck = True
                    again.append(pending if says_nothing_changed(result) else self._may_be_taken(pending))
                    continue
            if isinstance(result, StrandlineError):
                self._not_taken(note, result)
            if pending.awaited:
                self._reset_last()
                self.news.append(Reply(pending.awaited, result))
            else:
                self._refuse(pending.times, result)
            if isinstance(result, Fenced):
                self._fence(result)
                return False
        self.waiting.put_back(again)
        return stuck and bool(again)

    def _taken(self, pending: Pending, note: Note, answer: NoteAnswer, clock: int | None) -> None:
        passed = self.passed
        self.noted_since = True
        self.times.update(note.times)
        self.may_have_noted = _greatest(self.may_have_noted, note.times)
        self._position.update(note.position)
        if not self.has_log:
            self._given.update(note.position)
        self.owed = {key: time for key, time in self.owed.items() if time > note.times.get(key, time - 1)}
        if self._may_be_done is not None:  # a note that is repeated may be behind this one now
            self._may_be_done = merged(self._may_be_done, pending)
        self.clock, self.refused = clock, None
        self._set_moving()
        if not pending.asks:
            self.late.answered(pending.times, answer, passed)
        elif self.in_transaction:
            self._missed = True
        elif clock is not None:
            self._note_controller_clock(clock)

    def _not_taken(self, note: Note, error: StrandlineError) -> None:
        """A note that failed counts as possibly taken unless the error denies it."""
        if not says_nothing_changed(error):
            self.may_have_noted = _greatest(self.may_have_noted, note.times)
        self.late.refused(error)
        if isinstance(error, Refused):
            self.owed = {key: time for key, time in self.owed.items() if time != note.times.get(key)}

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

    def _fence(self, error: Fenced) -> None:
        """Another process has the name: nothing that waits can be noted any more."""
        self.fenced = error
        self._enter(Phase.FENCED)
        self._drop_all(error)

    def _drop_all(self, error: Exception) -> None:
        self.news += [Reply(each.awaited, error) for each in self.waiting.take() if each.awaited]
        self._fresh = {}
        self.last = dict(self.times)

    def _refuse(self, times: Mapping[str, int], error: Exception) -> None:
        self.refused = error
        self.refusals += 1
        if self._raises:
            self.unreported = error
        self.news.append(NoteRefused(times, error))
        self._reset_last()

    def _reset_last(self) -> None:
        """Lets the next note go back behind a time that was never taken."""
        self.last = dict(self.may_have_noted)
        for pending in self.waiting:
            self.last.update(pending.times)
        self.last.update(self._unpositioned.times if self._unpositioned is not None else {})
        self.last.update(self._fresh)
        self.last_position = {}
        for pending in self.waiting:
            self.last_position.update(pending.position)

    def hold_back(self, error: Exception) -> None:
        """A write has failed: notes are held back."""
        self.newest.lost()
        self._fresh_newest = {}  # the log may have newer events than the caller had
        if self._unpositioned is not None:
            self._unpositioned = replace(self._unpositioned, newest={})
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
        text = json.dumps({"life": self._life, "times": dict(times)}, separators=(",", ":"))
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
            times: Mapping[str, int] = kept["times"] if kept["life"] == self._life else {}
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
        return _greatest(self.owed, times)

    def beyond_the_clock(self, times: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the times of a commit that are later than the noted clock."""
        if self.automatic is not None and self.automatic.domain == "ingestion" and self.clock is not None:
            times = {key: min(time, self.clock) for key, time in times.items()}  # it was read before the position
        return {key: time for key, time in times.items() if time > self.last.get(key, time - 1)}

    def repeat(self, times: Mapping[str, int], sent: int) -> None:
        """Notes the times of a commit whose own note was not taken."""
        self.add_note({key: max(time, self.last.get(key, time)) for key, time in times.items()}, {}, sent)

    def wrote(self, written: NewestTime, noted: Mapping[str, int]) -> None:
        """Events were appended, after these times were noted."""
        self.newest.add_all(written)
        self.late.wrote(written.appended, written.greatest, noted)

    def transaction_ended(self, times: Mapping[str, int], sent: int, read: Callable[[], int]) -> None:
        """A transaction has ended: notes its time after all earlier notes, and the clock, which `read` reads, if that
        was missed: by the next period another transaction may be open."""
        self._written = True
        if times:
            self.add_note(times, {}, sent)
        self.put_off, self._flush_at = None, 0.0
        counts = self.phase is Phase.HOLDING or (self.phase is Phase.AWAY and self.wants_registration)
        if self._missed and counts and not self.in_transaction:
            self._catch_up(_reading(read) if self._has_own_clock else None)

    # -- the clock, and going idle ---------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Automatic work begins."""
        self._started, self._note_at = True, now
        self.active(now)

    def stop(self) -> Mapping[str, int]:
        """Automatic work ends. Returns the times that are to be answered."""
        self._leaving = True
        return dict(self.last)

    @property
    def clock_due(self) -> float:
        """When the clock is to be noted next."""
        return self._note_at if self._started else math.inf

    def active(self, now: float) -> None:
        """The writer writes or notes manually: the wait for going idle begins."""
        self._active_at = now

    @property
    def _has_own_clock(self) -> bool:
        return self.automatic is not None and self.automatic.domain == "event"

    def write_begins(self, now: float, read: Callable[[], int]) -> bool:
        """A write, or the registration before it, begins: the writer does not go idle before its end. `read` reads the
        clock. Returns whether it holds time, and need not register first."""
        self.active(now)
        if not self.writing and self._has_own_clock:
            self._before_write = _reading(read)  # if it fails, the next automatic note reports it
        self.writing += 1
        return self.phase is Phase.HOLDING and self.goal is None

    def write_ended(self, now: float) -> None:
        self.writing -= 1
        self._written = True
        self.active(now)

    def clock_before_begin(self, read: Callable[[], int]) -> None:
        """A writer without a note notes the clock before its transaction begins, which stays true meanwhile."""
        if self._has_own_clock and not self.last:
            self._note_clock(_reading(read))  # if it fails, the next automatic note reports it

    def clock_read(self, step: ReadClock, read: Callable[[], int], now: float) -> None:
        """Notes the clock, if it is true now: `read` reads the application's."""
        automatic = self.automatic
        assert automatic is not None
        reading = _reading(read) if step.reads else None
        if step.last:
            self._written = False
            self._catch_up(reading)
            return
        period_s = automatic.period_ms / 1000
        self._note_at += period_s
        if self._note_at <= now:  # it is behind
            self._note_at = now + period_s
        if not self._notes_clock(now):
            return
        if self._is_blocked(now):  # no later time is true yet; the writer must not be silent
            self._missed = True
            self._note_at = now + min(period_s, TRANSACTION_CHECK_MS / 1000)  # it may end without the writer
            if now >= self._repeat_at and self.noted_since and not (self.waiting or self.under_way):
                self._repeat_at = now + period_s
                self.waiting.add(Pending(dict(self.times), {}))
            return
        self._missed = False
        if automatic.domain == "event":
            failure = self._note_clock(reading)
            if failure is not None and failure is not NOT_READ:  # the next period tries again
                self._set_stuck(failure)
        elif self.count():
            pass  # repeating the last time would go back behind the notes under way; their answer has the clock
        elif self.noted_since:
            self.waiting.add(Pending(dict(self.times), {}, asks=True))
        elif self.clock is not None:  # from the answer to registering
            self._note_controller_clock(self.clock)

    def _notes_clock(self, now: float) -> bool:
        return not self._is_idling(now) and (self.phase is Phase.HOLDING or self.wants_registration)

    def _is_idling(self, now: float) -> bool:
        """Whether there was no write for `idle_after_ms`."""
        due = self._idle_at
        return due is not None and now >= due and not self.writing and not self.in_transaction

    @property
    def _idle_at(self) -> float | None:
        if self.idle_after_ms is None or self.phase is not Phase.HOLDING:
            return None
        return self._active_at + self.idle_after_ms / 1000

    def _is_blocked(self, now: float) -> bool:
        return self.in_transaction or (isinstance(self.put_off, TransactionUnderWay) and now < self._flush_at)

    def _note_clock(self, reading: int | Exception | None) -> Exception | None:
        """Notes the application's clock. While a write is under way, notes the clock at its beginning: by now it may be
        too late for the events of the write. Returns why it has none."""
        now = self._before_write if self.writing else reading
        if not isinstance(now, int):
            return now
        self._written = self.writing > 0
        for key in self.keys or (DEFAULT_KEY,):
            self._fresh[key] = self.last[key] = max(now, self.last.get(key, now))
        return None

    def _note_controller_clock(self, clock: int) -> None:
        """Notes the controller's clock, which was received before the position is read."""
        self._written = self.writing > 0
        self._fresh[DEFAULT_KEY] = self.last[DEFAULT_KEY] = max(clock, self.last.get(DEFAULT_KEY, clock))

    def _catch_up(self, reading: int | Exception | None) -> None:
        """Notes the missed clock at once. If it fails, the next automatic note reports it."""
        if self._has_own_clock:
            self._missed = self._note_clock(reading) is not None
        elif self.automatic is not None and self.clock is not None:
            self._note_controller_clock(self.clock)
            self._missed = False

    def last_times(self, read: Callable[[], int]) -> Mapping[str, int]:
        """Returns the clock's times for a writer that goes idle or closes, and may have noted nothing yet."""
        if self.automatic is None or self.failed_write or self.in_transaction:
            return {}
        if self._has_own_clock:
            reading = _reading(read)
            return dict.fromkeys(self.keys or (DEFAULT_KEY,), reading) if isinstance(reading, int) else {}
        return {DEFAULT_KEY: self.clock} if self.clock is not None else {}

    # -- the next step ---------------------------------------------------------------------------------------------

    def next_of_background(self, now: float) -> Step:
        if self.phase in ENDED or self.phase is Phase.FENCED:
            return Wait()
        notes_clock = self._started and self.automatic is not None and not (self._leaving or self.draining)
        if notes_clock and now >= self._note_at:
            reads = self._has_own_clock and self._notes_clock(now) and not self._is_blocked(now) and not self.writing
            return ReadClock(reads)
        if self.phase is Phase.AWAY and (self._fresh or self.waiting or self.wants_registration):
            return Do.HOLD
        if self.phase is Phase.HOLDING:
            if self._fresh and not self._flushing and not self.failed_write and now >= self._flush_at:
                return Do.FLUSH
            if self.waiting and not self.under_way and not self._ready:
                return Do.SEND
        moments = [self._note_at] if notes_clock else []
        if self._fresh and now < self._flush_at:
            moments.append(self._flush_at)
        if self._started and self._idle_at is not None and not self._leaving:
            assert self.idle_after_ms is not None
            if now < self._idle_at:
                moments.append(self._idle_at)
            elif self.failed_write or self.writing or self.in_transaction or self._flushing or self.count():
                moments.append(now + min(self.idle_after_ms, TRANSACTION_CHECK_MS) / 1000)
            elif not self.draining:
                if self._written and self.automatic is not None:  # time passes what was written last
                    return ReadClock(reads=self._has_own_clock, last=True)
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
        if goal.aim == "close" and self.epoch is None and not self._closes_by_name:
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
        if goal.aim == "hold" or self.wants_registration:  # the block was shorter than registering
            return True
        if goal.aim == "close" and self.automatic is not None and not self.has_log:  # it may have written
            return True
        leaves = goal.aim == "idle" or (goal.aim == "close" and (self.epoch is not None or self._closes_by_name))
        return leaves and self.has_log and not self._looked


def decide(writer: Machine, now: float) -> Step:
    """Returns the next step of a writer: towards its goal if it has one, which who set it performs; else the
    background's. Changes nothing."""
    return writer.next_of_background(now) if writer.goal is None else writer.next_of_goal(writer.goal)


def _greatest(times: Mapping[str, int], others: Mapping[str, int]) -> Mapping[str, int]:
    return {**times, **{key: max(time, times.get(key, time)) for key, time in others.items()}}


def _reading(read: Callable[[], int]) -> int | Exception:
    try:
        return read()
    except Exception as error:  # of the application's clock
        return error


def _is_final(pending: Pending, error: Exception) -> bool:
    """Whether a note is refused for good. A segment that the log has and the controller does not is new: try again."""
    return isinstance(error, Refused) and not (isinstance(error, UnknownSegment) and pending.from_log)
