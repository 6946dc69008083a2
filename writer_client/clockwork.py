"""The automatic work of a `Writer` or `AsyncWriter`: it notes the clock, and goes idle.

The rules are those of the background writer's outbox. A thread or a task runs `turn()` when something is due. Each call
to the controller has one attempt; a later turn repeats a failed one after a pause. Turns and calls of the writer that
need the controller exclude each other. Writes run beside a turn, except while the turn goes idle.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from time import monotonic
from typing import TypeVar

from strandline.client.http import Connection
from strandline.client.loop import local
from strandline.client.retry import Patience
from strandline.core.changes import Registered
from strandline.logs import Event, Position
from strandline.wire.streams import NoteAnswer
from writer_client import process_exit
from writer_client.automatic_notes import AutomaticTime
from writer_client.batches import AsyncNotes, count_for_batch
from writer_client.errors import CommittedWithoutNote, ManualNote
from writer_client.limits import CLOCK_JOIN_MS, TRANSACTION_LOOK_MS
from writer_client.loop import do, do_async
from writer_client.outbox import Answered, Outbox
from writer_client.process_exit import Left
from writer_client.reports import Report
from writer_client.session import Begun, Job, Times, WriterSession, by_key

Value = TypeVar("Value")

_log = logging.getLogger(__name__)


class Clockwork:
    """The jobs of a writer that notes the clock or goes idle automatically: its turns, and the writer's calls."""

    def __init__(
        self,
        session: WriterSession,
        automatic: AutomaticTime | None,
        idle_after_ms: int | None,
        on_report: Callable[[Report], None] | None,
        patience: Patience,
    ) -> None:
        self.outbox = Outbox(session, automatic, on_report, idle_after_ms)
        self._session = session
        self._patience = patience
        self._rests = idle_after_ms is not None
        self._note_at = self._rest_at = 0.0  # of `monotonic`
        self._flush_at: float | None = None
        self._failures = 0
        self._not_before = 0.0

    # -- turns -------------------------------------------------------------------------------------------------

    def turn(self) -> Job[float | None]:
        """Does what is due. Returns the seconds until something is due again, or None for never."""
        now = monotonic()
        outbox = self.outbox
        if self._flush_at is not None and now >= self._flush_at:
            self._flush_at = None
            outbox.flush_again()
        if outbox.automatic is not None and now >= self._note_at:
            period_ms = outbox.note_automatically()
            due = self._note_at or now
            self._note_at = max(due + period_ms / 1000, now) if period_ms is not None else inf
        if now >= self._not_before:
            again = yield from self._send()
            self._failures = self._failures + 1 if again else 0
            self._not_before = monotonic() + self._pause_s() if again else 0.0
        if self._rests and now >= self._rest_at:
            yield from self._rest(now)
        dues = [self._not_before] if self._not_before else []
        dues += [self._note_at] if outbox.automatic is not None else []
        dues += [self._rest_at] if self._rests else []
        dues += [self._flush_at] if self._flush_at is not None else []
        return max(0.0, min(dues) - monotonic()) if min(dues) < inf else None

    def hurry(self) -> None:
        """Lets the next turn repeat what failed, without a pause."""
        self._not_before = 0.0

    def _send(self) -> Job[bool]:
        """Registers, flushes the log and sends notes, as needed. Returns whether a call to the controller must be
        repeated."""
        outbox = self.outbox
        while True:
            todo = outbox.next_step()
            if todo.register is not None:
                done, error = yield from _outcome(todo.register)
                if outbox.registered(done, error):
                    return True
            if todo.flush is not None:
                outbox.flush_begins()
                own, error = yield from _outcome(local(todo.flush.flush))
                if outbox.flushed(own, error):
                    self._flush_at = monotonic() + TRANSACTION_LOOK_MS / 1000
            if todo.send and (yield from self._send_notes()):
                return True
            if todo.register is None and todo.flush is None and not todo.send:
                return False

    def _send_notes(self) -> Job[bool]:
        notes = self.outbox.notes_to_send()
        count = count_for_batch([addressed.size_bytes for _, addressed in notes])
        self.outbox.keep([pending for pending, _ in notes[count:]])
        if not count:  # the writer was closed meanwhile
            return False
        answer, error = yield from _outcome(self._session.sending([addressed for _, addressed in notes[:count]]))
        results: Sequence[NoteAnswer | Exception | None] = answer.value if answer is not None else [error] * count
        answers: list[Answered] = []
        for (pending, addressed), result in zip(notes[:count], results, strict=True):
            assert result is not None
            answers.append((pending, addressed, result))
        return self.outbox.answered(answers, answer.clock if answer is not None else None)

    def _rest(self, now: float) -> Job[None]:
        """`now` is when the turn began: of a write since then the clock is yet to be noted."""
        again_ms, job = self.outbox.rest(now)
        if job is not None:
            _, error = yield from _outcome(job)
            again_ms = self.outbox.rested(error)
        self._rest_at = monotonic() + again_ms / 1000 if again_ms is not None else inf

    def _pause_s(self) -> float:
        """Returns the next pause: longer after each failure, and random."""
        return self._patience.pause_ms(self._failures, random.random()) / 1000

    # -- calls of the writer -----------------------------------------------------------------------------------

    @property
    def is_registered(self) -> bool:
        return self._session.holds

    def hold(self) -> Job[None]:
        return self._session.hold()

    def register(self) -> Job[Registered]:
        return self._session.register()

    def write(self, events: Iterable[Event], newest: Times | None) -> Job[Position]:
        """Runs between `write_begins` and `write_ends` of the outbox, like every job that uses the log."""
        session, outbox = self._session, self.outbox
        log = session.bound_log("write()")
        rows = list(events)
        session.check_usable()
        with outbox.holding_back():
            position = yield from local(lambda: log.append(rows))
            with outbox.changed:
                session.wrote(len(rows), by_key(newest, newest=True), outbox.last)
        return position

    def begin(self) -> Job[Begun]:
        log = self._session.bound_log("begin()")
        self._session.check_usable()
        return self.outbox.begins((yield from local(log.begin)))

    def commit(self, begun: Begun, time: Times | None) -> Job[NoteAnswer | None]:
        """Commits, and notes a time beyond the clock. If that note is not answered, a later turn repeats it."""
        session, outbox = self._session, self.outbox
        yield from session.hold()
        times = by_key(time)
        if times:
            session.check_commit(begun, times, may_be_passed=outbox.automatic is not None)
            times = times if outbox.automatic is None else outbox.beyond_the_clock(times)
        memo = session.memo_of(times) if times else None
        with outbox.holding_back():
            yield from local(lambda: begun.transaction.commit(memo))
            outbox.ended(begun, {}, committed=True)
        if not times:
            return None
        try:
            answer = yield from session.note_commit(times)
        except CommittedWithoutNote as error:
            if outbox.automatic is not None and not error.refused:
                outbox.repeat(times)
            raise
        outbox.drop_covered(times)
        return answer

    def ended(self, begun: Begun, *, committed: bool) -> None:
        self.outbox.ended(begun, {}, committed=committed)

    def note_time(self, time: Times, position: Mapping[str, int] | None, newest: Times | None) -> Job[NoteAnswer]:
        automatic = self.outbox.automatic
        if automatic is not None:
            raise ManualNote(writer=self._session.writer, period_ms=automatic.period_ms)
        answer = yield from self._session.note_time(time, position, newest)
        self.outbox.resume()  # by noting, the caller confirms that its events are written
        return answer

    def idle(self, position: Mapping[str, int] | None) -> Job[None]:
        said = self.outbox.times_to_close()
        yield from self._session.idle(position, said)
        self.outbox.settled()

    def close(self, position: Mapping[str, int] | None) -> Job[None]:
        said = self.outbox.times_to_close()
        if self.outbox.has_given_positions:  # it may have written before it registered
            yield from self._session.hold()
        yield from self._session.close(position, said)
        self.outbox.settled()

    def stay(self, position: Mapping[str, int] | None) -> Job[None]:
        said = self.outbox.times_to_close()
        yield from self._session.stay(position, said)
        self.outbox.settled()

    def release(self) -> None:
        """Ends noting, and reports on standard error unsent notes, and a refusal that no call raised."""
        left = self.outbox.left()
        self.outbox.release()
        process_exit.report(left)


