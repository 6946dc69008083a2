"""One thread that sends the notes of any number of writers, in batches over few connections.

    an outbox attends ──► the log is flushed ──► notes wait with their position ──► a batch goes out ──► answers

A few other threads make calls that may wait, to the controller or to a log, and return the results to it.
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
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from strandline.client.calls import Clocked
from strandline.client.http import AsyncConnection, Connection
from strandline.client.retry import Patience
from strandline.core.changes import Registered
from strandline.fork import OwningProcess
from strandline.logs import Position
from writer_client import process_exit
from writer_client.automatic_notes import PositionSource
from writer_client.batches import Results, call_for, count_for_batch
from writer_client.outbox import TRANSACTION_CHECK_MS, Outbox, Sent, record
from writer_client.process_exit import Left
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
    """A flush of one log, for the outboxes that wait for it."""

    log: PositionSource
    waiting: list[Outbox] = field(default_factory=list)
    under_way: bool = False


class Background:
    """Sends the notes of background writers. Create one for each controller, share it between its writers, and close it
    after them.

    Callbacks of writers run in its threads: a slow one delays other writers.
    """

    def __init__(
        self,
        controller: str | Sequence[str] | Connection,
        *,
        token: str | None = None,
        patience: Patience | None = None,
    ) -> None:
        """`controller` is one or several URLs, see `Connection`, or a shared connection, which has its own token and
        stays open.

        Unanswered notes are sent again until they are answered. `patience`, by default the shared connection's, sets
        the pauses and the timeout of an attempt.
        """
        self._owned: Connection | None = None
        if isinstance(controller, Connection):
            self.connection = controller
            self._patience = patience if patience is not None else controller.patience
        else:
            self.connection = self._owned = Connection(controller, token=token)
            self._patience = patience if patience is not None else PATIENCE
        # The background repeats failed calls itself, with newer notes, and knows which answers were lost.
        self._connection = self.connection.with_patience(replace(self._patience, attempts=1))
        self.origin = OwningProcess(f"a background for {self.connection.controller}")
        self._calls = ThreadPool(CALLS_AT_ONCE, "strandline-calls")
        self._flushes = ThreadPool(FLUSHES_AT_ONCE, "strandline-flushes")
        self._in_loop: AsyncConnection | None = None  # over which awaited notes go, with one thread less between
        self._noting: dict[Outbox, None] = {}  # in this turn of an event loop
        self._attending: dict[Outbox, None] = {}  # those to check in the next turn
        self._unsettled: set[Outbox] = set()  # those that had notes at the last check
        self._finished: deque[Callable[[], None]] = deque()  # results from other threads
        self._to_register: deque[Outbox] = deque()
        self._ready: dict[Outbox, None] = {}  # with notes to send, in order
        self._flushing: dict[int, _Flush] = {}
        self._timers: list[tuple[float, int, Callable[[float], None]]] = []
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

    @classmethod
    def over(cls, connection: Connection | AsyncConnection) -> Self:
        """Creates one over a shared connection of either kind."""
        if isinstance(connection, Connection):
            return cls(connection)
        background = cls(connection.for_threads())
        background._in_loop = connection
        return background

    def check(self) -> None:
        """Raises RuntimeError once it is closed, as a closed connection does, and UsedAfterFork in a forked process."""
        self.origin.check()
        if self._over.is_set():
            raise RuntimeError("the background is closed, and sends no more notes: close it after its writers")

    def attend(self, outbox: Outbox) -> None:
        """Checks an outbox in the next turn. Cheap, and safe to call from any thread."""
        self._attending[outbox] = None
        if not self._woken.is_set():
            self._woken.set()

    def attend_at_once(self, outboxes: Iterable[Outbox]) -> None:
        """Checks outboxes with awaited notes: these wait neither for others nor for a pause after earlier failures."""
        self._failures, self._not_before = 0, 0.0
        self._finish(partial(self._check_all, outboxes))

    def attend_after_turn(self, outbox: Outbox, loop: AbstractEventLoop) -> None:
        """The same in an event loop, when it has run what is ready: its writers' notes go in one request."""
        self._noting[outbox] = None
        loop.call_soon(self._attend_noting)

    def _attend_noting(self) -> None:
        noting, self._noting = self._noting, {}
        if noting:  # the first of them takes all
            self.attend_at_once(noting)

    def start_timers(self, outbox: Outbox) -> None:
        """Starts the automatic notes of an outbox, and lets it go idle automatically from now on."""
        now = time.monotonic()
        self._finish(partial(self._set_timer, now, partial(self._note_automatically, outbox)))
        self._finish(partial(self._set_timer, now, partial(self._rest, outbox)))

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
        process_exit.report([left for outbox in self._with_notes() for left in outbox.left()])
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send_all(self, deadline: float) -> list[Left]:
        """Sends the waiting notes of its writers until a deadline (`time.monotonic`); returns what is left to
        report."""
        if self._in_loop is not None and not self._in_loop.has_loop:
            deadline = time.monotonic()
        outboxes = self._with_notes()
        self._exiting = True
        self.send_now(outboxes)
        return [left for outbox in outboxes for left in outbox.leave(deadline)]

    def send_now(self, outboxes: Sequence[Outbox]) -> None:
        """Sends the notes of these outboxes at once, without a pause after earlier failures."""
        self._failures, self._not_before = 0, 0.0
        for outbox in outboxes:
            self._attending[outbox] = None
        self._woken.set()

    def _with_notes(self) -> list[Outbox]:
        attending = self._attending.copy()  # first: an outbox goes from here to the others
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
        for outbox in list(self._attending):  # other threads add some meanwhile, and wake this one
            self._unsettled.add(outbox)  # first, so that `_with_notes` finds it in one of the two at any moment
            del self._attending[outbox]
            self._check(outbox)
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
        """Runs the timers that are due."""
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            due, _, ring = heapq.heappop(self._timers)
            ring(due)

    def _set_timer(self, due: float, ring: Callable[[float], None]) -> None:
        """Sets a timer for a time of `time.monotonic`, which `ring` gets as its argument."""
        heapq.heappush(self._timers, (due, next(self._numbers), ring))

    def _note_automatically(self, outbox: Outbox, due: float) -> None:
        period_ms = outbox.note_automatically()
        if period_ms is not None:
            self._set_timer(max(due + period_ms / 1000, time.monotonic()), partial(self._note_automatically, outbox))
            self._check(outbox)

    def _check_all(self, outboxes: Iterable[Outbox]) -> None:
        for outbox in outboxes:
            self._check(outbox)

    def _check(self, outbox: Outbox) -> None:
        todo = outbox.next_step()
        if todo.unsettled:
            self._unsettled.add(outbox)
        else:
            self._unsettled.discard(outbox)
        if todo.register:
            self._to_register.append(outbox)
        if todo.flush is not None:
            self._flush(outbox, todo.flush)
        if todo.send:
            self._ready.setdefault(outbox)

    def _rest(self, outbox: Outbox, due: float) -> None:
        again_ms = outbox.rest()
        if again_ms == 0:
            idle = partial(outbox.session.idle, self._connection, None)
            self._start(self._calls, idle, partial(self._rested, outbox))
        elif again_ms is not None:
            self._set_timer(time.monotonic() + again_ms / 1000, partial(self._rest, outbox))
            self._check(outbox)

    def _rested(self, outbox: Outbox, done: None, error: Exception | None) -> None:
        again_ms = outbox.rested(error)
        if again_ms is not None:
            self._set_timer(time.monotonic() + again_ms / 1000, partial(self._rest, outbox))
        self._check(outbox)

    # -- registering -------------------------------------------------------------------------------------------

    def _register(self) -> None:
        while self._to_register and self._registering < CALLS_AT_ONCE - BATCHES_AT_ONCE:
            outbox = self._to_register.popleft()
            self._registering += 1
            register = partial(outbox.session.register, self._connection)
            self._start(self._calls, register, partial(self._registered, outbox))

    def _registered(self, outbox: Outbox, done: Registered | None, error: Exception | None) -> None:
        self._registering -= 1
        self._pause(again=outbox.registered(done, error))
        self._check(outbox)

    # -- logs --------------------------------------------------------------------------------------------------

    def _flush(self, outbox: Outbox, log: PositionSource) -> None:
        """Flushes a log for all outboxes that wait for it; never twice at the same time."""
        flush = self._flushing.setdefault(id(log), _Flush(log))
        flush.waiting.append(outbox)
        if not flush.under_way:
            flush.under_way = True
            self._finish(partial(self._start_flush, flush))

    def _start_flush(self, flush: _Flush) -> None:
        outboxes, flush.waiting = flush.waiting, []
        for outbox in outboxes:
            outbox.flush_begins()
        self._start(self._flushes, flush.log.flush, partial(self._flushed, flush, outboxes))

    def _flushed(
        self, flush: _Flush, outboxes: Sequence[Outbox], position: Position | None, error: Exception | None
    ) -> None:
        if flush.waiting:
            self._start_flush(flush)
        else:
            del self._flushing[id(flush.log)]
        for outbox in outboxes:
            if outbox.flushed(position, error):
                self._set_timer(time.monotonic() + TRANSACTION_CHECK_MS / 1000, partial(self._flush_again, outbox))
            self._check(outbox)

    def _flush_again(self, outbox: Outbox, due: float) -> None:
        outbox.flush_again()
        self._check(outbox)

    # -- batches -----------------------------------------------------------------------------------------------

    def _send(self) -> None:
        if self._to_register and len(self._ready) < REGISTERING_BATCH_WRITERS:
            return  # wait for the notes of writers that are about to be registered
        while self._ready and self._batches < BATCHES_AT_ONCE and (batch := self._next_batch()):
            self._batches += 1
            call = call_for([addressed for _, _, addressed in batch])
            # An awaited note has an end: it is sent again within the call, for as long as the connection is patient.
            awaited = any(pending.awaited for _, pending, _ in batch)
            started = self._in_loop.start(call) if awaited and self._in_loop is not None else None
            if started is not None:
                started.add_done_callback(partial(self._done_in_loop, batch))
                continue
            run = partial((self.connection if awaited else self._connection).run, call)
            self._start(self._calls, partial(record, batch, run), self._answered)

    def _next_batch(self) -> list[Sent]:
        """Takes as many notes as fit. An outbox is never in two concurrent batches: its notes must stay in order."""
        batch: list[Sent] = []
        sizes: list[int] = []
        while self._ready:
            outbox = next(iter(self._ready))
            notes = outbox.notes_to_send()
            sizes += [addressed.size_bytes for _, addressed in notes]
            fitting = count_for_batch(sizes) - len(batch)
            batch += [(outbox, pending, addressed) for pending, addressed in notes[:fitting]]
            left = notes[fitting:]
            outbox.keep([pending for pending, _ in left])
            if not left or fitting:
                del self._ready[outbox]
            if left:
                break
        return batch

    def _done_in_loop(self, batch: Sequence[Sent], started: Future[Clocked[Results]]) -> None:
        self._work(partial(record, batch, started.result), self._answered)

    def _answered(self, again: dict[Outbox, bool] | None, error: Exception | None) -> None:
        self._batches -= 1
        assert again is not None, error
        self._pause(again=any(again.values()))
        for outbox in again:
            self._check(outbox)

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


def background_of(connection: Connection | AsyncConnection) -> tuple[Background, Callable[..., None]]:
    """Returns the background that all waiting writers on a connection share, and the function that releases it."""
    key = id(connection)  # unique as long as the writers hold the connection
    with _sharing:
        background, users = _shared.get(key) or (Background.over(connection), 0)
        _shared[key] = background, users + 1
    return background, partial(_release, key)


def _release(key: int, *, wait: bool = True) -> None:
    with _sharing:
        background, users = _shared.pop(key)
        if users > 1:
            _shared[key] = background, users - 1
            return
    background.close(wait=wait)
