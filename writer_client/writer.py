"""`Writer`, and `AsyncWriter` for asyncio: note time, and nothing else to think about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from strandline.client.http import AsyncConnection, Connection, reach, reach_async
from strandline.core.changes import Registered
from strandline.core.note import DEFAULT_KEY
from strandline.errors import StrandlineError
from strandline.fork import OwningProcess
from strandline.logs import Event, Log, Position
from strandline.wire.streams import NoteAnswer
from writer_client.batches import notes_of
from writer_client.loop import do, do_async
from writer_client.session import Job, Times, WriterSession
from writer_client.transactions import AsyncWriterTransaction, WriterTransaction

Value = TypeVar("Value")


class _Registration:
    """What a writer knows of its registration."""

    _session: WriterSession
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
    ) -> None:
        """`controller` is a URL, or a connection that is shared, which brings its own token and stays open. What is not
        given of `token`, `token_file` and `ca_file` comes from the environment, see `Connection`. With a `log` the
        writer takes its positions from there."""
        self._session = WriterSession(stream, name, keys, log)
        self._origin = OwningProcess(f"writer {name!r} of stream {stream!r}")
        self._connection, self._leave = reach(controller, token=token, token_file=token_file, ca_file=ca_file)

    def register(self) -> Registered:
        """Makes the writer hold time at its floor until it notes; an older registration of its name is fenced."""
        return self._do(self._session.register())

    def write(self, events: Iterable[Event], *, newest: Times | None = None) -> Position:
        """Appends events to the log; a writer that was idle registers before that.

        With `newest`, the greatest event time among them, given for all that is written, notes say by themselves how
        new the events are, for as long as nobody else writes to the log: reading from a time is exact then. Raises
        NoLog without a log, Fenced once another process has taken the writer's name, and the log's errors.
        """
        return self._do(self._session.write(events, newest))

    def note_time(
        self, time: Times, position: Mapping[str, int] | None = None, *, newest: Times | None = None
    ) -> NoteAnswer:
        """Notes that every event of this writer older than `time`, written or still to come, lies below `position`.

        Bound to a log it needs no position: it waits until all that was written is acknowledged, and notes where
        that ends. `time` may be an object of times by key; `newest` is the greatest event time below the position,
        where that is known: it does not go out with a position from a log that held events before this writer
        registered. Durable when it returns. Raises the controller's refusal, the log's errors, and TransactionUnderWay
        while a transaction is open, whose events no position covers.
        """
        return self._do(self._session.note_time(time, position, newest))

    def begin(self) -> WriterTransaction:
        """Begins a transaction, a context manager with `write` and `commit`. Raises what `write` does."""
        return WriterTransaction(self._session, self._do, self._do(self._session.begin()))

    def idle(self, position: Mapping[str, int] | None = None) -> None:
        """Says that nothing is to come for now: time no longer waits for this writer. What it wrote since its last
        note is noted first, up to `position`, or as the log has it. Raises NeverNoted without any time to note."""
        self._do(self._session.idle(position))

    def close(self, position: Mapping[str, int] | None = None) -> None:
        """Says that nothing is to come any more, the final position first, as in `idle`. Closing twice is once."""
        if not self._session.closed:
            self._do(self._session.close(position))
            self.release()

    def release(self) -> None:
        """Lets go of the connection, and tells the controller nothing. The writer cannot be used any more."""
        self._session.closed = True
        self._leave()

    def _do(self, job: Job[Value]) -> Value:
        self._origin.check()
        return do(job, self._connection)

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
    ) -> None:
        """See `Writer`."""
        self._session = WriterSession(stream, name, keys, log)
        self._origin = OwningProcess(f"writer {name!r} of stream {stream!r}")
        self._connection, self._leave = reach_async(controller, token=token, token_file=token_file, ca_file=ca_file)
        self._notes = notes_of(self._connection)

    async def register(self) -> Registered:
        """See `Writer.register`."""
        return await self._do(self._session.register())

    async def write(self, events: Iterable[Event], *, newest: Times | None = None) -> Position:
        """See `Writer.write`."""
        return await self._do(self._session.write(events, newest))

    async def note_time(
        self, time: Times, position: Mapping[str, int] | None = None, *, newest: Times | None = None
    ) -> NoteAnswer:
        """See `Writer.note_time`."""
        return await self._do(self._session.note_time(time, position, newest))

    async def begin(self) -> AsyncWriterTransaction:
        """See `Writer.begin`."""
        return AsyncWriterTransaction(self._session, self._do, await self._do(self._session.begin()))

    async def idle(self, position: Mapping[str, int] | None = None) -> None:
        """See `Writer.idle`."""
        await self._do(self._session.idle(position))

    async def close(self, position: Mapping[str, int] | None = None) -> None:
        """See `Writer.close`."""
        if not self._session.closed:
            await self._do(self._session.close(position))
            await self.release()

    async def release(self) -> None:
        """See `Writer.release`."""
        self._session.closed = True
        await self._leave()

    async def _do(self, job: Job[Value]) -> Value:
        self._origin.check()
        return await do_async(job, self._notes)

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