def _outcome(job: Job[Value]) -> Job[tuple[Value | None, Exception | None]]:
    try:
        return (yield from job), None
    except Exception as error:
        return None, error


class ClockThread:
    """Runs the turns of a `Writer` in a thread."""

    def __init__(self, clockwork: Clockwork, connection: Connection) -> None:
        self._turn = threading.Lock()
        self._clockwork = clockwork
        self._whole = connection
        # A later turn repeats a failed call, so a call of the writer waits for one attempt at most.
        self._connection = connection.with_patience(replace(connection.patience, attempts=1))
        self._woken = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def call(self, job: Job[Value]) -> Value:
        """Runs a job of the writer that needs the controller."""
        with self._turn:
            self._clockwork.outbox.raise_unreported()  # those of the turn before, too
            try:
                return do(job, self._whole)
            finally:
                self._start()

    def at_log(self, job: Job[Value]) -> Value:
        """Runs a job that needs only the log, and a registered writer."""
        outbox = self._clockwork.outbox
        outbox.raise_unreported()
        try:
            if not outbox.write_begins():
                self.call(self._clockwork.hold())
            return do(job, self._whole)
        finally:
            outbox.write_ends()

    def _start(self) -> None:
        """Starts the thread after the first registration."""
        self._clockwork.outbox.active()
        if self._thread is None and self._clockwork.is_registered:
            self._thread = threading.Thread(target=self._run, name="strandline-clock", daemon=True)
            self._thread.start()
            process_exit.watch(self)

    def wake(self) -> None:
        """Starts a turn, since there is something to send."""
        self._woken.set()

    def stop(self) -> None:
        """Ends the thread, without waiting for a log that hangs in it."""
        process_exit.forget(self)
        self._over.set()
        self._woken.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOCK_JOIN_MS / 1000)
        self._clockwork.release()

    def send_all(self, deadline: float) -> list[Left]:
        self._clockwork.hurry()
        self._woken.set()
        return self._clockwork.outbox.leave(deadline)

    def _run(self) -> None:
        while not self._over.is_set():
            wait_s: float | None = TRANSACTION_LOOK_MS / 1000
            with self._turn:
                try:
                    wait_s = do(self._clockwork.turn(), self._connection)
                except Exception:
                    _log.exception("automatic notes of a writer continue after an unexpected error")
            self._woken.wait(wait_s)
            self._woken.clear()


