"""What all writers do: they write to the log, leave their notes to a `Background`, and make the other calls themselves.

write, begin, commit       the log, in the caller's thread; registers first if necessary
note_time                  the outbox gets the note; the background flushes the log and sends it
register, idle, close      `_claimed` keeps the background from the outbox, and the caller's thread makes the call
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, assert_never

from strandline.client.http import Connection
from strandline.core.changes import Registered
from strandline.errors import ControllerAway, StrandlineError, TimeWentBack
from strandline.fork import OwningProcess
from strandline.logs import Event, Log, Position, events_of
from strandline.wire.streams import NoteAnswer
from writer_client.automatic_notes import AutomaticTime, automatic_of
from writer_client.departure import Leaving, check_leaving
from writer_client.errors import ManualNote, WriterClosed
from writer_client.outbox import Outbox
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
        self._session = WriterSession(stream, name, keys, log, automatic)
        self._outbox = Outbox(self._session, automatic, on_report, idle_after_ms)
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
        return self._session.epoch

    @property
    def floors(self) -> Mapping[str, int | None]:
        """The floor of each time key, as of registration: no event of this writer with a time >= it is late."""
        return self._session.floors

    @property
    def repaired(self) -> NoteAnswer | StrandlineError | None:
        """The answer to a note that registering made up for: an earlier process of this name committed a transaction
        and ended before it noted the time. None without such a transaction."""
        return self._session.repaired

    def status(self) -> Status:
        """Returns which notes are late, refused or stuck. Cheap, and safe to call from any thread."""
        self._origin.check()
        return self._outbox.status()

    def resume(self) -> None:
        """Continues after a failed or interrupted write: call it when the events are written, or never will be.

        Until then the background sends only notes that already have their position, and the writer notes no clock and
        does not go idle.
        """
        self._origin.check()
        self._outbox.resume()
        self._attend_if_busy()

    # -- writing -----------------------------------------------------------------------------------------------

    def _write(self, events: Iterable[Event], newest: Times | None) -> Position:
        outbox, session = self._outbox, self._session
        log = session.bound_log("write()")
        self._check()
        with outbox.writing() as ready:
            rows, greatest = events_of(events), by_key(newest, newest=True)
            if not ready:
                self._hold()
            with outbox.holding_back():
                position = log.append(rows)
                with outbox.lock:
                    session.wrote(len(rows), greatest, outbox.last)
        if outbox.reports:
            self._background.attend(outbox)
        return position

    def _begin(self) -> Begun:
        log = self._session.bound_log("begin()")
        self._check()
        with self._outbox.writing() as ready:
            if not ready:
                self._hold()
            return self._outbox.begins(log.begin())

    def _commit(self, begun: Begun, times: Mapping[str, int], *, notes: bool) -> Mapping[str, int]:
        """Commits a transaction. `notes`: its times are noted in the background; otherwise the caller notes them.
        Returns these times: with automatic notes, only those beyond the clock."""
        outbox, session = self._outbox, self._session
        self._origin.check()  # in a child process no thread may be left to release the lock
        with outbox.lock:
            self._check_usable()
            if times:
                session.check_no_transaction("commit() with a time", besides=begun)
                session.note_of(times, {}, {})  # raises what is no note
                if outbox.automatic is None:
                    self._check_times({**session.may_have_noted, **outbox.last}, times)
                self._check_times(session.owed, times)
        if not session.holds:  # it went idle after the transaction began
            self._hold()
        if outbox.automatic is not None:
            times = outbox.beyond_the_clock(times)
        memo = session.memo_of(times) if times else None
        with outbox.holding_back():
            begun.transaction.commit(memo)
            if times and not notes:
                times = session.owe(times)
            outbox.ended(begun, times if notes else {}, committed=True)
        return times

    def _aborted(self, begun: Begun) -> None:
        """Records that a transaction was aborted."""
        if self._origin.is_here:
            self._outbox.ended(begun, {}, committed=False)
            self._attend_if_busy()

    # -- noting ------------------------------------------------------------------------------------------------

    def _check_manual(self, position: Mapping[str, int] | None) -> None:
        """Raises the errors of a manual note that need no look at the notes before it."""
        automatic = self._outbox.automatic
        if automatic is not None:
            raise ManualNote(writer=self._session.writer, period_ms=automatic.period_ms)
        if position is None:
            self._session.bound_log("note_time()")

    def _check_times(self, last: Mapping[str, int], times: Mapping[str, int]) -> None:
        """Raises TimeWentBack for a time below the last one of its key."""
        for key, time in times.items():
            before = last.get(key)
            if before is not None and time < before:
                raise TimeWentBack(writer=self._session.writer, key=key, time=time, stored_time=before)

    def _check(self) -> None:
        self._origin.check()
        self._check_usable()

    def _check_usable(self) -> None:
        if self._outbox.closed:
            raise WriterClosed(writer=self._session.writer)
        if self._outbox.unreported is not None:
            self._outbox.raise_unreported()
        if self._session.fenced is not None:
            raise self._session.fenced

    # -- a writer's life ---------------------------------------------------------------------------------------

    def _hold(self) -> None:
        """Registers a new or idle writer, and waits for one that is going idle."""
        with self._claimed(drain=False):
            self._session.hold(self._connection)
            self._outbox.wants_registration = False
        self._start_timer()

    def _register(self, timeout_ms: int = DRAIN_DEFAULT_MS) -> Registered:
        with self._claimed(drain=False, timeout_ms=timeout_ms):
            registered = self._session.register(self._connection)
        self._start_timer()
        return registered

    def _idle(self, position: Mapping[str, int] | None = None, timeout_ms: int = DRAIN_DEFAULT_MS) -> None:
        self._check()
        with self._claimed(drain=True, timeout_ms=timeout_ms):
            self._outbox.raise_unreported()
            if self._outbox.wants_registration:  # the block was shorter than registering
                self._session.hold(self._connection)
            self._session.idle(self._connection, position, self._outbox.last_times())
            self._outbox.wants_registration = False

    def _close(self, position: Mapping[str, int] | None = None, timeout_ms: int = DRAIN_DEFAULT_MS) -> None:
        with self._claimed(drain=True, timeout_ms=timeout_ms):
            self._outbox.raise_unreported()
            if self._outbox.wants_registration or self._outbox.has_given_positions:  # it may have written before that
                self._session.hold(self._connection)
            if self._session.epoch is not None or self._closes_by_name:
                self._session.close(self._connection, position, self._outbox.last_times())

    def _stay(self) -> None:
        with self._claimed(drain=True):
            self._outbox.raise_unreported()
            if self._outbox.wants_registration:  # the block was shorter than registering
                self._session.hold(self._connection)
                self._outbox.wants_registration = False
            self._session.stay(self._connection, self._outbox.last_times())

    def _left(self) -> None:
        """Does what `leaving` says."""
        match self._leaving:
            case "stay":
                self._stay()
            case "idle":
                self._idle()
            case "close":
                self._close()
            case _:
                assert_never(self._leaving)

    @contextmanager
    def _claimed(self, *, drain: bool, timeout_ms: int = DRAIN_DEFAULT_MS) -> Iterator[None]:
        """Keeps the background from the outbox during the block, and wakes it afterwards."""
        self._origin.check()
        try:
            with self._outbox.claim(drain=drain, timeout_ms=timeout_ms):
                yield
        except ControllerAway as error:
            raise error.with_traceback(None) from None  # where it arose in here tells nobody anything
        finally:
            self._attend_if_busy()

    def _attend_if_busy(self) -> None:
        if self._outbox.is_busy:
            self._background.attend(self._outbox)

    def _start_timer(self) -> None:
        """Starts the automatic work."""
        if self._works_alone and not self._timed:
            self._timed = True
            self._background.start_timers(self._outbox)
