"""`Writer`, and `AsyncWriter` for asyncio: note time, and nothing else to think about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from strandline.client.http import AsyncConnection, Connection, reach, reach_async
from strandline.core.changes import Registered
from strandline.core.note import DEFAULT_KEY
from strandline.errors import StrandlineError
from strandline.fork import OwningProcess
from strandline.logs import Event, Log, Position
from strandline.wire.streams import NoteAnswer
from writer_client.automatic_notes import AutomaticTime, automatic_of
from writer_client.batches import notes_of
from writer_client.loop import do, do_async
from writer_client.session import Begun, Job, Times, WriterSession
from writer_client.transactions import AsyncWriterTransaction, WriterTransaction

if TYPE_CHECKING:
    from writer_client.clockwork import ClockTask, ClockThread, Clockwork
    from writer_client.reports import Report, Status

Value = TypeVar("Value")


class _Registration:
    """What a writer knows of its registration."""

    _session: WriterSession
    _acts: WriterSession | Clockwork  # what does its jobs
    _clockwork: Clockwork | None = None  # what it does by itself
    _origin: OwningProcess

    @property
    def epoch(self) -> int | None:
        """Null before the first registration."""
        return self._session.epoch

    @property
    def floor(self) -> int | None:
        """At or above this time nothing that this writer has is late, for the default time key. Null: no mark was
        made yet."""
        return self._session.floors.get(DEFAULT_KEY)

    @property
    def floors(self) -> Mapping[str, int | None]:
        """The floors by time key."""
        return self._session.floors

    @property
    def clock(self) -> int | None:
        """The clock of the stream's owner, as of its last answer. In the ingestion domain this is the time to note:
        read it before the position."""
        return self._session.clock

    @property
    def repaired(self) -> NoteAnswer | StrandlineError | None:
        """What came of noting, on registering, the time of a transaction that an earlier process of this name
        committed and did not live to note. Null: there was none."""
        return self._session.repaired

    def status(self) -> Status:
        """How the notes stand that the writer makes by itself; a note by hand is answered by its call. Cheap, and from
        any thread."""
        self._origin.check()
        if self._clockwork is not None:
            return self._clockwork.outbox.status()
        from writer_client.reports import Status  # importing a writer stays as quick as it was

        return Status(epoch=self._session.epoch, noted=dict(self._session.times))

    def resume(self) -> None:
        """Says that what failed to be written was written again, or never will be: after a write that failed, or was
        interrupted, the clock is not noted, and the writer does not go idle, before that."""
        self._origin.check()
        if self._clockwork is not None:
            self._clockwork.outbox.resume()


class Writer(_Registration):
    """Tells the controller how far one writer of a stream has come. For one thread at a time.

    As a context manager it registers on entering and closes on leaving, its final position first. Where the block
    ends with an exception it does not close: time waits for what it still had to write until it comes back, or
    the stream's `writer_timeout_ms` has passed.
    """

    def __init__(
        self,
        controller: str | Connection,
        stream: str,
        name: str,
        *,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
        keys: Iterable[str] = (),
        log: Log | None = None,
        automatically_note_time: AutomaticTime | bool = False,
        idle_after_ms: int | None = None,
        on_report: Callable[[Report], None] | None = None,
    ) -> None:
        """`controller` is a URL, or a connection that is shared, which brings its own token and stays open. What is not
        given of `token`, `token_file` and `ca_file` comes from the environment, see `Connection`. With a `log` the
        writer takes its positions from there.

        With `automatically_note_time` the writer notes the clock every few seconds, in a thread of its own, from its
        registration on: see `AutomaticTime`, which has where the positions come from without a log, too. With
        `idle_after_ms` it says idle by itself when it has written and noted nothing for so long and has no transaction
        open, and registers before it writes again. See `status` for how that stands; `on_report` hears of it, in that
        thread, and must not call the writer. Without `on_report` a refusal is raised by the next call.
        """
        automatic = automatic_of(automatically_note_time, name, log, idle_after_ms)
        self._session = self._acts = WriterSession(stream, name, keys, log, automatic)
        self._origin = OwningProcess(f"writer {name!r} of stream {stream!r}")
        self._connection, self._leave = reach(controller, token=token, token_file=token_file, ca_file=ca_file)
        self._clock: ClockThread | None = None
        if automatic is not None or idle_after_ms is not None:
            from writer_client.clockwork import ClockThread, Clockwork  # most writers do nothing by themselves

            self._acts = self._clockwork = Clockwork(
                self._session, automatic, idle_after_ms, on_report, self._connection.patience
            )
            self._clock = ClockThread(self._clockwork, self._connection)

    def register(self) -> Registered:
        """Makes the writer hold time at its floor until it notes; an older registration of its name is fenced."""
        return self._do(self._acts.register())

    def write(self, events: Iterable[Event], *, newest: Times | None = None) -> Position:
        """Appends events to the log; a writer that was idle registers before that.

        With `newest`, the greatest event time among them, given for all that is written, notes say by themselves how
        new the events are, for as long as nobody else writes to the log: reading from a time is exact then. Raises
        NoLog without a log, Fenced once another process has taken the writer's name, and the log's errors.
        """
        return self._at_log(self._acts.write(events, newest))

    def note_time(
        self, time: Times, position: Mapping[str, int] | None = None, *, newest: Times | None = None
    ) -> NoteAnswer:
        """Notes that every event of this writer older than `time`, written or still to come, lies below `position`.

        Bound to a log it needs no position: it waits until all that was written is acknowledged, and notes where
        that ends. `time` may be an object of times by key; `newest` is the greatest event time below the position,
        where that is known: it does not go out with a position from a log that held events before this writer
        registered. Durable when it returns. Raises the controller's refusal, the log's errors, ManualNote where time is
        noted automatically, and TransactionUnderWay while a transaction is open, whose events no position covers.
        """
        return self._do(self._acts.note_time(time, position, newest))

    def begin(self) -> WriterTransaction:
        """Begins a transaction, a context manager with `write` and `commit`. Raises what `write` does."""
        return WriterTransaction(self._at_log(self._acts.begin()), self._commit, self._aborted)

    def idle(self, position: Mapping[str, int] | None = None) -> None:
        """Says that nothing is to come for now: time no longer waits for this writer. What it wrote since its last
        note is noted first, up to `position`, or as the log has it. Raises NeverNoted without any time to note."""
        self._do(self._acts.idle(position))

    def close(self, position: Mapping[str, int] | None = None) -> None:
        """Says that nothing is to come any more, the final position first, as in `idle`. Closing twice is once."""
        if not self._session.closed:
            self._do(self._acts.close(position))
            self.release()

    def release(self) -> None:
        """Lets go of the connection, and tells the controller nothing. The writer cannot be used any more."""
        if self._clock is not None and self._origin.is_here:
            self._clock.stop()
        self._session.closed = True
        self._leave()

    def _do(self, job: Job[Value]) -> Value:
        self._origin.check()
        return do(job, self._connection) if self._clock is None else self._clock.call(job)

    def _at_log(self, job: Job[Value]) -> Value:
        self._origin.check()
        return do(job, self._connection) if self._clock is None else self._clock.at_log(job)

    def _commit(self, begun: Begun, time: Times | None) -> NoteAnswer | None:
        job = self._acts.commit(begun, time)
        try:
            return self._at_log(job) if time is None else self._do(job)
        finally:
            if self._clock is not None:
                self._clock.wake()

    def _aborted(self, begun: Begun) -> None:
        self._acts.ended(begun, committed=False)
        if self._clock is not None:
            self._clock.wake()

    def __enter__(self) -> Self:
        try:
            self.register()
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self.release()


class AsyncWriter(_Registration):
    """`Writer` for asyncio, for one task at a time. The log is called in other threads.

    Thousands may share an AsyncConnection: notes that are made at the same time go in one request.
    """

    def __init__(
        self,
        controller: str | AsyncConnection,
        stream: str,
        name: str,
        *,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
        keys: Iterable[str] = (),
        log: Log | None = None,
        automatically_note_time: AutomaticTime | bool = False,
        idle_after_ms: int | None = None,
        on_report: Callable[[Report], None] | None = None,
    ) -> None:
        """See `Writer`. What it does by itself is done by a task, from its registration on. `on_report` is called in
        the event loop, `position` of `AutomaticTime` in another thread."""
        automatic = automatic_of(automatically_note_time, name, log, idle_after_ms)
        self._session = self._acts = WriterSession(stream, name, keys, log, automatic)
        self._origin = OwningProcess(f"writer {name!r} of stream {stream!r}")
        self._connection, self._leave = reach_async(controller, token=token, token_file=token_file, ca_file=ca_file)
        self._notes = notes_of(self._connection)
        self._clock: ClockTask | None = None
        if automatic is not None or idle_after_ms is not None:
            from writer_client.clockwork import ClockTask, Clockwork

            self._acts = self._clockwork = Clockwork(
                self._session, automatic, idle_after_ms, on_report, self._notes.patience
            )
            self._clock = ClockTask(self._clockwork, self._notes)

    async def register(self) -> Registered:
        """See `Writer.register`."""
        return await self._do(self._acts.register())

    async def write(self, events: Iterable[Event], *, newest: Times | None = None) -> Position:
        """See `Writer.write`."""
        return await self._at_log(self._acts.write(events, newest))

    async def note_time(
        self, time: Times, position: Mapping[str, int] | None = None, *, newest: Times | None = None
    ) -> NoteAnswer:
        """See `Writer.note_time`."""
        return await self._do(self._acts.note_time(time, position, newest))

    async def begin(self) -> AsyncWriterTransaction:
        """See `Writer.begin`."""
        return AsyncWriterTransaction(await self._at_log(self._acts.begin()), self._commit, self._aborted)

    async def idle(self, position: Mapping[str, int] | None = None) -> None:
        """See `Writer.idle`."""
        await self._do(self._acts.idle(position))

    async def close(self, position: Mapping[str, int] | None = None) -> None:
        """See `Writer.close`."""
        if not self._session.closed:
            await self._do(self._acts.close(position))
            await self.release()

    async def release(self) -> None:
        """See `Writer.release`."""
        if self._clock is not None and self._origin.is_here:
            await self._clock.stop()
        self._session.closed = True
        await self._leave()

    async def _do(self, job: Job[Value]) -> Value:
        self._origin.check()
        return await (do_async(job, self._notes) if self._clock is None else self._clock.call(job))

    async def _at_log(self, job: Job[Value]) -> Value:
        self._origin.check()
        return await (do_async(job, self._notes) if self._clock is None else self._clock.at_log(job))

    async def _commit(self, begun: Begun, time: Times | None) -> NoteAnswer | None:
        job = self._acts.commit(begun, time)
        try:
            return await (self._at_log(job) if time is None else self._do(job))
        finally:
            if self._clock is not None:
                self._clock.wake()

    def _aborted(self, begun: Begun) -> None:
        self._acts.ended(begun, committed=False)
        if self._clock is not None:
            self._clock.wake()

    async def __aenter__(self) -> Self:
        try:
            await self.register()
        except BaseException:
            await self.release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self.close()
        finally:
            await self.release()