class ClockTask:
    """Runs the turns of an `AsyncWriter` in a task."""

    def __init__(self, clockwork: Clockwork, notes: AsyncNotes) -> None:
        self._turn = asyncio.Lock()
        self._clockwork = clockwork
        self._whole = notes
        self._notes = notes.once
        self._woken = asyncio.Event()
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    async def call(self, job: Job[Value]) -> Value:
        """See `ClockThread.call`."""
        async with self._turn:
            self._clockwork.outbox.raise_unreported()
            try:
                return await do_async(job, self._whole)
            finally:
                self._start()

    async def at_log(self, job: Job[Value]) -> Value:
        """See `ClockThread.at_log`."""
        outbox = self._clockwork.outbox
        outbox.raise_unreported()
        try:
            if not outbox.write_begins():
                await self.call(self._clockwork.hold())
            return await do_async(job, self._whole)
        finally:
            outbox.write_ends()

    def _start(self) -> None:
        self._clockwork.outbox.active()
        if self._task is None and self._clockwork.is_registered:
            self._task = asyncio.create_task(self._run(), name="strandline-clock")
            process_exit.watch(self)

    def wake(self) -> None:
        self._woken.set()

    async def stop(self) -> None:
        """Ends the task after its current turn, without waiting for a log that hangs."""
        process_exit.forget(self)
        self._is_over = True
        self._woken.set()
        if self._task is not None:
            _, left = await asyncio.wait([self._task], timeout=CLOCK_JOIN_MS / 1000)
            for task in left:
                task.cancel()
        self._clockwork.release()

    def send_all(self, deadline: float) -> list[Left]:
        """Returns waiting notes without sending them: when the process ends, no event loop runs."""
        return self._clockwork.outbox.left()

    async def _run(self) -> None:
        while not self._is_over:
            wait_s: float | None = TRANSACTION_LOOK_MS / 1000
            async with self._turn:
                try:
                    wait_s = await do_async(self._clockwork.turn(), self._notes)
                except Exception:
                    _log.exception("automatic notes of a writer continue after an unexpected error")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), wait_s)
            self._woken.clear()
