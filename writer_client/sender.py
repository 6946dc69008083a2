"""One thread that sends the notes of any number of writers, in batches over few connections.

    a writer attends ──► the log is flushed ──► notes wait with their position ──► a batch goes out ──► answers

It begins what the state machine of each writer decides. A few other threads make calls that may wait, to the controller
or to a log, and return the results to it.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from strandline.client.http import Connection, Reaching, reach
from strandline.client.retry import Patience
from strandline.fork import OwningProcess
from strandline.logs import Position
from writer_client import process_exit
from writer_client.automatic_notes import PositionSource
from writer_client.machine import Do
from writer_client.notes import call_for, count_for_batch
from writer_client.process_exit import Left
from writer_client.session import Sent, WriterSession, record
from writer_client.thread_pool import ThreadPool

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

BATCHES_AT_ONCE: Final = 2  # the controller checks one while the answer to the other returns; more gain nothing
CALLS_AT_ONCE: Final = 8  # of the writers that share a connection: httpx gets slower with more
GATHER_MS: Final = 5  # how long a note waits for others of its batch
REGISTERING_BATCH_WRITERS: Final = 500  # while others register, the notes of fewer writers wait for them
FLUSHES_AT_ONCE: Final = 8  # of different logs; logs that hang delay others only if there are this many
PAUSE_BOUND_MS: Final = 5_000  # between attempts to send the same notes
EXIT_PAUSE_MS: Final = 200  # at most between attempts then

PATIENCE = Patience(pause_bound_ms=PAUSE_BOUND_MS)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Flush:
    """A flush of one log, for the writers that wait for it."""

    log: PositionSource
    waiting: list[WriterSession] = field(default_factory=list)
    under_way: bool = False


class Background:
    """Sends the notes of background writers. Create one for each controller, share it between its writers, and close it
    after them.

    Callbacks of writers run in its threads: a slow one delays other writers.
    """

    def __init__(
        self,
        controller: str | Sequence[str] | Connection,
        **reaching: Unpack[Reaching],
    ) -> None:
        """`controller` is one or several URLs, or a shared connection, which has its own token and stays open. For
        `token`, `token_file` and `ca_file` see `Connection`.

        Unanswered notes are sent again until they are answered. `patience`, by default the shared connection's, sets
        the pauses and the timeout of an attempt.
        """
        if not isinstance(controller, Connection):
            reaching["patience"] = reaching.get("patience") or PATIENCE
        self.connection, self._leave = reach(controller, reaching, type(self))
        self._patience = self.connection.patience
        # The background repeats failed calls itself, with newer notes, and knows which answers were lost.
        self._connection = self.connection.with_patience(replace(self._patience, attempts=1))
        self.origin = OwningProcess(f"a background for {self.connection.controller}")
        self._calls = ThreadPool(CALLS_AT_ONCE, "strandline-calls")
        self._flushes = ThreadPool(FLUSHES_AT_ONCE, "strandline-flushes")
        self._noting: dict[WriterSession, None] = {}  # in this turn of an event loop
        self._attending: dict[WriterSession, None] = {}  # those to check in the next turn
        self._unsettled: set[WriterSession] = set()  # those that had notes at the last check
        self._finished: deque[Callable[[], None]] = deque()  # results from other threads
        self._to_register: deque[WriterSession] = deque()
        self._ready: dict[WriterSession, None] = {}  # with notes to send, in order
        self._flushing: dict[int, _Flush] = {}
        self._timers: list[tuple[float, int, WriterSession]] = []  # when to check which again
        self._numbers = itertools.count()
        self._registering = self._batches = self._failures = 0
        self._not_before = 0.0
        self._exiting = False  # the process is ending
        self._woken = threading.Event()
        self._urgent = threading.Event()  # ends the wait for others of a batch
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="strandline-background", daemon=True)
        self._thread.start()
        process_exit.watch(self)

    def check(self) -> None:
        """Raises RuntimeError once it is closed, as a closed connection does, and UsedAfterFork in a forked process."""
        self.origin.check()
        if self._over.is_set():
            raise RuntimeError("the background is closed, and sends no more notes: close it after its writers")

    def attend(self, writer: WriterSession) -> None:
        """Checks a writer in the next turn. Cheap, and safe to call from any thread."""
        self._attending[writer] = None
        if not self._woken.is_set():
            self._woken.set()

    def attend_at_once(self, writers: Iterable[WriterSession]) -> None:
        """Checks writers with awaited notes: these wait neither for others nor for a pause after earlier failures."""
        self._failures, self._not_before = 0, 0.0
        self._finish(partial(self._check_all, writers))

    def attend_after_turn(self, writer: WriterSession, loop: AbstractEventLoop) -> None:
        """The same in an event loop, when it has run what is ready: its writers' notes go in one request."""
        self._noting[writer] = None
        loop.call_soon(self._attend_noting)

    def _attend_noting(self) -> None:
        noting, self._noting = self._noting, {}
        if noting:  # the first of them takes all
            self.attend_at_once(noting)

    def close(self, *, wait: bool = True) -> None:
        """Ends the thread, and reports unsent notes on standard error: close the writers first. With `wait`, waits for
        calls under way."""
        process_exit.forget(self)
        if not self.origin.is_here or self._over.is_set():
            return
        self._over.set()
        self._urgent.set()
        self._woken.set()
        elsewhere = not self.is_own_thread()  # a callback may release its writer
        if elsewhere:
            self._thread.join()
        self._calls.close(wait=wait and elsewhere)
        self._flushes.close(wait=False)  # a log may hang
        process_exit.report([left for writer in self._with_notes() for left in writer.leave(0)])
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send_all(self, deadline: float) -> list[Left]:
        """Sends the waiting notes of its writers until a deadline (`time.monotonic`); returns what is left to
        report."""
        writers = self._with_notes()
        self._exiting = True
        self.send_now(writers)
        return [left for writer in writers for left in writer.leave(deadline)]

    def send_now(self, writers: Sequence[WriterSession]) -> None:
        """Sends the notes of these writers at once, without a pause after earlier failures."""
        self._failures, self._not_before = 0, 0.0
        for writer in writers:
            self._attending[writer] = None
        self._woken.set()

    def _with_notes(self) -> list[WriterSession]:
        attending = self._attending.copy()  # first: a writer goes from here to the others
        return list(attending | dict.fromkeys(self._unsettled.copy()))

    def is_own_thread(self) -> bool:
        """Whether this is the background's thread, so that the caller is a callback."""
        return threading.current_thread() is self._thread

    # -- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._over.is_set():
            self._woken.wait(self._wait_s())
            if not self._finished:
                self._urgent.wait(GATHER_MS / 1000)
            self._woken.clear()
            self._urgent.clear()
            try:
                self._turn()
            except Exception:  # a broken writer must not stop the others
                _log.exception("the background continues after an unexpected error")

    def _turn(self) -> None:
        while self._finished:
            self._finished.popleft()()
        self._run_timers()
        for writer in list(self._attending):  # other threads add some meanwhile, and wake this one
            self._unsettled.add(writer)  # first, so that `_with_notes` finds it in one of the two at any moment
            del self._attending[writer]
            self._check(writer)
        if time.monotonic() >= self._not_before:
            self._register()
            self._send()

    def _wait_s(self) -> float | None:
        now = time.monotonic()
        waits = [self._timers[0][0] - now] if self._timers else []
        if (self._ready and self._batches < BATCHES_AT_ONCE) or (self._to_register and not self._registering):
            waits.append(self._not_before - now)
        return max(0.0, min(waits)) if waits else None

    def _run_timers(self) -> None:
        """Checks the writers whose time has come."""
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            due, _, writer = heapq.heappop(self._timers)
            if writer.timer == due:  # else an earlier one was set later
                writer.timer = None
                self._check(writer)

    def _check_at(self, writer: WriterSession, due: float) -> None:
        """Checks a writer at a time of `time.monotonic`, or before."""
        if writer.timer is None or due < writer.timer:
            writer.timer = due
            heapq.heappush(self._timers, (due, next(self._numbers), writer))

    def _check_all(self, writers: Iterable[WriterSession]) -> None:
        for writer in writers:
            self._check(writer)

    def _check(self, writer: WriterSession) -> None:
        """Begins all steps that the writer can begin now."""
        steps, until, unsettled = writer.next_steps()
        for step in steps:
            match step:
                case Do.HOLD:
                    self._to_register.append(writer)
                case Do.REST:
                    self._reach(writer, self._rested)
                case Do.FLUSH:
                    self._flush(writer)
                case _:
                    self._ready.setdefault(writer)
        if unsettled:
            self._unsettled.add(writer)
        else:
            self._unsettled.discard(writer)
        if until is not None:
            self._check_at(writer, until)

    # -- registering and going idle ----------------------------------------------------------------------------

    def _reach(self, writer: WriterSession, done: Callable[..., None]) -> None:
        """Reaches the writer's own goal in another thread."""
        self._start(self._calls, partial(writer.reach_own, self._connection), partial(done, writer))

    def _register(self) -> None:
        while self._to_register and self._registering < CALLS_AT_ONCE - BATCHES_AT_ONCE:
            self._registering += 1
            self._reach(self._to_register.popleft(), self._registered)

    def _registered(self, writer: WriterSession, again: bool | None, error: Exception | None) -> None:
        self._registering -= 1
        self._pause(again=bool(again))
        self._check(writer)

    def _rested(self, writer: WriterSession, again: bool | None, error: Exception | None) -> None:
        self._check(writer)

    # -- logs --------------------------------------------------------------------------------------------------

    def _flush(self, writer: WriterSession) -> None:
        """Flushes a log for all writers that wait for it; never twice at the same time."""
        assert writer.positions is not None
        flush = self._flushing.setdefault(id(writer.positions), _Flush(writer.positions))
        flush.waiting.append(writer)
        if not flush.under_way:
            flush.under_way = True
            self._finish(partial(self._start_flush, flush))

    def _start_flush(self, flush: _Flush) -> None:
        writers, flush.waiting = flush.waiting, []
        for writer in writers:
            with writer.lock:
                writer.machine.outbox.flush_begins(writer.sent)
        self._start(self._flushes, flush.log.flush, partial(self._flushed, flush, writers))

    def _flushed(
        self, flush: _Flush, writers: Sequence[WriterSession], position: Position | None, error: Exception | None
    ) -> None:
        if flush.waiting:
            self._start_flush(flush)
        else:
            del self._flushing[id(flush.log)]
        for writer in writers:
            writer.flushed(position, error)
            self._check(writer)

    # -- batches -----------------------------------------------------------------------------------------------

    def _send(self) -> None:
        if self._to_register and len(self._ready) < REGISTERING_BATCH_WRITERS:
            return  # wait for the notes of writers that are about to be registered
        while self._ready and self._batches < BATCHES_AT_ONCE and (batch := self._next_batch()):
            self._batches += 1
            call = call_for([addressed for _, _, addressed in batch])
            # An awaited note has an end: it is sent again within the call, for as long as the connection is patient.
            awaited = any(pending.awaited for _, pending, _ in batch)
            run = partial((self.connection if awaited else self._connection).run, call)
            self._start(self._calls, partial(record, batch, run), self._answered)

    def _next_batch(self) -> list[Sent]:
        """Takes as many notes as fit. A writer is never in two concurrent batches: its notes must stay in order."""
        batch: list[Sent] = []
        sizes: list[int] = []
        while self._ready:
            writer = next(iter(self._ready))
            with writer.lock:
                notes = writer.machine.take()
            sizes += [addressed.size_bytes for _, addressed in notes]
            fitting = count_for_batch(sizes) - len(batch)
            batch += [(writer, pending, addressed) for pending, addressed in notes[:fitting]]
            left = len(notes) - fitting
            with writer.lock:
                writer.machine.outbox.keep(left)
            if not left or fitting:
                del self._ready[writer]
            if left:
                break
        return batch

    def _answered(self, again: dict[WriterSession, bool] | None, error: Exception | None) -> None:
        self._batches -= 1
        assert again is not None, error
        self._pause(again=any(again.values()))
        for writer in again:
            self._check(writer)

    def _pause(self, *, again: bool) -> None:
        """Sets the pause before the next call if one must be repeated: longer after each failure, and random."""
        if not again:
            self._failures = 0
            return
        self._failures += 1
        bound_ms = EXIT_PAUSE_MS if self._exiting else None
        pause_ms = self._patience.pause_ms(self._failures, random.random(), bound_ms=bound_ms)
        self._not_before = time.monotonic() + pause_ms / 1000

    # -- work that may wait, in other threads ------------------------------------------------------------------

    def _start(self, pool: ThreadPool, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        pool.do(partial(self._work, work, done))

    def _work(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:
            error = raised
        self._finish(partial(done, result, error))

    def _finish(self, finish: Callable[[], None]) -> None:
        self._finished.append(finish)
        self._urgent.set()
        self._woken.set()


_shared: dict[int, tuple[Background, int]] = {}  # by the id of the connection; and how many writers use it
_sharing = threading.Lock()


def background_of(connection: Connection) -> tuple[Background, Callable[..., None]]:
    """Returns the background that all waiting writers on a connection share, and the function that releases it."""
    key = id(connection)  # unique as long as the writers hold the connection
    with _sharing:
        background, users = _shared.get(key) or (Background(connection), 0)
        _shared[key] = background, users + 1
    return background, partial(_release, key)


def _release(key: int, *, wait: bool = True) -> None:
    with _sharing:
        background, users = _shared.pop(key)
        if users > 1:
            _shared[key] = background, users - 1
            return
    background.close(wait=wait)
