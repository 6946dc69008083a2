"""What all writers do: they write to the log, leave their notes to a `Background`, and make the other calls themselves.

write, begin, commit       the log, in the caller's thread; registers first if necessary
note_time                  the machine gets the note; the background flushes the log and sends it
register, idle, close      a goal of the machine, which the caller's thread reaches; the background waits meanwhile
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from time import monotonic
from typing import Final

from strandline.client.http import Connection
from strandline.core.changes import Registered
from strandline.errors import ControllerAway, StrandlineError, TimeWentBack
from strandline.fork import OwningProcess
from strandline.logs import Event, Log, Memo, Position, events_of
from strandline.wire.streams import NoteAnswer
from writer_client.automatic_notes import AutomaticTime, automatic_of
from writer_client.departure import Leaving, check_leaving
from writer_client.errors import ManualNote
from writer_client.machine import Aim, Goal, Phase
from writer_client.newest_time import NewestTime
from writer_client.reports import Report, Status
from writer_client.sender import Background
from writer_client.session import Begun, Times, WriterSession, by_key

DRAIN_DEFAULT_MS: Final = 15_000  # how long closing waits for notes under way


class BaseWriter:
    """The common part of all writers."""

    def __init__(
        self,
        stream: str,
        name: str,
        keys: Iterable[str],
        log: Log | None,
        on_report: Callable[[Report], None] | None,
        automatically_note_time: AutomaticTime | bool,
        idle_after_ms: int | None,
        leaving: Leaving,
    ) -> None:
        self._leaving = check_leaving(leaving)
        automatic = automatic_of(automatically_note_time, name, log, idle_after_ms)
        self._session = WriterSession(
            stream, name, keys, log, automatic, on_report, idle_after_ms, closes_by_name=self._closes_by_name
        )
        self._machine = self._session.machine
        self._origin = OwningProcess(f"writer {name!r} of stream {stream!r}")
        self._works_alone = automatic is not None or idle_after_ms is not None
        self._timed = False

    # -- what each kind of writer has in its own way -----------------------------------------------------------

    _connection: Connection  # for calls in the caller's thread
    _closes_by_name = True  # also a name that it has not registered

    @property
    def _background(self) -> Background:
        """What sends the notes."""
        raise NotImplementedError

    # -- what a program sees of a writer -----------------------------------------------------------------------

    @property
    def epoch(self) -> int | None:
        """The number of the registration; None before the first one."""
        return self._machine.registration.epoch

    @property
    def floors(self) -> Mapping[str, int | None]:
        """The floor of each time key, as of registration: no event of this writer with a time >= it is late."""
        return self._machine.registration.floors

    @property
    def repaired(self) -> NoteAnswer | StrandlineError | None:
        """The answer to a note that registering made up for: an earlier process of this name committed a transaction
        and ended before it noted the time. None without such a transaction."""
        return self._machine.repaired

    def status(self) -> Status:
        """Returns which notes are late, refused or stuck. Cheap, and safe to call from any thread."""
        self._origin.check()
        return self._session.status()

    def resume(self) -> None:
        """Continues after a failed or interrupted write: call it when the events are written, or never will be.

        Until then the background sends only notes that already have their position, and the writer notes no clock and
        does not go idle.
        """
        self._origin.check()
        self._session.resume()
        self._attend_if_busy()

    # -- writing -----------------------------------------------------------------------------------------------

    def _write(self, events: Iterable[Event], newest: Times | None) -> Position:
        session = self._session
        log = session.bound_log("write()")
        self._check()
        with session.writing() as ready:
            rows, written = events_of(events), NewestTime()
            written.add(len(rows), by_key(newest, newest=True))
            if not ready:
                self._hold()
            with session.holding_back():
                position = log.append(rows)
                session.wrote(written)
        if session.reports:
            self._background.attend(session)
        return position

    def _begin(self) -> Begun:
        session = self._session
        log = session.bound_log("begin()")
        self._check()
        with session.writing() as ready:
            if not ready:
                self._hold()
            return session.begins(log.begin())

    def _commit(self, begun: Begun, times: Mapping[str, int], *, notes: bool) -> Mapping[str, int]:
        """Commits a transaction. `notes`: its times are noted in the background; otherwise the caller notes them.
        Returns these times: with automatic notes, only those beyond the clock."""
        session, machine = self._session, self._machine
        self._origin.check()  # in a child process no thread may be left to release the lock
        with session.lock:
            self._check_usable()
            if times:
                session.check_no_transaction("commit() with a time", besides=begun)
                machine.note_of(times, {}, {})  # raises what is no note
                if machine.clockwork.automatic is None:
                    self._check_times({**machine.registration.may_have_noted, **machine.outbox.last}, times)
                self._check_times(machine.owed, times)
        if machine.phase is not Phase.HOLDING:  # it went idle after the transaction began
            self._hold()
        with session.lock:
            if machine.clockwork.automatic is not None:
                times = machine.beyond_the_clock(times)
            memo = Memo(machine.writer, machine.memo_of(times)) if times else None
        with session.holding_back():
            begun.transaction.commit(memo)
            if times and not notes:
                times = machine.owe(times)
            session.ended(begun, times if notes else {}, committed=True)
        return times

    def _aborted(self, begun: Begun) -> None:
        """Records that a transaction was aborted."""
        if self._origin.is_here:
            self._session.ended(begun, {}, committed=False)
            self._attend_if_busy()

    # -- noting ------------------------------------------------------------------------------------------------

    def _check_manual(self, position: Mapping[str, int] | None) -> None:
        """Raises the errors of a manual note that need no look at the notes before it."""
        if self._machine.clockwork.automatic is not None:
            raise ManualNote(writer=self._machine.writer, period_ms=self._machine.clockwork.automatic.period_ms)
        if position is None:
            self._session.bound_log("note_time()")

    def _check_times(self, last: Mapping[str, int], times: Mapping[str, int]) -> None:
        """Raises TimeWentBack for a time below the last one of its key."""
        for key, time in times.items():
            before = last.get(key)
            if before is not None and time < before:
                raise TimeWentBack(writer=self._machine.writer, key=key, time=time, stored_time=before)

    def _check(self) -> None:
        self._origin.check()
        with self._session.lock:
            self._check_usable()

    def _check_usable(self) -> None:
        self._session.check_usable()

    # -- a writer's life ---------------------------------------------------------------------------------------

    def _hold(self) -> None:
        """Registers a new or idle writer, and waits for one that is going idle."""
        self._reach("hold")
        self._start_timer()

    def _register(self, timeout_ms: int = DRAIN_DEFAULT_MS) -> Registered:
        goal = self._reach("register", timeout_ms=timeout_ms)
        self._start_timer()
        assert goal.answer is not None
        return replace(goal.answer, floors=self._machine.registration.floors)

    def _reach(self, aim: Aim, position: Mapping[str, int] | None = None, timeout_ms: int = DRAIN_DEFAULT_MS) -> Goal:
        """Reaches a goal in this thread, while the background waits; wakes it afterwards."""
        self._origin.check()
        try:
            return self._session.reach(aim, self._connection, position, timeout_ms=timeout_ms)
        except ControllerAway as error:
            raise error.with_traceback(None) from None  # where it arose in here is of no use
        finally:
            self._attend_if_busy()

    def _attend_if_busy(self) -> None:
        if self._session.is_busy:
            self._background.attend(self._session)

    def _start_timer(self) -> None:
        """Starts the automatic work."""
        if self._works_alone and not self._timed:
            self._timed = True
            with self._session.lock:
                self._machine.clockwork.start(monotonic())
            self._background.attend(self._session)
