"""`BackgroundWriter`: notes that cost the caller a few microseconds, and arrive when they can."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from types import TracebackType
from typing import Self

from strandline.client.http import Connection
from strandline.core.changes import Registered
from strandline.core.note import DEFAULT_KEY, check_key, check_position, check_time
from strandline.errors import PositionWentBack, StrandlineError, TimeWentBack
from strandline.fork import OwningProcess
from strandline.logs import Event, Log, Position
from strandline.wire.streams import NoteAnswer
from writer_client import process_exit
from writer_client.automatic_notes import AutomaticTime, automatic_of
from writer_client.errors import ManualNote, WriterClosed
from writer_client.limits import DRAIN_DEFAULT_MS, EXIT_DRAIN_MS
from writer_client.loop import do
from writer_client.outbox import Outbox
from writer_client.reports import Report, Status
from writer_client.sender import Background
from writer_client.session import Begun, Times, WriterSession, by_key


class BackgroundWriter:
    """Like `Writer`, but `note_time` returns at once, and a controller that is away keeps nobody from going on.

    One thread writes; notes are sent by another one, in batches, and repeated until they are answered. The newest note
    of each key waits as long as it must, with a bounded number of older ones. What happens to notes is told by
    `status()`, and to `on_report`, in the other thread: it must not wait for the writer. Without `on_report` a refusal
    is raised by the next call. Asyncio programs may call `note_time` and `status` as they are, and the rest in another
    thread.

    As a context manager it begins to register on entering, and closes on leaving, when all that was noted is answered.
    A block that ends with an exception, and a process that ends without `close()`, send what was noted, for at most
    EXIT_DRAIN_MS, and tell standard error of what could not be sent; they do not close. Raises UsedAfterFork in a
    forked process.
    """

    def __init__(
        self,
        controller: str | Connection | Background,
        stream: str,
        name: str,
        *,
        token: str | None = None,
        keys: Iterable[str] = (),
        log: Log | None = None,
        on_report: Callable[[Report], None] | None = None,
        automatically_note_time: AutomaticTime | bool = False,
        idle_after_ms: int | None = None,
    ) -> None:
        """`controller` is a URL, a connection, or, for many writers in one process, a `Background` that they share.

        With `automatically_note_time` the writer notes the clock every few seconds, from entering or registering on.
        `AutomaticTime` has the period, and what else can be set; without a log, where the positions come from.

        With `idle_after_ms` a writer that has written nothing and noted nothing by hand for so long says that it is
        idle, and has no transaction open then. It registers before it writes again; what is older than the floor that
        it is given then is late.
        """
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

        A writer that is not registered, or was idle, registers before that: this waits for the controller, and raises
        ControllerAway where it cannot be reached. After a write that failed no note leaves until `resume()`: one that
        was made before may cover what is not there.
        """
        outbox, session = self._outbox, self._session
        log = session.bound_log("write()")
        self._check()
        with outbox.writing():
            rows = list(events)
            self._hold()
            with outbox.holding_back():
                position = log.append(rows)
            with outbox.changed:
                session.newest.add(len(rows), by_key(newest))
        return position

    def begin(self) -> BackgroundTransaction:
        """Begins a transaction, as `Writer.begin` does; it registers like `write`."""
        log = self._session.bound_log("begin()")
        self._check()
        with self._outbox.writing():
            self._hold()
            return BackgroundTransaction(self, self._outbox.begins(log.begin()))

    # -- noting ------------------------------------------------------------------------------------------------

    def note_time(self, time: Times, position: Mapping[str, int] | None = None, *, newest: Times | None = None) -> None:
        """Notes, as `Writer.note_time` does, without waiting: not for the controller, and not for the log.

        Bound to a log, the note leaves when all that was written before it is acknowledged, with a position that covers
        it. Raises what can be seen to be wrong at once, TransactionUnderWay while a transaction is open, ManualNote
        where time is noted automatically, Fenced once another process has taken the name, and a refusal of an earlier
        note that nobody was told of.
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
        known = by_key(newest) if newest is not None else {}
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
        """Waits until every note so far is answered, taken or refused; returns whether that is so."""
        self._origin.check()
        return self._outbox.wait_until_answered(timeout_ms)

    def status(self) -> Status:
        """What is late, refused or stuck. Cheap, and from any thread."""
        self._origin.check()
        return self._outbox.status()

    def resume(self) -> None:
        """Says that what failed to be written was written again, or never will be: notes that were held back go out."""
        self._origin.check()
        self._outbox.resume()
        self._attend()

    # -- a writer's life ---------------------------------------------------------------------------------------

    def register(self, timeout_ms: int = DRAIN_DEFAULT_MS) -> Registered:
        """Registers now, as `Writer.register` does, and waits for it."""
        self._origin.check()
        with self._claimed(drain=False, timeout_ms=timeout_ms):
            registered = do(self._session.register(), self._background.connection)
        self._start_timer()
        return registered

    def idle(self, timeout_ms: int = DRAIN_DEFAULT_MS) -> None:
        """Says that nothing is to come for now, when all that was noted is answered; see `Writer.idle`.

        Raises what notes are stuck on, or NotDrained, where that takes too long.
        """
        self._check()
        with self._claimed(drain=True, timeout_ms=timeout_ms):
            do(self._session.idle(None, self._outbox.last_words()), self._background.connection)
            self._outbox.wants_registration = False

    def close(self, timeout_ms: int = DRAIN_DEFAULT_MS) -> None:
        """Says that nothing is to come any more, when all that was noted is answered; see `Writer.close`.

        Raises what notes are stuck on, or NotDrained, where that takes too long: it can be called again.
        """
        self._origin.check()
        if self._outbox.closed:
            return
        self._outbox.raise_unheard()
        with self._claimed(drain=True, timeout_ms=timeout_ms):
            if self._outbox.is_told_positions:  # what it has written without being registered
                do(self._session.hold(), self._background.connection)
            if self._session.epoch is not None:
                do(self._session.close(None, self._outbox.last_words()), self._background.connection)
        self.release()

    def release(self) -> None:
        """Lets go of everything, and tells the controller nothing. The writer cannot be used any more."""
        if not self._origin.is_here:
            return  # it is the parent's
        self._outbox.release()
        if self._owns_background:
            self._background.close()

    @property
    def epoch(self) -> int | None:
        """Null before the first registration."""
        return self._session.epoch

    @property
    def floors(self) -> Mapping[str, int | None]:
        """By key the time at or above which nothing that this writer has is late, as of its registration."""
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
                self.close()
            elif self._origin.is_here and not self._background.is_own_thread():
                self._leave(EXIT_DRAIN_MS)
        except KeyboardInterrupt:
            self._leave(0)
            raise
        finally:
            self.release()

    # -- inside ------------------------------------------------------------------------------------------------

    def ended(self, begun: Begun, times: Mapping[str, int], *, committed: bool) -> None:
        """A transaction is over, and durable where it is committed."""
        if self._origin.is_here:
            self._outbox.ended(begun, times, committed=committed)
            self._attend()

    def before_commit(self, begun: Begun, times: Mapping[str, int]) -> Mapping[str, int]:
        """What the note would be refused for is found now, and a writer that went idle registers. Returns the times to
        note: where the clock is noted too, those that go beyond it."""
        self._origin.check()  # in a child nobody may be able to let go of the lock
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
        """What fails inside holds notes back."""
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
        """Keeps the background away; what has come meanwhile is looked at afterwards."""
        try:
            with self._outbox.claim(drain=drain, timeout_ms=timeout_ms):
                yield
        finally:
            self._attend()

    def _leave(self, timeout_ms: int) -> None:
        """Sends what was noted, and tells of what could not be sent."""
        self._background.send_now([self._outbox])
        unsent = self._outbox.leave(monotonic() + timeout_ms / 1000)
        process_exit.tell([unsent] if unsent is not None else [])

    def _check(self) -> None:
        self._origin.check()
        self._check_usable()

    def _check_usable(self) -> None:
        if self._outbox.closed:
            raise WriterClosed(writer=self._session.writer)
        if self._outbox.unheard is not None:
            self._outbox.raise_unheard()
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
    """A transaction of a `BackgroundWriter`. Leaving the `with` block without a commit aborts, and notes nothing."""

    def __init__(self, writer: BackgroundWriter, begun: Begun) -> None:
        self._writer = writer
        self._begun = begun

    def write(self, events: Iterable[Event], *, newest: Times | None = None) -> None:
        """Adds events, which no one sees before the commit; `newest` as in `Writer.write`."""
        rows = list(events)
        self._begun.transaction.write(rows)
        self._begun.written.add(len(rows), by_key(newest))

    def commit(self, time: Times | None = None) -> None:
        """Makes all of it durable and visible. Its time is noted like any other, with the position behind the commit.

        Without a time nothing is noted, and nothing held back; a commit that failed is a write that failed. The log
        keeps the time with the commit: if this process ends before the note is answered, the next one makes up for it
        when it registers. With a time it raises TransactionUnderWay while another transaction of the writer is open.
        Beside the clock, which may be noted too, a time counts that goes beyond it.
        """
        times = self._writer.before_commit(self._begun, by_key(time))
        memo = self._writer.session.memo_of(times) if times else None
        with self._writer.holding_back():
            self._begun.transaction.commit(memo)
        self._writer.ended(self._begun, times, committed=True)

    def abort(self) -> None:
        """Forgets all of it. Harmless when it is over already."""
        self._begun.transaction.abort()
        self._writer.ended(self._begun, {}, committed=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()
