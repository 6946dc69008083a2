"""`BackgroundWriter`: notes take the caller a few microseconds, and another thread sends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import Self, Unpack

from strandline.client.http import Connection, Reaching, check_left_out
from strandline.core.changes import Registered
from strandline.core.checks import check_options
from strandline.core.note import DEFAULT_KEY, check_key, check_position, check_time
from strandline.errors import PositionWentBack
from strandline.limits import SEGMENTS_PER_STREAM
from strandline.logs import Event, Log, Position
from writer_client import process_exit
from writer_client.automatic_notes import AutomaticTime
from writer_client.base_writer import DRAIN_DEFAULT_MS, BaseWriter
from writer_client.departure import Leaving
from writer_client.process_exit import EXIT_DRAIN_MS
from writer_client.reports import Report
from writer_client.sender import Background
from writer_client.session import Begun, Times, by_key, noted_times
from writer_client.transactions import WriterTransaction


class BackgroundWriter(BaseWriter):
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
        keys: Iterable[str] = (),
        log: Log | None = None,
        on_report: Callable[[Report], None] | None = None,
        automatically_note_time: AutomaticTime | bool = False,
        idle_after_ms: int | None = None,
        leaving: Leaving = "stay",
        **reaching: Unpack[Reaching],
    ) -> None:
        """Creates a writer of the stream `stream`, named `name`. It registers on entry, or when it first needs to.

        - `controller`: one or several URLs, see `Connection`; a connection; or a `Background`, which many writers in
          one process can share.
        - `keys`: the time keys that the writer notes.
        - `log`: the log to write to, which also provides the positions of notes.
        - `on_report`: called in the sending thread with each report; it must not wait for the writer.
        - `automatically_note_time`: note the clock every few seconds, from entry or registration on. `AutomaticTime`
          has the options, and the source of positions without a log.
        - `idle_after_ms`: go idle after this time without a write or a manual note, if no transaction is open. The
          writer registers again before its next write; events below its new floor are late.
        - `leaving`: what the end of the `with` block does: `"stay"`, `"idle"` or `"close"`, see `Writer`.
        - `token`, `token_file`, `ca_file`, `patience`: see `Connection`; a `Background` has its own.
        """
        super().__init__(stream, name, keys, log, on_report, automatically_note_time, idle_after_ms, leaving)
        check_options(reaching, Reaching.__annotations__, type(self))
        if isinstance(controller, Background):
            controller.check()
            check_left_out(reaching, Reaching.__annotations__, "a Background")
        self._owns_background = not isinstance(controller, Background)
        self._sender = controller if isinstance(controller, Background) else Background(controller, **reaching)
        self._connection = self._sender.connection

    _closes_by_name = False

    @property
    def _background(self) -> Background:
        return self._sender

    # -- writing -----------------------------------------------------------------------------------------------

    def write(self, events: Iterable[Event], *, newest: Times | None = None) -> Position:
        """Appends events to the log, as `Writer.write` does.

        An unregistered or idle writer registers first: the call then waits for the controller, and raises
        ControllerAway if it cannot be reached. After a failed write no note gets a position until `resume()`: that
        could cover events that were not written.
        """
        return self._write(events, newest)

    def begin(self) -> WriterTransaction:
        """Begins a transaction, as `Writer.begin` does. Registers like `write`."""
        return WriterTransaction(self._begin(), self._commit_and_note, self._aborted)

    # -- noting ------------------------------------------------------------------------------------------------

    def note_time(self, time: Times, position: Mapping[str, int] | None = None, *, newest: Times | None = None) -> None:
        """Notes time, as `Writer.note_time` does, but waits neither for the controller nor for the log.

        With a log, the writer holds the note until every write before it is acknowledged, and then sends it with a
        position that covers them. Raises an invalid time or position, TransactionUnderWay while a transaction is open,
        ManualNote if the writer notes time automatically, Fenced once another process has registered the name, and an
        earlier note's refusal that was not reported yet.
        """
        self._origin.check()
        session, machine = self._session, self._machine
        self._check_manual(position)
        times: Mapping[str, int] = {DEFAULT_KEY: time} if type(time) is int else noted_times(time)
        known = by_key(newest, newest=True) if newest is not None else {}
        with session.lock:
            self._check_usable()
            session.check_no_transaction("note_time()")
            self._check_note(times, known, position)
            if machine.clockwork.idle_after_ms is not None:
                machine.clockwork.active(monotonic())
            if position is None:
                machine.outbox.add(times, known, session.sent)
            else:
                machine.outbox.add_at(times, position, known)
        if not self._timed:
            self._start_timer()
        self._sender.attend(session)
        if process_exit.ended:
            self._send_at_exit()

    def wait_until_answered(self, timeout_ms: int = DRAIN_DEFAULT_MS) -> bool:
        """Waits until every note so far is answered: taken or refused. Returns False on timeout."""
        self._origin.check()
        return self._session.wait_until_answered(timeout_ms)

    # -- a writer's life ---------------------------------------------------------------------------------------

    def register(self, timeout_ms: int = DRAIN_DEFAULT_MS) -> Registered:
        """Registers now, as `Writer.register` does, and waits for the answer."""
        return self._register(timeout_ms)

    def idle(self, timeout_ms: int = DRAIN_DEFAULT_MS) -> None:
        """Waits until all notes are answered, and goes idle; see `Writer.idle`.

        Raises a refusal that was not reported yet, and on timeout the error that notes are stuck on, or NotDrained.
        """
        self._check()
        self._reach("idle", timeout_ms=timeout_ms)

    def close(self, timeout_ms: int = DRAIN_DEFAULT_MS) -> None:
        """Waits until all notes are answered, and closes the writer; see `Writer.close`.

        Raises a refusal that was not reported yet, and on timeout the error that notes are stuck on, or NotDrained; it
        can be called again.
        """
        self._origin.check()
        if self._session.is_released:
            return
        self._reach("close", timeout_ms=timeout_ms)
        self.release()

    def release(self) -> None:
        """Frees all resources without a call to the controller; standard error tells of a refusal that no call has
        raised. The writer cannot be used afterwards."""
        if not self._origin.is_here:
            return  # the parent process owns them
        process_exit.report(self._session.unraised())
        self._session.release()
        if self._owns_background:
            self._sender.close()

    def __enter__(self) -> Self:
        with self._session.lock:
            self._check_usable()
            self._machine.registration.wanted = True
        self._start_timer()
        self._sender.attend(self._session)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                if not self._session.is_released:  # the block may have closed the writer
                    self._reach(self._leaving)
            elif self._origin.is_here and not self._sender.is_own_thread():
                self._leave(EXIT_DRAIN_MS)
        except KeyboardInterrupt:
            self._leave(0)
            raise
        finally:
            self.release()

    # -- inside ------------------------------------------------------------------------------------------------

    def _check_usable(self) -> None:
        super()._check_usable()
        self._sender.check()

    def _commit_and_note(self, begun: Begun, time: Times | None) -> None:
        self._commit(begun, by_key(time), notes=True)
        self._attend_if_busy()
        if process_exit.ended:
            self._send_at_exit()

    def _send_at_exit(self) -> None:
        """An exit function notes when nobody waits for the background any longer."""
        if not self._sender.is_own_thread():
            process_exit.send([self._sender])

    def _check_note(
        self, times: Mapping[str, int], newest: Mapping[str, int], position: Mapping[str, int] | None
    ) -> None:
        is_small = position is None or (type(position) is dict and len(position) <= SEGMENTS_PER_STREAM)
        if len(times) == 1 and not newest and is_small:  # most notes: saves 3 µs
            for key, time in times.items():
                check_key(key)
                check_time("time", time)
            if position is not None:
                check_position(position)
        else:
            self._machine.note_of(times, position or {}, newest)  # raises what is no note
        machine = self._machine
        self._check_times(machine.outbox.last, times)
        if machine.owed:
            self._check_times(machine.owed, times)
        for segment, offset in (position or {}).items():
            before = machine.outbox.last_position.get(segment, 0)
            if offset < before:
                raise PositionWentBack(writer=machine.writer, segment=segment, offset=offset, stored_offset=before)

    def _leave(self, timeout_ms: int) -> None:
        """Sends waiting notes, and reports on standard error what could not be sent."""
        self._sender.send_now([self._session])
        process_exit.report(self._session.leave(monotonic() + timeout_ms / 1000))
