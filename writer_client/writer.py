"""`Writer`, and `AsyncWriter` for asyncio: they flush the log, leave the note to the background, and wait for its
answer. A failed note is not sent again after its caller knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from functools import cached_property, partial
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar, Unpack, assert_never

from strandline.client.http import Connection, Reaching, reach
from strandline.client.loop import Local, drive, drive_async, local
from strandline.core.changes import Registered
from strandline.core.note import DEFAULT_KEY
from strandline.errors import ControllerAway, Refused, StrandlineError
from strandline.logs import Event, Log, Position
from strandline.wire.streams import NoteAnswer
from writer_client import process_exit
from writer_client.automatic_notes import AutomaticTime
from writer_client.base_writer import BaseWriter
from writer_client.departure import Leaving
from writer_client.errors import CommittedWithoutNote
from writer_client.machine import Aim
from writer_client.reports import Report
from writer_client.sender import Background, background_of
from writer_client.session import Begun, Times, by_key, noted_times
from writer_client.transactions import AsyncWriterTransaction, WriterTransaction

RELEASE_DRAIN_MS: Final = 5_000  # how long `Writer.release` waits for an automatic note under way

Value = TypeVar("Value")


class Append(Local):
    """Work that writes to the log. If its wait is cancelled, nobody knows whether it wrote: notes are held back."""


@dataclass(frozen=True, slots=True)
class AwaitAnswer:
    """A step that has a note sent, and waits for its answer."""

    answered: Future[NoteAnswer]


Step: TypeAlias = Local | AwaitAnswer
Job: TypeAlias = Generator[Step, Any, Value]


class _WaitingWriter(BaseWriter):
    """The common part of `Writer` and `AsyncWriter`."""

    _sender: Background | None = None
    _leave_sender: Callable[..., None]
    _leave: Callable[[], None]
    _interrupted = False  # while it waited for an answer

    def __init__(
        self,
        controller: str | Sequence[str] | Connection,
        stream: str,
        name: str,
        *,
        keys: Iterable[str] = (),
        log: Log | None = None,
        automatically_note_time: AutomaticTime | bool = False,
        idle_after_ms: int | None = None,
        on_report: Callable[[Report], None] | None = None,
        leaving: Leaving = "stay",
        **reaching: Unpack[Reaching],
    ) -> None:
        """Creates a writer of the stream `stream`, named `name`. It registers on entry, or when it first needs to.

        - `controller`: one or several URLs, see `Connection`, or a shared connection, which has its own token and stays
          open.
        - `keys`: the time keys that the writer notes.
        - `log`: the log to write to, which also provides the positions of notes.
        - `automatically_note_time`: note the clock every few seconds after registration. `AutomaticTime` has the
          options, and the source of positions without a log.
        - `idle_after_ms`: go idle after this time without a write or a note, if no transaction is open. The writer
          registers again before its next write.
        - `on_report`: called in a thread that sends notes, or in the event loop, with each report, except the refusal
          of a note that is waited for; it must not call the writer. Without it, the next call raises a refusal of the
          clock. `status` has the current state.
        - `leaving`: what the end of the `with` block does. `"stay"`: time waits for later processes of this name, so
          that nothing they write is late, for at most `writer_timeout_ms`. `"idle"`: time goes on until such a process
          registers; what it writes below its floor is late. `"close"`: the same for a name that does not come back.
        - `token`, `token_file`, `ca_file`, `patience`: see `Connection`.
        """
        report = None if on_report is None else partial(self._report, on_report)
        super().__init__(stream, name, keys, log, report, automatically_note_time, idle_after_ms, leaving)
        self._connection, self._leave = reach(controller, reaching, type(self))

    def _report(self, on_report: Callable[[Report], None], report: Report) -> None:
        on_report(report)

    @property
    def _background(self) -> Background:
        """Begins with the first note, so that a writer without notes has no threads."""
        if self._sender is None:
            self._sender, self._leave_sender = background_of(self._connection)
        return self._sender

    @property
    def floor(self) -> int | None:
        """The floor of the default time key: no event of this writer with a time >= this is late. None before the
        first mark."""
        return self._machine.registration.floors.get(DEFAULT_KEY)

    @property
    def clock(self) -> int | None:
        """The controller's clock, as of its last answer. In the ingestion domain, note this time: read it before the
        position."""
        return self._machine.registration.clock

    def _check_note(self, position: Mapping[str, int] | None) -> None:
        self._check()
        self._check_manual(position)
        self._session.check_no_transaction("note_time()")

    def _add_note(
        self, times: Mapping[str, int], own: Position | None, position: Mapping[str, int], newest: Mapping[str, int]
    ) -> Future[NoteAnswer]:
        """Notes times at the log's position `own`, or at one from the caller. The future has the answer."""
        session, machine = self._session, self._machine
        answered = Future[NoteAnswer]()
        with session.event():
            if own is not None:
                position, newest = own, machine.known(own, newest)
            self._check_times(machine.owed, times)
            times = machine.with_owed(times)
            machine.note_of(times, position, newest)  # raises what is no note
            machine.outbox.add_at(times, position, newest, (answered,))
        return answered

    def _without_note(self, times: Mapping[str, int], error: StrandlineError) -> CommittedWithoutNote:
        """Returns the error of a commit whose note was not taken, and has the times noted later."""
        refused, machine = isinstance(error, Refused), self._machine
        if not refused and machine.clockwork.automatic is not None:
            with self._session.lock:
                machine.repeat(times, self._session.sent)
            self._background.attend(self._session)
        return CommittedWithoutNote(writer=machine.writer, reason=str(error), refused=refused)

    def _end(self, aim: Aim, position: Mapping[str, int] | None = None) -> None:
        """Goes idle, closes or stays. A failed write holds back only the notes of the clock."""
        self._origin.check()
        if self._machine.clockwork.automatic is None:
            self._session.resume()
        if self._session.is_busy:
            self._background.attend_at_once([self._session])
        self._reach(aim, position)

    def _close_and_release(self, position: Mapping[str, int] | None) -> None:
        self._end("close", position)
        self._release()

    def _release(self) -> None:
        if self._origin.is_here:
            left = self._session.leave(monotonic() + RELEASE_DRAIN_MS / 1000, patient=False)
            self._session.release()
            process_exit.report(left)
            if self._sender is not None:
                self._sender = None
                self._leave_sender(wait=not self._interrupted)
        self._leave()

    # -- the jobs of both classes --------------------------------------------------------------------------------

    def _writing(self, events: Iterable[Event], newest: Times | None) -> Job[Position]:
        position: Position = yield Append(partial(self._write, events, newest))
        return position

    def _noting(self, time: Times, position: Mapping[str, int] | None, newest: Times | None) -> Job[NoteAnswer]:
        self._check_note(position)
        times = noted_times(time)
        with self._session.writing() as ready:
            if not ready:
                yield from local(self._hold)
            known, sent = by_key(newest, newest=True), self._session.sent
            own = (yield from local(self._session.flush)) if position is None else None
            self._session.resume()  # by noting, the caller confirms that its events are written
            if sent != self._session.sent:  # by other threads: they may lie below the position, and be newer
                known = {}
            answered = self._add_note(times, own, position or {}, known)
        answer: NoteAnswer = yield AwaitAnswer(answered)
        return answer

    def _going_idle(self, position: Mapping[str, int] | None) -> Job[None]:
        self._check()
        yield from local(partial(self._end, "idle", position))

    def _closing(self, position: Mapping[str, int] | None) -> Job[None]:
        if not self._session.is_closed:
            yield from local(partial(self._close_and_release, position))

    def _committing(self, begun: Begun, time: Times | None) -> Job[NoteAnswer | None]:
        times: Mapping[str, int] = yield Append(partial(self._commit, begun, by_key(time), notes=False))
        self._attend_if_busy()
        if not times:
            return None
        try:
            own = yield from local(self._session.flush)  # writes beside it may be under way
            answer: NoteAnswer = yield AwaitAnswer(self._add_note(times, own, {}, {}))
            return answer
        except StrandlineError as error:
            raise self._without_note(times, error) from error


