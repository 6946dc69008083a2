"""One writer at its controller and its log: what it calls, and what it knows of the outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from secrets import token_hex
from typing import Final, TypeAlias
from weakref import WeakSet

from strandline.client import calls
from strandline.client.calls import clocked
from strandline.client.http import Connection
from strandline.core.changes import Registered
from strandline.core.note import DEFAULT_KEY, Note, check_key, check_time
from strandline.core.time_units import Instant, milliseconds
from strandline.errors import (
    Fenced,
    InvalidConfig,
    InvalidNote,
    Refused,
    StrandlineError,
    TooMany,
    says_nothing_changed,
)
from strandline.limits import MEMO_BYTES
from strandline.logs import Log, Memo, Position, Transaction
from strandline.logs.errors import NotAcknowledged, TransactionUnderWay
from strandline.names import check_name
from strandline.wire.streams import NoteAnswer
from writer_client.automatic_notes import AutomaticTime, GivenPositions, PositionSource
from writer_client.batches import Addressed
from writer_client.errors import NoLog, WriterClosed
from writer_client.lateness import Lateness
from writer_client.newest_time import NewestTime

REGISTRATION_BYTES: Final = 8  # random bytes in the name of a registration, which make it unique

Times: TypeAlias = Instant | Mapping[str, Instant]  # a time, or times by key


@dataclass(eq=False, slots=True, weakref_slot=True)
class Begun:
    """An open transaction, and the events written in it so far."""

    transaction: Transaction
    written: NewestTime = field(default_factory=NewestTime)


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
    """One writer of one stream. Its calls are made one after the other, since notes that overtake each other are
    refused.

    What it remembers holds as long as its registration: before the next one, another process of its name may have
    written, noted or closed, and the store may have been restored or the stream made anew. So each registration looks
    at the log again, and forgets what the controller had.
    """

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
        self.send: Callable[[Connection, Addressed], NoteAnswer]  # the outbox sets it: every note goes through it
        self.closed = False
        self._failures = getattr(log, "failures_raised", 0)
        self.epoch: int | None = None
        self.floors: Mapping[str, int | None] = {}
        self.clock: int | None = None
        self.newest = NewestTime()
        self.holds = False  # certainly registered, and certainly not idle or closed since
        self.late = Lateness(stream, writer)
        self.repaired: NoteAnswer | StrandlineError | None = None
        self.fenced: Fenced | None = None  # once another process has registered the writer's name
        self._life = ""  # of the name, as of the registration
        self._found: Position = {}  # where the log ended at the registration
        self._looked = False  # whether the log was looked at since the registration
        self._shares = False  # whether the log had events of other processes then
        self.owed: Mapping[str, int] = {}  # times of commits that are not noted yet
        self._has_memo = False  # whether the log has a memo of this name
        self._own_memo = ""  # the last one of this process, whose times are noted without the log
        self.times: dict[str, int] = {}  # by key, those that the controller has taken
        self.noted_since = False  # whether it has taken a note since the registration
        self.may_have_noted: Mapping[str, int] = {}  # the greatest times that the controller may have taken
        self._position: dict[str, int] = {}  # what the controller has taken since the registration
        self._given: dict[str, int] = {}  # without a log: all that was ever noted
        self._registration: str | None = None  # the name of a registration whose outcome is unknown
        self._open: WeakSet[Begun] = WeakSet()  # a transaction without a reference can no longer be committed

    # -- calls -------------------------------------------------------------------------------------------------

    def register(self, connection: Connection) -> Registered:
        self._check_open()
        if self._registration is None:
            self._registration = token_hex(REGISTRATION_BYTES)
        call = clocked(calls.register(self.stream, self.writer, self.keys, self._registration))
        with self._changing():
            answer = connection.run(call)
        registered, self.clock = answer.value, answer.clock
        self.late.registered(registered, first=self.epoch is None)
        self.epoch, self.floors, self._registration = registered.epoch, registered.floors, None
        self.fenced, self._life, self._looked = None, registered.life, False
        self._position, self.noted_since = {}, False
        if self.log is not None:
            self._look(self.log)
        self._repair(connection)
        self.holds = True
        return replace(registered, floors=self.floors)

    def hold(self, connection: Connection) -> None:
        """Registers a new or idle writer. Raises Fenced for a fenced one."""
        self.check_usable()
        if not self.holds:
            self.register(connection)

    def idle(
        self, connection: Connection, position: Mapping[str, int] | None, fallback: Mapping[str, int] | None = None
    ) -> None:
        """Goes idle. `fallback` are the times to note if none was noted yet."""
        self._settle(connection, position, fallback, "idle()")
        with self._changing():
            connection.run(calls.idle(self.stream, self.writer, self.epoch))

    def close(self, connection: Connection, position: Mapping[str, int] | None, fallback: Mapping[str, int]) -> None:
        self._settle(connection, position, fallback, "close()")
        if self._has_memo and self.log is not None:
            self.log.begin().commit(Memo(self.writer, ""))  # its time belongs to the life that ends
        with self._changing():
            connection.run(calls.close(self.stream, self.writer, self.epoch))
        self.closed = True

    def stay(self, connection: Connection, fallback: Mapping[str, int]) -> None:
        """Notes the final position, as `idle` does, of a writer that goes on counting without this process."""
        if self.holds:
            self._settle(connection, None, fallback, "leaving")
        else:
            self.check_usable()

    # -- transactions ------------------------------------------------------------------------------------------

    def opened(self, transaction: Transaction) -> Begun:
        """Records an open transaction."""
        begun = Begun(transaction)
        self._open.add(begun)
        return begun

    def ended(self, begun: Begun, *, committed: bool) -> None:
        """Records the end of a transaction."""
        self._open.discard(begun)
        if committed:
            self.newest.add_all(begun.written)
            self.late.wrote(begun.written.appended, begun.written.greatest, self.times)

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

    # -- parts of them -----------------------------------------------------------------------------------------

    def note_of(self, times: Mapping[str, int], position: Mapping[str, int], newest: Mapping[str, int]) -> Addressed:
        """A note of these times. Its position also covers what the log had at the registration, of which the caller may
        not know; `newest` holds below the caller's position only."""
        if self._found and self.reached(position) != position:
            position, newest = self.reached(position), {}
        note = Note(writer=self.writer, times=times, position=position, epoch=self.epoch, newest=newest)
        return Addressed(self.stream, note)

    def memo_of(self, times: Mapping[str, int]) -> Memo:
        """Returns the memo for a commit, from which the writer's next process notes the time if this one cannot."""
        text = json.dumps({"life": self._life, "times": dict(times)}, separators=(",", ":"))
        if len(text) > MEMO_BYTES:
            what = f"bytes for the times of {len(times)} keys, which the log keeps with a commit,"
            raise TooMany(what=what, count=len(text), limit=MEMO_BYTES)
        self._has_memo, self._own_memo = True, text
        return Memo(self.writer, text)

    @property
    def passed(self) -> Mapping[str, int]:
        """By key, the time below which this writer has no more events: its last note, or its floor on registering."""
        floors = {key: floor for key, floor in self.floors.items() if floor is not None}
        return _greatest(floors, self.times)

    def wrote(self, count: int, newest: Mapping[str, int], noted: Mapping[str, int]) -> None:
        """Records appended events, with the greatest event times among them and the times noted before."""
        self.newest.add(count, newest)
        if newest:
            self.late.wrote(count, newest, noted)

    def noted(self, note: Note) -> None:
        """Records that the controller has taken a note."""
        self.noted_since = True
        self.times.update(note.times)
        self.may_have_noted = _greatest(self.may_have_noted, note.times)
        self._position.update(note.position)
        if self.log is None:
            self._given.update(note.position)
        self.owed = {key: time for key, time in self.owed.items() if time > note.times.get(key, time - 1)}

    def not_taken(self, note: Note, error: StrandlineError) -> None:
        """Records a note that failed. It counts as possibly taken unless the error denies it."""
        if not says_nothing_changed(error):
            self.may_have_noted = _greatest(self.may_have_noted, note.times)
        if isinstance(error, Fenced):
            self.fenced = error
        if isinstance(error, Refused):
            self.owed = {key: time for key, time in self.owed.items() if time != note.times.get(key)}

    def reached(self, own: Mapping[str, int]) -> Position:
        """Returns a position above all events that processes of this writer's name have appended."""
        return {**own, **{segment: max(own.get(segment, 0), offset) for segment, offset in self._found.items()}}

    def known(self, own: Position, given: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the greatest event times below a position: from the caller, or as given with the writes. Empty if
        unknown, as with events of other processes, which a warning says."""
        known = {} if self._shares else given or self.newest.below(own)
        if not known and (given or self.newest.greatest):
            self.late.newest_unknown()
        return known

    def _look(self, log: Log) -> None:
        """Looks where the log ends, and which time was committed last. All that processes of this name appended, noted
        or not, lies below that end."""
        memo = log.memo(self.writer)  # first: the end then lies above its events
        ends = log.end_offsets()
        own = log.positions()
        self._found = {segment: offset for segment, offset in ends.items() if offset}
        self._shares = self._shares or any(offset > own.get(segment, 0) for segment, offset in self._found.items())
        self._has_memo = bool(memo)
        if memo and memo != self._own_memo:
            self.owed = _greatest(self.owed, self._times_in(memo))
        self._looked = True

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

    def _repair(self, connection: Connection) -> None:
        """Notes the times that were committed but not noted, and raises the floors to them. Keeps the outcome in
        `repaired`, and raises no refusal."""
        floors = {key: floor for key, floor in self.floors.items() if floor is not None}
        self.owed = owed = {key: time for key, time in self.owed.items() if time > floors.get(key, time - 1)}
        if owed:
            try:
                self.repaired = self.send(connection, self.note_of(owed, {}, {}))
            except StrandlineError as error:
                self.repaired, owed = error, self.owed  # a refused time is no longer owed
            self.floors = {**self.floors, **owed}
            self.late.raise_floors(owed)

    def _settle(
        self,
        connection: Connection,
        position: Mapping[str, int] | None,
        fallback: Mapping[str, int] | None,
        call: str,
    ) -> None:
        """Notes the final position before `idle` or `close`, if no note since the registration covers it.

        Nothing older follows, so any time is true: the last one that may have been noted, or the floor, or the clock's
        (`fallback`). Without any, it notes the position alone.
        """
        self.check_usable()
        self._check_no_other_transaction(call)
        if self.log is not None and not self._looked:
            self.register(connection)
        known: Mapping[str, int] = {}
        if position is None and self.positions is not None:
            position = self.flush()
            known = self.known(position, {})
        position = self.reached({**self._given, **(position or {})})
        if not self.owed and all(offset <= self._position.get(name, 0) for name, offset in position.items()):
            return
        floors = {key: floor for key, floor in self.floors.items() if floor is not None}
        times = self.with_owed(_greatest(floors, self.may_have_noted)) or fallback or {}
        self.send(connection, self.note_of(times, position, known))

    def flush(self) -> Position:
        """Waits for the acknowledgement of what is written. If that fails, `newest` is unknown from then on."""
        assert self.positions is not None
        try:
            position = self.positions.flush()
            if (failure := self.failure_elsewhere()) is not None:
                raise failure
            return position
        except BaseException:
            self.newest.lost()
            self.failure_elsewhere()
            raise

    def failure_elsewhere(self) -> NotAcknowledged | None:
        """The failure that another writer on the same log object was told since the last call, if any: whose events
        failed is not known."""
        before, self._failures = self._failures, getattr(self.log, "failures_raised", 0)
        if self._failures <= before:
            return None
        reason = "another writer on this log object has the error, with its reason"
        return NotAcknowledged(path=self.stream, count=self._failures - before, reason=reason, events=())

    @property
    def sent(self) -> int:
        """How many events are in the log or on their way, as far as it is known: below a position that is read while
        this number stays, nothing is newer."""
        count: int = getattr(self.log, "sent", self.newest.appended)
        return count

    def owe(self, times: Mapping[str, int]) -> Mapping[str, int]:
        """Records the times of a commit. Returns them with those of earlier commits that are not noted yet."""
        self.owed = self.with_owed(times)
        return self.owed

    def with_owed(self, times: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the times, with those of commits that are not noted yet."""
        return _greatest(self.owed, times)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Encloses a call that changes whether the writer holds time; `holds` is False until the outcome is known."""
        held, self.holds = self.holds, False
        try:
            yield
        except StrandlineError as error:
            self.holds = held and says_nothing_changed(error)
            if isinstance(error, Fenced):
                self.fenced = error
            raise

    def _check_open(self) -> None:
        if self.closed:
            raise WriterClosed(writer=self.writer)

    def check_usable(self) -> None:
        self._check_open()
        if self.fenced is not None:
            raise self.fenced

    def bound_log(self, call: str) -> Log:
        if self.log is None:
            raise NoLog(writer=self.writer, call=call)
        return self.log


def _greatest(times: Mapping[str, int], others: Mapping[str, int]) -> Mapping[str, int]:
    return {**times, **{key: max(time, times.get(key, time)) for key, time in others.items()}}


def by_key(time: Times | None, *, newest: bool = False) -> Mapping[str, int]:
    """The times by key, in milliseconds. A datetime between two of them is the earlier one, so that a note claims no
    more than it says; as the `newest` time of events it is the later one. Raises what is wrong with `newest` at once,
    since a later note has it."""
    if time is None:
        return {}
    given = time if isinstance(time, Mapping) else {DEFAULT_KEY: time}
    if not given and not newest:
        raise InvalidNote(name="times", value={}, wanted="at least one key with a time")
    name = "newest" if newest else "time"
    times = {  # a note checks its numbers itself
        key: milliseconds(name, each, up=newest) if isinstance(each, datetime) else each for key, each in given.items()
    }
    for key, each in times.items() if newest else ():
        check_key(key)
        check_time("newest", each)
    return times
