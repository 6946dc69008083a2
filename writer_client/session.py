"""The jobs of a writer, as generators of steps that the sync and the async writers run (`loop.py`).

job yields                   the writer
  Remote(call)               makes the call over its connection
  Addressed(stream, note)    sends the note, possibly with others
  Local(work)                calls the log, which may wait (the async writer: in another thread)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, TypeAlias, TypeVar
from weakref import WeakSet

from strandline.client import calls
from strandline.client.calls import Call, Clocked, clocked
from strandline.client.loop import Local, Remote, local, remote
from strandline.core.changes import Registered
from strandline.core.note import DEFAULT_KEY, Note, check_key
from strandline.core.time_units import Instant, milliseconds
from strandline.errors import Fenced, InvalidConfig, Refused, StrandlineError, TimeWentBack, says_nothing_changed
from strandline.logs import Event, Log, Memo, Position, Transaction, events_of
from strandline.logs.errors import TransactionUnderWay
from strandline.names import check_name
from strandline.wire.streams import NoteAnswer
from writer_client.automatic_notes import AutomaticTime, GivenPositions, PositionSource
from writer_client.batches import Addressed, Results, call_for
from writer_client.errors import CommittedWithoutNote, NeverNoted, NoLog, WriterClosed
from writer_client.lateness import Lateness
from writer_client.limits import REGISTRATION_BYTES
from writer_client.newest_time import NewestTime

Value = TypeVar("Value")
Times: TypeAlias = Instant | Mapping[str, Instant]  # a time, or times by key


@dataclass(eq=False, slots=True, weakref_slot=True)
class Begun:
    """An open transaction, and the events written in it so far."""

    transaction: Transaction
    written: NewestTime = field(default_factory=NewestTime)


Step: TypeAlias = Remote | Addressed | Local
Job: TypeAlias = Generator[Step, Any, Value]


def checked_log(log: Log | None) -> Log | None:
    """The log. Raises InvalidConfig for what is none, such as the path of one."""
    if log is not None and not hasattr(log, "append"):
        wanted = 'a log that is open, as SqliteLog("orders.log") or KafkaLog.connect("127.0.0.1:9092", "orders")'
        raise InvalidConfig(name="log", value=str(log)[:80], wanted=wanted)
    if log is not None and not callable(getattr(log, "in_transaction", None)):
        wanted = "a log whose in_transaction() says whether a transaction is open, see strandline.logs.Log"
        raise InvalidConfig(name="log", value=type(log).__name__, wanted=wanted)
    return log


class WriterSession:
    """One writer of one stream. Its jobs run one after the other, since notes that overtake each other are refused."""

    def __init__(
        self, stream: str, writer: str, keys: Iterable[str], log: Log | None, automatic: AutomaticTime | None = None
    ) -> None:
        self.stream = check_name("stream", stream)
        self.writer = check_name("writer", writer)
        self.keys = tuple(check_key(key) for key in keys)
        self.log = checked_log(log)
        self.positions: PositionSource | None = log  # the source of its positions
        if automatic is not None and automatic.position is not None:
            self.positions = GivenPositions(automatic.position)
        self.closed = False
        self.epoch: int | None = None
        self.floors: Mapping[str, int | None] = {}
        self.clock: int | None = None
        self.newest = NewestTime()
        self.holds = False  # certainly registered, and certainly not idle or closed since
        self.late = Lateness(stream, writer)
        self.repaired: NoteAnswer | StrandlineError | None = None
        self._fenced: Fenced | None = None
        self._found: Position | None = None  # where the log ended when this writer first registered
        self._owed: Mapping[str, int] = {}  # times of commits that are not noted yet
        self._left_memo = False  # the log has a memo of this session
        self._times: dict[str, int] = {}
        self._may_have_noted: Mapping[str, int] = {}  # the greatest times that the controller may have taken
        self._position: dict[str, int] = {}
        self._registration: str | None = None  # the name of a registration whose outcome is unknown
        self._open: WeakSet[Begun] = WeakSet()  # a transaction without a reference can no longer be committed

    # -- jobs --------------------------------------------------------------------------------------------------

    def register(self) -> Job[Registered]:
        self._check_open()
        if self._registration is None:
            self._registration = token_hex(REGISTRATION_BYTES)
        call = calls.register(self.stream, self.writer, self.keys, self._registration)
        registered = yield from self._changing(self._clocked(call))
        self.late.registered(registered, first=self.epoch is None)
        self.epoch, self.floors, self._registration = registered.epoch, registered.floors, None
        self._fenced = None
        if self.log is not None and self._found is None:
            # All that an earlier process of this name appended, noted or not, lies below the log's current end.
            log = self.log
            ends = yield from local(log.end_offsets)
            memo = yield from local(lambda: log.memo(self.writer))
            self._found = {segment: offset for segment, offset in ends.items() if offset}
            yield from self._repair(memo)
        self.holds = True
        return registered

    def write(self, events: Iterable[Event], newest: Times | None) -> Job[Position]:
        log = self.bound_log("write()")
        rows = events_of(events)
        yield from self.hold()
        position = yield from self._counted(lambda: log.append(rows))
        self.wrote(len(rows), by_key(newest, newest=True), self._times)
        return position

    def note_time(self, time: Times, position: Mapping[str, int] | None, newest: Times | None) -> Job[NoteAnswer]:
        if position is None:
            self.bound_log("note_time()")
        self.check_no_transaction("note_time()")
        yield from self.hold()
        times, known = by_key(time), by_key(newest, newest=True)
        if position is None:
            own = yield from self._flush()
            position, known = self.reached(own), self.known(own, known)
        return (yield from self._note(self._with_owed(times), position, known))

    def begin(self) -> Job[Begun]:
        log = self.bound_log("begin()")
        yield from self.hold()
        return self.opened((yield from local(log.begin)))

    def commit(self, begun: Begun, time: Times | None) -> Job[NoteAnswer | None]:
        """Commits, and then notes the time, if there is one. The log keeps the time with the commit: if this process
        ends in between, the next one notes it."""
        yield from self.hold()  # it may have gone idle since the transaction began
        times = by_key(time)
        if not times:
            yield from local(begun.transaction.commit)
            self.ended(begun)
            return None
        self.check_commit(begun, times)
        memo = self.memo_of(times)
        yield from local(lambda: begun.transaction.commit(memo))
        self.ended(begun)
        return (yield from self.note_commit(times))

    def check_commit(self, begun: Begun, times: Mapping[str, int], *, may_be_passed: bool = False) -> None:
        """Raises, before the commit, the errors for which its note would be refused."""
        self.check_no_transaction("commit() with a time", besides=begun)
        if not may_be_passed:
            self._check_times(times)
        Note(writer=self.writer, times=times, position={}, epoch=self.epoch)

    def note_commit(self, times: Mapping[str, int]) -> Job[NoteAnswer]:
        """Notes the time of a commit that is done. Raises CommittedWithoutNote."""
        self._owed = self._with_owed(times)
        try:
            own = yield from self._flush()  # writes outside the transaction may be under way
            return (yield from self._note(self._owed, self.reached(own), self.known(own, {})))
        except StrandlineError as error:
            refused = isinstance(error, Refused)
            raise CommittedWithoutNote(writer=self.writer, reason=str(error), refused=refused) from error

    def idle(self, position: Mapping[str, int] | None, said: Mapping[str, int] | None = None) -> Job[None]:
        """Goes idle. `said` are the times to note if none was noted yet."""
        self.check_usable()
        yield from self._settle(position, said, "idle()")
        yield from self._changing(self._guarded(remote(calls.idle(self.stream, self.writer, self.epoch))))

    def close(self, position: Mapping[str, int] | None, said: Mapping[str, int] | None = None) -> Job[None]:
        self.check_usable()
        yield from self._settle(position, said, "close()")
        if self._left_memo and self.log is not None:
            # The next writer of this name must not note this memo's time.
            log, memo = self.log, Memo(self.writer, "")
            transaction = yield from local(log.begin)
            yield from local(lambda: transaction.commit(memo))
        yield from self._changing(self._guarded(remote(calls.close(self.stream, self.writer, self.epoch))))
        self.closed = True

    def stay(self, position: Mapping[str, int] | None, said: Mapping[str, int] | None = None) -> Job[None]:
        """Notes the final position, as `idle` does, of a writer that goes on counting without this process."""
        self.check_usable()
        if self.holds:
            with suppress(NeverNoted):  # it counts with its floor, which covers whatever it wrote
                yield from self._settle(position, said, "leaving")

    # -- transactions ------------------------------------------------------------------------------------------

    def opened(self, transaction: Transaction) -> Begun:
        """Records an open transaction."""
        begun = Begun(transaction)
        self._open.add(begun)
        return begun

    def ended(self, begun: Begun, *, committed: bool = True) -> None:
        """Records the end of a transaction."""
        self._open.discard(begun)
        if committed:
            self.newest.add_all(begun.written)
            self.late.wrote(begun.written.appended, begun.written.greatest, self._times)

    @property
    def in_transaction(self) -> bool:
        """Whether the log says that a transaction is open, whoever began it, or the end of one of this writer's is not
        recorded yet. No position covers its events, so the clock is not noted until it ends."""
        return len(self._open) > 0 or (self.log is not None and self.log.in_transaction())

    def check_no_transaction(self, call: str, besides: Begun | None = None) -> None:
        """Raises TransactionUnderWay if a transaction is open, other than `besides`, which is about to be committed."""
        if self.log is not None and self.log.in_transaction(besides.transaction if besides is not None else None):
            raise TransactionUnderWay(call=call)

    # -- parts of them -----------------------------------------------------------------------------------------

    def hold(self) -> Job[None]:
        """Registers a new or idle writer. Raises Fenced for a fenced one."""
        self.check_usable()
        if not self.holds:
            yield from self.register()

    def note_of(self, times: Mapping[str, int], position: Mapping[str, int], newest: Mapping[str, int]) -> Addressed:
        note = Note(writer=self.writer, times=times, position=position, epoch=self.epoch, newest=newest)
        return Addressed(self.stream, note)

    def memo_of(self, times: Mapping[str, int]) -> Memo:
        """Returns the memo for a commit, from which the writer's next process notes the time if this one cannot."""
        self._left_memo = True
        return Memo(self.writer, json.dumps({"times": dict(times)}, separators=(",", ":")))

    @property
    def fenced(self) -> Fenced | None:
        """The error if another process has registered the writer's name, else None."""
        return self._fenced

    @property
    def times(self) -> Mapping[str, int]:
        """The times that the controller has taken, by key."""
        return self._times

    @property
    def passed(self) -> Mapping[str, int]:
        """By key, the time below which this writer has no more events: its last note, or its floor on registering."""
        floors = {key: floor for key, floor in self.floors.items() if floor is not None}
        return _greatest(floors, self._times)

    def wrote(self, count: int, newest: Mapping[str, int], noted: Mapping[str, int]) -> None:
        """Records appended events, with the greatest event times among them and the times noted before."""
        self.newest.add(count, newest)
        if newest:
            self.late.wrote(count, newest, noted)

    def noted(self, note: Note) -> None:
        """Records that the controller has taken a note."""
        self._times.update(note.times)
        self._may_have_noted = _greatest(self._may_have_noted, note.times)
        self._position.update(note.position)
        self._owed = {key: time for key, time in self._owed.items() if time > note.times.get(key, time - 1)}

    def refused(self, note: Note, error: StrandlineError) -> None:
        """Records that the controller has not taken a note."""
        if isinstance(error, Fenced):
            self._fenced = error
        if isinstance(error, Refused):
            self._owed = {key: time for key, time in self._owed.items() if time != note.times.get(key)}

    def reached(self, own: Position) -> Position:
        """Returns a position above all events that processes of this writer's name have appended."""
        found = self._found if self._found is not None else {}
        return {segment: max(own.get(segment, 0), found.get(segment, 0)) for segment in found | own}

    def known(self, own: Position, said: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the greatest event times below a position: from the caller, or as given with the writes. Empty if
        unknown, as with events that were in the log before this writer."""
        if self._found:
            return {}
        return said or self.newest.below(own)

    def _note(
        self, times: Mapping[str, int], position: Mapping[str, int], newest: Mapping[str, int]
    ) -> Job[NoteAnswer]:
        addressed = self.note_of(times, position, newest)
        try:
            answer = yield from self._sending(addressed)
        except StrandlineError as error:
            self.refused(addressed.note, error)
            raise
        self.clock = answer.clock
        self.late.answered(times, answer.value, self.passed)
        self.noted(addressed.note)
        return answer.value

    def _sending(self, addressed: Addressed) -> Job[Clocked[NoteAnswer]]:
        """Sends a note. It counts as possibly taken unless the answer denies it."""
        before, self._may_have_noted = self._may_have_noted, _greatest(self._may_have_noted, addressed.note.times)
        try:
            return (yield from _noting(addressed))
        except StrandlineError as error:
            if says_nothing_changed(error):
                self._may_have_noted = before
            raise

    def sending(self, batch: Sequence[Addressed]) -> Job[Clocked[Results]]:
        """Sends notes that fit into one request, oldest first."""
        if len(batch) == 1:
            answer = yield from self._sending(batch[0])
            return Clocked((answer.value,), answer.clock)
        before = self._may_have_noted
        for each in batch:
            self._may_have_noted = _greatest(self._may_have_noted, each.note.times)
        try:
            answers = yield from remote(call_for(batch))
        except StrandlineError as error:
            if says_nothing_changed(error):
                self._may_have_noted = before
            raise
        self._may_have_noted = before
        for each, result in zip(batch, answers.value, strict=True):
            if isinstance(result, NoteAnswer) or not says_nothing_changed(result):
                self._may_have_noted = _greatest(self._may_have_noted, each.note.times)
        return answers

    def _repair(self, memo: str | None) -> Job[None]:
        """Notes the times that an earlier process committed but did not note. Keeps the outcome in `repaired`, and
        raises no refusal."""
        times = json.loads(memo)["times"] if memo else {}
        for key, time in times.items():
            floor = self.floors.get(key)
            if floor is None or time > floor:
                self._owed = {**self._owed, key: time}
        if self._owed:
            try:
                self.repaired = yield from self._note(self._owed, self.reached({}), {})
            except StrandlineError as error:
                self.repaired = error

    def _settle(self, position: Mapping[str, int] | None, said: Mapping[str, int] | None, call: str) -> Job[None]:
        """Notes the final position before `idle` or `close`, if the last note does not cover it.

        Nothing older follows, so any time is true: the last one that may have been noted, or the floor, or the clock's
        (`said`). Without any, raises NeverNoted for a writer that has written.
        """
        wrote = bool(position)
        known: Mapping[str, int] = {}
        times: Mapping[str, int]
        if position is None and self.positions is not None:
            own = yield from self._flush()
            position, known, wrote = self.reached(own), self.known(own, {}), bool(own)
        covered = all(offset <= self._position.get(name, 0) for name, offset in (position or {}).items())
        if covered and not self._owed:
            return
        floors = {key: floor for key, floor in self.floors.items() if floor is not None}
        times = self._with_owed(_greatest(floors, self._may_have_noted)) or said or {}
        if times:
            yield from self._note(times, position or {}, known)
        elif wrote:
            raise NeverNoted(writer=self.writer, call=call)

    def _flush(self) -> Job[Position]:
        assert self.positions is not None
        return (yield from self._counted(self.positions.flush))

    def _counted(self, work: Callable[[], Value]) -> Job[Value]:
        """Runs work of the log. If it fails, `newest` is unknown from then on."""
        try:
            return (yield from local(work))
        except BaseException:
            self.newest.lost()
            raise

    def _with_owed(self, times: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the times, with those of commits that are not noted yet."""
        return {**self._owed, **{key: max(time, self._owed.get(key, time)) for key, time in times.items()}}

    def _check_times(self, times: Mapping[str, int]) -> None:
        for key, time in times.items():
            stored = self._may_have_noted.get(key)
            if stored is not None and type(time) is int and time < stored:
                raise TimeWentBack(writer=self.writer, key=key, time=time, stored_time=stored)

    def _changing(self, job: Job[Value]) -> Job[Value]:
        """Runs a call that changes whether the writer holds time; `holds` is False until the outcome is known."""
        held, self.holds = self.holds, False
        try:
            return (yield from job)
        except StrandlineError as error:
            self.holds = held and says_nothing_changed(error)
            raise

    def _guarded(self, job: Job[Value]) -> Job[Value]:
        """Runs a call, and keeps Fenced if it is raised."""
        try:
            return (yield from job)
        except Fenced as error:
            self._fenced = error
            raise

    def _clocked(self, call: Call[Value]) -> Job[Value]:
        answer = yield from remote(clocked(call))
        self.clock = answer.clock
        return answer.value

    def _check_open(self) -> None:
        if self.closed:
            raise WriterClosed(writer=self.writer)

    def check_usable(self) -> None:
        self._check_open()
        if self._fenced is not None:
            raise self._fenced

    def bound_log(self, call: str) -> Log:
        if self.log is None:
            raise NoLog(writer=self.writer, call=call)
        return self.log


def _noting(addressed: Addressed) -> Job[Clocked[NoteAnswer]]:
    answer: Clocked[NoteAnswer] = yield addressed
    return answer


def _greatest(times: Mapping[str, int], others: Mapping[str, int]) -> Mapping[str, int]:
    return {**times, **{key: max(time, times.get(key, time)) for key, time in others.items()}}


def by_key(time: Times | None, *, newest: bool = False) -> Mapping[str, int]:
    """The times by key, in milliseconds. A datetime between two of them is the earlier one, so that a note claims no
    more than it says; as the `newest` time of events it is the later one."""
    if time is None:
        return {}
    given = time if isinstance(time, Mapping) else {DEFAULT_KEY: time}
    return {key: milliseconds("newest" if newest else "time", each, up=newest) for key, each in given.items()}