class Writer(_WaitingWriter):
    """Writes to one stream, and notes its time at the controller. Use it from one thread at a time.

        with Writer("http://127.0.0.1:8433", "orders", "till-1", log=log) as writer:
            writer.write([Event(b'{"time": 1700000000000}', key=b"customer-7")])
            writer.note_time(1700000000001)      # every event of mine that is older is written; waits for the answer

    As a context manager it registers on entry. On exit it notes its final position, and does what `leaving` says: by
    default it stays counted, so the stream's time waits until a writer of this name notes again, or until the stream's
    `writer_timeout_ms` has passed. If the block raises, it stays in any case.
    """

    def register(self) -> Registered:
        """Registers the writer, which holds the stream's time at its floor until it notes. Fences older registrations
        of its name."""
        return self._run(local(self._register))

    def write(self, events: Iterable[Event], *, newest: Times | None = None) -> Position:
        """Appends events to the log, and returns their position. An idle writer registers first.

        `newest` is the greatest event time among them. If every write gives it, and no other writer writes to the log,
        notes carry it, and reading from a time is exact. Raises NoLog without a log, Fenced once another process has
        registered the writer's name, and the log's errors.
        """
        return self._run(self._writing(events, newest))

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
        return self._run(self._noting(time, position, newest))

    def begin(self) -> WriterTransaction:
        """Begins a transaction: a context manager with `write` and `commit`. Raises the errors of `write`."""
        return WriterTransaction(self._run(local(self._begin)), self._commit_and_wait, self._aborted)

    def idle(self, position: Mapping[str, int] | None = None) -> None:
        """Goes idle: the stream's time no longer waits for this writer, until it registers again.

        First notes what was written since the last note, up to `position`, or up to the log's position. Raises
        TransactionUnderWay while a transaction is open.
        """
        self._run(self._going_idle(position))

    def close(self, position: Mapping[str, int] | None = None) -> None:
        """Closes the writer for good. First notes the final position, as `idle` does. A second call does nothing."""
        self._run(self._closing(position))

    def release(self) -> None:
        """Closes the connection without a call to the controller. The writer cannot be used afterwards."""
        self._release()

    def _commit_and_wait(self, begun: Begun, time: Times | None) -> NoteAnswer | None:
        return self._run(self._committing(begun, time))

    def _run(self, job: Job[Value]) -> Value:
        def take(step: Step) -> Any:
            match step:
                case Local(work):
                    return work()
                case AwaitAnswer(answered):
                    return self._answer(answered)
                case _:
                    assert_never(step)

        try:
            return drive(job, take)
        except StrandlineError as error:  # without the steps of the call: its sentence is enough
            raise error.with_traceback(None) from error.__cause__

    def _answer(self, answered: Future[NoteAnswer]) -> NoteAnswer:
        try:
            self._background.attend_at_once([self._session])
            return answered.result()
        except ControllerAway as error:
            raise error.with_traceback(None) from None  # where it arose in here is of no use
        finally:
            if not answered.done():  # Ctrl-C
                self._interrupted = True
                answered.cancel()

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
            if kind is None and not self._session.is_closed:
                self._end(self._leaving)
        finally:
            self.release()


