"""One writer at its controller and its log: what it calls, and what it knows of the outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
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
from strandline.errors import Fenced, InvalidConfig, Refused, StrandlineError, TooMany, says_nothing_changed
from strandline.limits import MEMO_BYTES
from strandline.logs import Log, Memo, Position, Transaction
from strandline.logs.errors import TransactionUnderWay
from strandline.names import check_name
from strandline.wire.streams import NoteAnswer
from writer_client.automatic_notes import AutomaticTime, GivenPositions, PositionSource
from writer_client.batches import Addressed
from writer_client.errors import NeverNoted, NoLog, WriterClosed
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
    refused."""

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
        self.epoch: int | None = None
        self.floors: Mapping[str, int | None] = {}
        self.clock: int | None = None
        self.newest = NewestTime()
        self.holds = False  # certainly registered, and certainly not idle or closed since
        self.late = Lateness(stream, writer)
        self.repaired: NoteAnswer | StrandlineError | None = None
        self.fenced: Fenced | None = None  # once another process has registered the writer's name
        self._found: Position | None = None  # where the log ended when this writer first registered
        self._owed: Mapping[str, int] = {}  # times of commits that are not noted yet
        self._left_memo = False  # the log has a memo of this session
        self.times: dict[str, int] = {}  # by key, those that the controller has taken
        self.may_have_noted: Mapping[str, int] = {}  # the greatest times that the controller may have taken
        self._position: dict[str, int] = {}
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
        self.fenced = None
        if self.log is not None and self._found is None:
            # All that an earlier process of this name appended, noted or not, lies below the log's current end.
            owed = self._times_in(self.log.memo(self.writer))  # first: the end then lies above its events
            ends = self.log.end_offsets()
            self._found = {segment: offset for segment, offset in ends.items() if offset}
            self._repair(connection, owed)
        self.holds = True
        return registered

    def hold(self, connection: Connection) -> None:
        """Registers a new or idle writer. Raises Fenced for a fenced one."""
        self.check_usable()
        if not self.holds:
            self.register(connection)

    def idle(
        self, connection: Connection, position: Mapping[str, int] | None, fallback: Mapping[str, int] | None = None
    ) -> None:
        """Goes idle. `fallback` are the times to note if none was noted yet."""
        self.check_usable()
        self._settle(connection, position, fallback, "idle()")
        with self._changing():
            connection.run(calls.idle(self.stream, self.writer, self.epoch))

    def close(self, connection: Connection, position: Mapping[str, int] | None, fallback: Mapping[str, int]) -> None:
        self.check_usable()
        self._settle(connection, position, fallback, "close()")
        if self._left_memo and self.log is not None:
            # The next writer of this name must not note this memo's time.
            self.log.begin().commit(Memo(self.writer, ""))
        with self._changing():
            connection.run(calls.close(self.stream, self.writer, self.epoch))
        self.closed = True

    def stay(self, connection: Connection, fallback: Mapping[str, int]) -> None:
        """Notes the final position, as `idle` does, of a writer that goes on counting without this process."""
        self.check_usable()
        if self.holds:
            with suppress(NeverNoted):  # it counts with its floor, which covers whatever it wrote
                self._settle(connection, None, fallback, "leaving")

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

    # -- parts of them -----------------------------------------------------------------------------------------

    def note_of(self, times: Mapping[str, int], position: Mapping[str, int], newest: Mapping[str, int]) -> Addressed:
        note = Note(writer=self.writer, times=times, position=position, epoch=self.epoch, newest=newest)
        return Addressed(self.stream, note)

    def memo_of(self, times: Mapping[str, int]) -> Memo:
        """Returns the memo for a commit, from which the writer's next process notes the time if this one cannot."""
        text = json.dumps({"times": dict(times)}, separators=(",", ":"))
        if len(text) > MEMO_BYTES:
            what = f"bytes for the times of {len(times)} keys, which the log keeps with a commit,"
            raise TooMany(what=what, count=len(text), limit=MEMO_BYTES)
        self._left_memo = True
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
        self.times.update(note.times)
        self.may_have_noted = _greatest(self.may_have_noted, note.times)
        self._position.update(note.position)
        self._owed = {key: time for key, time in self._owed.items() if time > note.times.get(key, time - 1)}

    def not_taken(self, note: Note, error: StrandlineError) -> None:
        """Records a note that failed. It counts as possibly taken unless the error denies it."""
        if not says_nothing_changed(error):
            self.may_have_noted = _greatest(self.may_have_noted, note.times)
        if isinstance(error, Fenced):
            self.fenced = error
        if isinstance(error, Refused):
            self._owed = {key: time for key, time in self._owed.items() if time != note.times.get(key)}

    def reached(self, own: Position) -> Position:
        """Returns a position above all events that processes of this writer's name have appended."""
        found = self._found if self._found is not None else {}
        return {segment: max(own.get(segment, 0), found.get(segment, 0)) for segment in found | own}

    def known(self, own: Position, given: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the greatest event times below a position: from the caller, or as given with the writes. Empty if
        unknown, as with events that were in the log before this writer."""
        if self._found:
            return {}
        return given or self.newest.below(own)

    def _times_in(self, memo: str | None) -> Mapping[str, int]:
        """The times of the last commit. Raises InvalidConfig if the memo is not a writer's: one of the two would
        overwrite what the other needs after a crash."""
        if not memo:
            return {}
        try:
            times: Mapping[str, int] = json.loads(memo)["times"]
        except (ValueError, TypeError, KeyError):
            wanted = "the log has the memo of a LogSink, or of a program, under it: give the writer a name of its own"
            raise InvalidConfig(name="the writer's name", value=self.writer, wanted=wanted) from None
        return times

    def _repair(self, connection: Connection, times: Mapping[str, int]) -> None:
        """Notes the times that an earlier process committed but did not note. Keeps the outcome in `repaired`, and
        raises no refusal."""
        for key, time in times.items():
            floor = self.floors.get(key)
            if floor is None or time > floor:
                self._owed = {**self._owed, key: time}
        if self._owed:
            try:
                self.repaired = self.send(connection, self.note_of(self._owed, self.reached({}), {}))
            except StrandlineError as error:
                self.repaired = error

    def _settle(
        self,
        connection: Connection,
        position: Mapping[str, int] | None,
        fallback: Mapping[str, int] | None,
        call: str,
    ) -> None:
        """Notes the final position before `idle` or `close`, if the last note does not cover it.

        Nothing older follows, so any time is true: the last one that may have been noted, or the floor, or the clock's
        (`fallback`). Without any, raises NeverNoted for a writer that has written.
        """
        wrote = bool(position)
        known: Mapping[str, int] = {}
        times: Mapping[str, int]
        if position is None and self.positions is not None:
            own = self.flush()
            position, known, wrote = self.reached(own), self.known(own, {}), bool(own)
        covered = all(offset <= self._position.get(name, 0) for name, offset in (position or {}).items())
        if covered and not self._owed:
            return
        floors = {key: floor for key, floor in self.floors.items() if floor is not None}
        times = self.with_owed(_greatest(floors, self.may_have_noted)) or fallback or {}
        if times:
            self.send(connection, self.note_of(times, position or {}, known))
        elif wrote:
            raise NeverNoted(writer=self.writer, call=call)

    def flush(self) -> Position:
        """Waits for the acknowledgement of what is written. If that fails, `newest` is unknown from then on."""
        assert self.positions is not None
        try:
            return self.positions.flush()
        except BaseException:
            self.newest.lost()
            raise

    def owe(self, times: Mapping[str, int]) -> Mapping[str, int]:
        """Records the times of a commit. Returns them with those of earlier commits that are not noted yet."""
        self._owed = self.with_owed(times)
        return self._owed

    def with_owed(self, times: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the times, with those of commits that are not noted yet."""
        return {**self._owed, **{key: max(time, self._owed.get(key, time)) for key, time in times.items()}}

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
    name = "newest" if newest else "time"
    times = {  # a note checks its numbers itself
        key: milliseconds(name, each, up=newest) if isinstance(each, datetime) else each for key, each in given.items()
    }
    for key, each in times.items() if newest else ():
        check_key(key)
        check_time("newest", each)
    return times
