"""`Writer`, and `AsyncWriter` for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, assert_never

from strandline.client.http import AsyncConnection, Connection, reach, reach_async
from strandline.core.changes import Registered
from strandline.core.note import DEFAULT_KEY
from strandline.errors import StrandlineError
from strandline.fork import OwningProcess
from strandline.logs import Event, Log, Position
from strandline.wire.streams import NoteAnswer
from writer_client.automatic_notes import AutomaticTime, automatic_of
from writer_client.batches import notes_of
from writer_client.departure import Leaving, check_leaving
from writer_client.loop import do, do_async
from writer_client.session import Begun, Job, Times, WriterSession
from writer_client.transactions import AsyncWriterTransaction, WriterTransaction

if TYPE_CHECKING:
    from writer_client.clockwork import ClockTask, ClockThread, Clockwork
    from writer_client.reports import Report, Status

Value = TypeVar("Value")


class _Registration:
    """The registration of a writer, and its status."""

    _session: WriterSession
    _acts: WriterSession | Clockwork  # provides its jobs
    _clockwork: Clockwork | None = None  # does the automatic work
    _origin: OwningProcess

    @property
    def epoch(self) -> int | None:
        """The number of the registration; None before the first one."""
        return self._session.epoch

    @property
    def floor(self) -> int | None:
        """The floor of the default time key: no event of this writer with a time >= this is late. None before the
        first mark."""
        return self._session.floors.get(DEFAULT_KEY)

    @property
    def floors(self) -> Mapping[str, int | None]:
        """The floors by time key."""
        return self._session.floors

    @property
    def clock(self) -> int | None:
        """The controller's clock, as of its last answer. In the ingestion domain, note this time: read it before the
        position."""
        return self._session.clock

    @property
    def repaired(self) -> NoteAnswer | StrandlineError | None:
        """The answer to a note that registering made up for: an earlier process of this name committed a transaction
        and ended before it noted the time. None without such a transaction."""
        return self._session.repaired

    def status(self) -> Status:
        """Returns the status of notes, and what is known of late events. Cheap, and safe to call from any thread."""
        self._origin.check()
        if self._clockwork is not None:
            return self._clockwork.outbox.status()
        from writer_client.reports import Status  # keeps the import of a writer quick

        late = self._session.late
        return Status(
            epoch=self._session.epoch,
            noted=dict(self._session.times),
            late=late.late,
            floors=dict(late.floors),
            late_events=late.events,
        )

    def resume(self) -> None:
        """Continues after a failed or interrupted write: call it when the events are written, or never will be.

        Until then the writer notes no clock and does not go idle.
        """
        self._origin.check()
        if self._clockwork is not None:
            self._clockwork.outbox.resume()


class Writer(_Registration):
    """Writes to one stream, and notes its time at the controller. Use it from one thread at a time.

        with Writer("http://127.0.0.1:8433", "orders", "till-1", log=log) as writer:
            writer.write([Event(b'{"time": 1700000000000}', key=b"customer-7")])
            writer.note_time(1700000000001)      # every event of mine that is older is written; waits for the answer

    As a context manager it registers on entry. On exit it notes its final position, and does what `leaving` says: by
    default it stays counted, so the stream's time waits until a writer of this name notes again, or until the stream's
    `writer_timeout_ms` has passed. If the block raises, it stays in any case.
    """

    def __init__(
        self,
        controller: str | Sequence[str] | Connection,
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
        leaving: Leaving = "stay",
    ) -> None:
        """Creates a writer of the stream `stream`, named `name`. It registers on entry, or when it first needs to.

        - `controller`: one or several URLs, see `Connection`, or a shared connection, which has its own token and stays
          open.
        - `token`, `token_file`, `ca_file`: by default from the environment, see `Connection`.
        - `keys`: the time keys that the writer notes.
        - `log`: the log to write to, which also provides the positions of notes.
        - `automatically_note_time`: note the clock every few seconds after registration, in a separate thread.
          `AutomaticTime` has the options, and the source of positions without a log.
        - `idle_after_ms`: go idle after this time without a write or a note, if no transaction is open. The writer
          registers again before its next write.
        - `on_report`: called in that thread with each report of automatic work; it must not call the writer. Without
          it, the next call raises a refusal. `status` has the current state.
        - `leaving`: what the end of the `with` block does. `"stay"`: time waits for later processes of this name, so
          that nothing they write is late, for at most `writer_timeout_ms`. `"idle"`: time goes on until such a process
          registers; what it writes below its floor is late. `"close"`: the same for a name that does not come back.
        """
        self._leaving = check_leaving(leaving)
        automatic = automatic_of(automatically_note_time, name, log, idle_after_ms)
        self._session = self._acts = WriterSession(stream, name, keys, log, automatic)
        self._origin = OwningProcess(f"writer {name!r} of stream {stream!r}")
        self._connection, self._leave = reach(controller, token=token, token_file=token_file, ca_file=ca_file)
        self._clock: ClockThread | None = None
        if automatic is not None or idle_after_ms is not None:
            from writer_client.clockwork import ClockThread, Clockwork  # most writers do no automatic work

            self._acts = self._clockwork = Clockwork(
                self._session, automatic, idle_after_ms, on_report, self._connection.patience
            )
            self._clock = ClockThread(self._clockwork, self._connection)

    def register(self) -> Registered:
        """Registers the writer, which holds the stream's time at its floor until it notes. Fences older registrations
        of its name."""
        return self._do(self._acts.register())

    def write(self, events: Iterable[Event], *, newest: Times | None = None) -> Position:
        """Appends events to the log, and returns their position. An idle writer registers first.

        `newest` is the greatest event time among them. If every write gives it, and no other writer writes to the log,
        notes carry it, and reading from a time is exact. Raises NoLog without a log, Fenced once another process has
        registered the writer's name, and the log's errors.
        """
        return self._at_log(self._acts.write(events, newest))

    def note_time(
        self, time: Times, position: Mapping[str, int] | None = None, *, newest: Times | None = None
    ) -> NoteAnswer:
        """Notes that every event of this writer below `time`, written or still to come, lies below `position`.

        With a log, omit the position: the call waits until all writes are acknowledged, and notes where they end. The
        note is durable when the call returns.

        `time` is a number, or a mapping of times by key. `newest` is the greatest event time below the position, if
        known. It is not sent with a position from a log that held events before this writer registered.

        Raises the controller's refusal, the log's errors, ManualNote if the writer notes time automatically, and
        TransactionUnderWay while a transaction is open, since no position covers its events.
        """
        return self._do(self._acts.note_time(time, position, newest))

    def begin(self) -> WriterTransaction:
        """Begins a transaction: a context manager with `write` and `commit`. Raises the errors of `write`."""
        return WriterTransaction(self._at_log(self._acts.begin()), self._commit, self._aborted)

    def idle(self, position: Mapping[str, int] | None = None) -> None:
        """Goes idle: the stream's time no longer waits for this writer, until it registers again.

        First notes what was written since the last note, up to `position`, or up to the log's position. Raises
        NeverNoted if the writer has no time to note.
        """
        self._do(self._acts.idle(position))

    def close(self, position: Mapping[str, int] | None = None) -> None:
        """Closes the writer for good. First notes the final position, as `idle` does. A second call does nothing."""
        if not self._session.closed:
            self._do(self._acts.close(position))
            self.release()

    def release(self) -> None:
        """Closes the connection without a call to the controller. The writer cannot be used afterwards."""
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
            if kind is None and not self._session.closed:
                self._do(_left(self._acts, self._leaving))
        finally:
            self.release()


class AsyncWriter(_Registration):
    """`Writer` for asyncio. Use it from one task at a time. It calls the log in other threads.

        async with AsyncWriter("http://127.0.0.1:8433", "orders", "till-1", log=log) as writer:
            await writer.write([Event(b'{"time": 1700000000000}', key=b"customer-7")])
            await writer.note_time(1700000000001)

    Thousands of writers can share an AsyncConnection: concurrent notes go in one request.
    """

    def __init__(
        self,
        controller: str | Sequence[str] | AsyncConnection,
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
        leaving: Leaving = "stay",
    ) -> None:
        """See `Writer`. A task does the automatic work, from registration on. It calls `on_report` in the event loop,
        and `position` of `AutomaticTime` in another thread."""
        self._leaving = check_leaving(leaving)
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
            if kind is None and not self._session.closed:
                await self._do(_left(self._acts, self._leaving))
        finally:
            await self.release()


def _left(acts: WriterSession | Clockwork, leaving: Leaving) -> Job[None]:
    """Returns the job that the end of the `with` block does."""
    match leaving:
        case "stay":
            return acts.stay(None)
        case "idle":
            return acts.idle(None)
        case "close":
            return acts.close(None)
        case _:
            assert_never(leaving)