class AsyncWriter(_WaitingWriter):
    """`Writer` for asyncio. Use it from one task at a time. It calls the log in other threads: what a cancelled call
    has begun there goes on, and the next call waits for its end.

        async with AsyncWriter("http://127.0.0.1:8433", "orders", "till-1", log=log) as writer:
            await writer.write([Event(b'{"time": 1700000000000}', key=b"customer-7")])
            await writer.note_time(1700000000001)

    Thousands of writers can share a Connection: concurrent notes go in one request.
    """

    _loop: asyncio.AbstractEventLoop | None = None

    @cached_property
    def _turn(self) -> asyncio.Lock:
        """Held by the call that has work in another thread."""
        return asyncio.Lock()

    async def register(self) -> Registered:
        """See `Writer.register`."""
        return await self._run(local(self._register))

    async def write(self, events: Iterable[Event], *, newest: Times | None = None) -> Position:
        """See `Writer.write`."""
        return await self._run(self._writing(events, newest))

    async def note_time(
        self, time: Times, position: Mapping[str, int] | None = None, *, newest: Times | None = None
    ) -> NoteAnswer:
        """See `Writer.note_time`."""
        return await self._run(self._noting(time, position, newest))

    async def begin(self) -> AsyncWriterTransaction:
        """See `Writer.begin`."""
        begun = await self._run(local(self._begin))
        return AsyncWriterTransaction(begun, self._commit_and_wait, self._aborted, in_turn=self._in_turn)

    async def idle(self, position: Mapping[str, int] | None = None) -> None:
        """See `Writer.idle`."""
        await self._run(self._going_idle(position))

    async def close(self, position: Mapping[str, int] | None = None) -> None:
        """See `Writer.close`."""
        await self._run(self._closing(position))

    async def _commit_and_wait(self, begun: Begun, time: Times | None) -> NoteAnswer | None:
        return await self._run(self._committing(begun, time))

    async def release(self) -> None:
        """See `Writer.release`."""
        try:
            async with self._turn:
                pass
        finally:
            await asyncio.to_thread(self._release)

    async def _answer(self, answered: Future[NoteAnswer]) -> NoteAnswer:
        self._background.attend_after_turn(self._session, asyncio.get_running_loop())
        try:
            return await asyncio.wrap_future(answered)
        except asyncio.CancelledError:
            self._interrupted = True
            raise
        except ControllerAway as error:
            raise error.with_traceback(None) from None

    async def _run(self, job: Job[Value]) -> Value:
        self._origin.check()
        self._loop = asyncio.get_running_loop()  # for the reports

        async def take(step: Step) -> Any:
            match step:
                case Append(work):  # its events are as old as this moment, whenever a thread is free for them
                    with self._session.writing(), self._session.holding_back(cancelled_only=True):
                        return await self._in_turn(work)
                case Local(work):
                    return await self._in_turn(work)
                case AwaitAnswer(answered):
                    return await self._answer(answered)
                case _:
                    assert_never(step)

        try:
            return await drive_async(job, take)
        except StrandlineError as error:
            raise error.with_traceback(None) from error.__cause__

    async def _in_turn(self, work: Callable[[], Value]) -> Value:
        """Runs work in another thread, after that of calls before it, cancelled ones too."""

        def ended(done: asyncio.Future[Value]) -> None:
            self._turn.release()
            done.exception()  # a cancelled call raises none, and asyncio would warn of it

        await self._turn.acquire()
        done = asyncio.get_running_loop().run_in_executor(None, copy_context().run, work)
        done.add_done_callback(ended)
        return await asyncio.shield(done)

    def _report(self, on_report: Callable[[Report], None], report: Report) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(on_report, report)

    async def __aenter__(self) -> Self:
        try:
            await self.register()
        except BaseException:
            await asyncio.to_thread(self._release)  # at once: it has written nothing
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._session.is_closed:
                await self._run(local(partial(self._end, self._leaving)))
        finally:
            await self.release()
