"""`BackgroundWriter`: notes take the caller a few microseconds, and another thread sends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from types import TracebackType
from typing import Self

from strandline.client.http import Connection
from strandline.core.changes import Registered
from strandline.core.note import DEFAULT_KEY, check_key, check_position, check_time
from strandline.errors import PositionWentBack, StrandlineError, TimeWentBack
from strandline.fork import OwningProcess
from strandline.logs import Event, Log, Position, events_of
from strandline.wire.streams import NoteAnswer
from writer_client import process_exit
from writer_client.automatic_notes import AutomaticTime, automatic_of
from writer_client.departure import Leaving, check_leaving
from writer_client.errors import ManualNote, WriterClosed
from writer_client.limits import DRAIN_DEFAULT_MS, EXIT_DRAIN_MS
from writer_client.loop import do
from writer_client.outbox import Outbox
from writer_client.reports import Report, Status
from writer_client.sender import Background
from writer_client.session import Begun, Times, WriterSession, by_key


class BackgroundWriter:
    """A `Writer` whose `note_time` returns at once: the program goes on while the controller is away.

        with BackgroundWriter("http://127.0.0.1:8433", "orders", "till-1", log=log) as writer:
            writer.write([Event(b'{"time": 1700000000000}', key=b"customer-7")])
            writer.note_time(1700000000001)      # returns at once

    Use it from one thread at a time. Another thread sends notes in batches, and repeats them until they are answered.
    The newest note of each key waits as long as necessary, with a bounded number of older ones.

    `status()` and `on_report` show what becomes of notes. Without `on_report`, the next call raises a refusal. In
    asyncio programs, `note_time` and `status` can be called directly; call the rest in another thread.

    As a context manager it starts to register on entry. On exit it waits until all notes are answered, raises a refusal
    that was not reported yet, and does what `leaving` says: by default it stays counted, so time waits for its name. If
    the block raises, or the process ends without `close()`, waiting notes are sent for at most EXIT_DRAIN_MS, the rest
    is reported on standard error, and the writer stays in any case. Raises UsedAfterFork in a forked process.
    """

    def __init__(
        self,
        controller: str | Sequence[str] | Connection | Background,
        stream: str,
        name: str,
        *,
        token: str | None = None,
        keys: Iterable[str] = (),
        log: Log | None = None,
        on_report: Callable[[Report], None] | None = None,
        automatically_note_time: AutomaticTime | bool = False,
        idle_after_ms: int | None = None,
        leaving: Leaving = "stay",
    ) -> None:
        """Creates a writer of the stream `stream`, named `name`. It registers on entry, or when it first needs to.

        - `controller`: one or several URLs, see `Connection`; a connection; or a `Background`, which many writers in
          one process can share.
        - `token`: for URLs; by default from the environment, see `Connection`.
        - `keys`: the time keys that the writer notes.
        - `log`: the log to write to, which also provides the positions of notes.
        - `on_report`: called in the sending thread with each report; it must not wait for the writer.
        - `automatically_note_time`: note the clock every few seconds, from entry or registration on. `AutomaticTime`
          has the options, and the source of positions without a log.
        - `idle_after_ms`: go idle after this time without a write or a manual note, if no transaction is open. The
          writer registers again before its next write; events below its new floor are late.
        - `leaving`: what the end of the `with` block does: `"stay"`, `"idle"` or `"close"`, see `Writer`.
        """
        self._leaving = check_leaving(leaving)
        automatic = automatic_of(automatically_note_time, name, log, idle_after_ms)
        self._session = WriterSession(stream, name, keys, log, automatic)
        self._outbox = Outbox(self._session, automatic, on_report, idle_after_ms)
        self._rests = idle_after_ms is not None
        self._origin = OwningProcess(f"writer {name!r} of stream {stream!r}")
        if isinstance(controller, Background):
            controller.origin.check()
        self._owns_background = not isinstance(controller, Background)
        self._background = controller if isinstance(controller, Background) else Background(controller, token=token)
        self._timed = False

    # -- writing -----------------------------------------------------------------------------------------------

    def write(self, events: Iterable[Event], *, newest: Times | None = None) -> Position:
        """Appends events to the log, as `Writer.write` does.

        An unregistered or idle writer registers first: the call then waits for the controller, and raises
        ControllerAway if it cannot be reached. After a failed write no note is sent until `resume()`: an earlier note
        could cover events that were not written.
        """
        outbox, session = self._outbox, self._session
        log = session.bound_log("write()")
        self._check()
        with outbox.writing():
            rows = events_of(events)
            self._hold()
            with outbox.holding_back():
                position = log.append(rows)
                with outbox.changed:
                    session.wrote(len(rows), by_key(newest, newest=True), outbox.last)
        return position

    def begin(self) -> BackgroundTransaction:
        """Begins a transaction, as `Writer.begin` does. Registers like `write`."""
        log = self._session.bound_log("begin()")
        self._check()
        with self._outbox.writing():
            self._hold()
            return BackgroundTransaction(self, self._outbox.begins(log.begin()))

    # -- noting ------------------------------------------------------------------------------------------------

    def note_time(self, time: Times, position: Mapping[str, int] | None = None, *, newest: Times | None = None) -> None:
        """Notes time, as `Writer.note_time` does, but waits neither for the controller nor for the log.

        With a log, the writer holds the note until every write before it is acknowledged, and then sends it with a
        position that covers them. Raises an invalid time or position, TransactionUnderWay while a transaction is open,
        ManualNote if the writer notes time automatically, Fenced once another process has registered the name, and an
        earlier note's refusal that was not reported yet.
        """
        self._origin.check()
        outbox = self._outbox
        if outbox.automatic is not None:
            raise ManualNote(writer=self._session.writer, period_ms=outbox.automatic.period_ms)
        if position is None:
            self._session.bound_log("note_time()")
        else:
            check_position(position)
        times: Mapping[str, int] = {DEFAULT_KEY: time} if type(time) is int else by_key(time)
        known = by_key(newest, newest=True) if newest is not None else {}
        with outbox.changed:
            self._check_usable()
            self._session.check_no_transaction("note_time()")
            self._check_note(times, known, position)
            if position is None:
                outbox.say(times, known)
            else:
                outbox.say_at(times, position, known)
        if not self._timed:
            self._start_timer()
        self._attend()

    def wait_until_answered(self, timeout_ms: int = DRAIN_DEFAULT_MS) -> bool:
        """Waits until every note so far is answered: taken or refused. Returns False on timeout."""
        self._origin.check()
        return self._outbox.wait_until_answered(timeout_ms)

    def status(self) -> Status:
        """Returns which notes are late, refused or stuck. Cheap, and safe to call from any thread."""
        self._origin.check()
        return self._outbox.status()

    def resume(self) -> None:
        """Sends notes that a failed write held back. Call it when the events are written, or never will be."""
        self._origin.check()
        self._outbox.resume()
        self._attend()

    # -- a writer's life ---------------------------------------------------------------------------------------

    def register(self, timeout_ms: int = DRAIN_DEFAULT_MS) -> Registered:
        """Registers now, as `Writer.register` does, and waits for the answer."""
        self._origin.check()
        with self._claimed(drain=False, timeout_ms=timeout_ms):
            registered = do(self._session.register(), self._background.connection)
        self._start_timer()
        return registered

    def idle(self, timeout_ms: int = DRAIN_DEFAULT_MS) -> None:
        """Waits until all notes are answered, and goes idle; see `Writer.idle`.

        Raises a refusal that was not reported yet, and on timeout the error that notes are stuck on, or NotDrained.
        """
        self._check()
        with self._claimed(drain=True, timeout_ms=timeout_ms):
            self._outbox.raise_unreported()
            do(self._session.idle(None, self._outbox.last_times()), self._background.connection)
            self._outbox.wants_registration = False

    def close(self, timeout_ms: int = DRAIN_DEFAULT_MS) -> None:
        """Waits until all notes are answered, and closes the writer; see `Writer.close`.

        Raises a refusal that was not reported yet, and on timeout the error that notes are stuck on, or NotDrained; it
        can be called again.
        """
        self._origin.check()
        if self._outbox.closed:
            return
        with self._claimed(drain=True, timeout_ms=timeout_ms):
            self._outbox.raise_unreported()
            if self._outbox.has_given_positions:  # it may have written before it registered
                do(self._session.hold(), self._background.connection)
            if self._session.epoch is not None:
                do(self._session.close(None, self._outbox.last_times()), self._background.connection)
        self.release()

    def release(self) -> None:
        """Frees all resources without a call to the controller; standard error tells of a refusal that no call has
        raised. The writer cannot be used afterwards."""
        if not self._origin.is_here:
            return  # the parent process owns them
        process_exit.report(self._outbox.untold())
        self._outbox.release()
        if self._owns_background:
            self._background.close()

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
        """See `Writer.repaired`."""
        return self._session.repaired

    def __enter__(self) -> Self:
        self._outbox.wants_registration = True
        self._start_timer()
        self._attend()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._left()
            elif self._origin.is_here and not self._background.is_own_thread():
                self._leave(EXIT_DRAIN_MS)
        except KeyboardInterrupt:
            self._leave(0)
            raise
        finally:
            self.release()

    # -- inside ------------------------------------------------------------------------------------------------

    def ended(self, begun: Begun, times: Mapping[str, int], *, committed: bool) -> None:
        """Handles the end of a transaction: a commit is durable by now."""
        if self._origin.is_here:
            self._outbox.ended(begun, times, committed=committed)
            self._attend()

    def before_commit(self, begun: Begun, times: Mapping[str, int]) -> Mapping[str, int]:
        """Raises now what the note would be refused for, and registers an idle writer. Returns the times to note: with
        automatic notes, those beyond the clock."""
        self._origin.check()  # in a child process no thread may be left to release the lock
        with self._outbox.changed:
            self._check_usable()
            if times:
                self._session.check_no_transaction("commit() with a time", besides=begun)
            self._check_times(times, may_be_passed=self._outbox.automatic is not None)
        self._hold()
        return times if self._outbox.automatic is None else self._outbox.beyond_the_clock(times)

    @property
    def session(self) -> WriterSession:
        return self._session

    def holding_back(self) -> AbstractContextManager[None]:
        """An error inside the block holds notes back."""
        return self._outbox.holding_back()

    def _check_note(
        self, times: Mapping[str, int], newest: Mapping[str, int], position: Mapping[str, int] | None
    ) -> None:
        self._check_times(times)
        for segment, offset in (position or {}).items():
            before = self._outbox.last_position.get(segment, 0)
            if offset < before:
                raise PositionWentBack(
                    writer=self._session.writer, segment=segment, offset=offset, stored_offset=before
                )
        for key, time in newest.items():
            check_key(key)
            check_time("newest", time)

    def _check_times(self, times: Mapping[str, int], *, may_be_passed: bool = False) -> None:
        last = self._outbox.last
        for key, time in times.items():
            if key:
                check_key(key)
            check_time("time", time)
            before = last.get(key)
            if before is not None and time < before and not may_be_passed:
                raise TimeWentBack(writer=self._session.writer, key=key, time=time, stored_time=before)

    @contextmanager
    def _claimed(self, *, drain: bool, timeout_ms: int) -> Iterator[None]:
        """Keeps the background from the outbox during the block, and wakes it afterwards."""
        try:
            with self._outbox.claim(drain=drain, timeout_ms=timeout_ms):
                yield
        finally:
            self._attend()

    def _left(self) -> None:
        """Does what the end of the `with` block does, unless the block has closed or released the writer."""
        if self._outbox.closed:
            return
        if self._leaving == "close":
            self.close()
            return
        session, connection = self._session, self._background.connection
        with self._claimed(drain=True, timeout_ms=DRAIN_DEFAULT_MS):
            self._outbox.raise_unreported()
            if self._outbox.wants_registration:  # the block was shorter than registering
                do(session.hold(), connection)
                self._outbox.wants_registration = False
            said = self._outbox.last_times()
            do(session.stay(None, said) if self._leaving == "stay" else session.idle(None, said), connection)

    def _leave(self, timeout_ms: int) -> None:
        """Sends waiting notes, and reports on standard error what could not be sent."""
        self._background.send_now([self._outbox])
        process_exit.report(self._outbox.leave(monotonic() + timeout_ms / 1000))

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

    def _hold(self) -> None:
        if not self._session.holds:
            with self._claimed(drain=False, timeout_ms=DRAIN_DEFAULT_MS):
                do(self._session.hold(), self._background.connection)
                self._outbox.wants_registration = False
            self._start_timer()

    def _start_timer(self) -> None:
        if self._timed:
            return
        self._timed = True
        if self._outbox.automatic is not None:
            self._background.start_timer(self._outbox)
        if self._rests:
            self._background.watch_for_rest(self._outbox)

    def _attend(self) -> None:
        self._background.attend(self._outbox)


class BackgroundTransaction:
    """A transaction of a `BackgroundWriter`. Leaving the `with` block without a commit aborts it: nothing is noted."""

    def __init__(self, writer: BackgroundWriter, begun: Begun) -> None:
        self._writer = writer
        self._begun = begun

    def write(self, events: Iterable[Event], *, newest: Times | None = None) -> None:
        """Adds events, which readers see after the commit; `newest` as in `Writer.write`."""
        rows = events_of(events)
        self._begun.transaction.write(rows)
        self._begun.written.add(len(rows), by_key(newest, newest=True))

    def commit(self, time: Times | None = None) -> None:
        """Makes the events durable and visible, and then notes the time with the position behind the commit.

        Without a time nothing is noted; the next note covers the events. The log keeps the time with the commit: if
        this process ends before the note is answered, the next one notes it on registering. With automatic notes, only
        a time beyond the clock is noted.

        A failed commit counts as a failed write. With a time, raises TransactionUnderWay while another transaction of
        the writer is open.
        """
        times = self._writer.before_commit(self._begun, by_key(time))
        memo = self._writer.session.memo_of(times) if times else None
        with self._writer.holding_back():
            self._begun.transaction.commit(memo)
            self._writer.ended(self._begun, times, committed=True)

    def abort(self) -> None:
        """Drops the events. Does nothing after a commit or an abort."""
        self._begun.transaction.abort()
        self._writer.ended(self._begun, {}, committed=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()
