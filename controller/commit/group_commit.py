"""Durable before answered: group commit.

    calls     apply, apply, apply ──► batch 1 ─┐            apply, apply ──► batch 2 ─┐
    flusher                                    └─ commit 1 ──────────────────────────►└─ commit 2 …

A call is applied in memory at once and joins the batch that is forming. One flusher takes that batch, writes every
row that it touched in one transaction, and then resolves the one future that all of its calls wait for. While it
commits, the next batch forms. Nothing lingers to wait for company.

If a commit fails, memory is ahead of the store: every stream of that batch and of the one formed on top is discarded,
all of their calls hear StoreUnavailable, and the next call loads the stream as the store has it. Where the store was
told to commit and did not answer, the calls of the batch hear StoreUndecided instead, and nothing is loaded before it
is known how the commit went (`Store.read`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from controller.clock import Clock
from controller.commit.health import StoreHealth
from controller.limits import CLOCK_LEAD_MS, FLUSH_NOTES, STOP_DEADLINE_S, WAITING_CALLS
from controller.storage.diagnosis import diagnose
from controller.storage.save import Commit, Term
from controller.storage.transaction import CommitUnknown
from strandline.errors import Overloaded, StoreUnavailable, StoreUndecided, StrandlineError

log = logging.getLogger(__name__)


class Kept(Protocol):
    """Something in memory that is ahead of the store until it was written: a stream, a reader group."""

    def write(self, commit: Commit) -> Callable[[], None]:
        """Adds its changes to a commit; returns what is to be done once they are durable."""

    def discard(self) -> None:
        """They are not durable and never will be: it is no longer what the store has."""


class Durable(asyncio.Future[None]):
    """Done when a batch is durable; every one of its calls awaits this same future.

    Cancelling a task cancels what it awaits, which here would end it for all the others. So it cannot be cancelled:
    a caller that was told to go away goes when the commit has ended. (A shield for each caller did the same and cost
    more than all else about waiting.)
    """

    def cancel(self, msg: object | None = None) -> bool:
        return False

    def give_up(self) -> None:
        """Cancels it for all."""
        super().cancel()


class Batch:
    """The calls that become durable together."""

    __slots__ = ("calls", "done", "kept", "taken")

    def __init__(self) -> None:
        self.done = Durable(loop=asyncio.get_running_loop())
        self.taken = asyncio.get_running_loop().create_future()  # done when nothing joins it any more
        self.kept: dict[int, Kept] = {}
        self.calls = 0


class Committer:
    """Collects what calls changed, and writes it batch by batch."""

    def __init__(
        self,
        commit: Callable[[Commit], Awaitable[None]],
        term: Term,
        clock: Clock,
        *,
        waiting_calls: int = WAITING_CALLS,
        health: StoreHealth | None = None,
    ) -> None:
        """`commit` writes, and ends in time whatever the store does."""
        self._commit = commit
        self._term = term
        self._clock = clock
        self.limit = waiting_calls
        self._health = health if health is not None else StoreHealth(time.perf_counter)
        self._forming = Batch()
        self._lead_ms = CLOCK_LEAD_MS
        self._flying = 0  # calls in the batch that is being committed
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="committer")

    async def stop(self, seconds: float = STOP_DEADLINE_S) -> bool:
        """Writes what is waiting, says until when it served, and ends. Returns whether the store has that."""
        self._lead_ms = 0  # nobody is told a later time any more
        last = self.beat_soon()
        await asyncio.wait([last], timeout=seconds)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        return last.done() and not last.cancelled() and last.exception() is None

    def admit(self, calls: int = 1) -> None:
        """Raises Overloaded where too many calls are waiting. Before applying anything."""
        waiting = self._flying + self._forming.calls
        if waiting + calls > self.limit and waiting:
            raise Overloaded(waiting=waiting, limit=self.limit)

    @property
    def waiting(self) -> int:
        """How many calls were applied and are not yet durable."""
        return self._flying + self._forming.calls

    async def room(self) -> None:
        """Waits until the flush that is forming has room for more of a request with many notes."""
        while self._forming.calls >= FLUSH_NOTES and not self._forming.taken.done():
            await asyncio.wait([self._forming.taken])

    def keep(self, kept: Kept) -> None:
        """What was changed goes with the next commit, and nobody waits for it."""
        self._forming.kept[id(kept)] = kept
        self._wanted.set()

    def join(self, kept: Kept, calls: int = 1) -> Durable:
        """What was changed goes with the next commit; await the answer to know that it has."""
        batch = self._forming
        batch.kept[id(kept)] = kept
        if not batch.calls:  # the others come to what is wanted already
            self._wanted.set()
        batch.calls += calls
        return batch.done

    async def beat(self) -> None:
        """Lets the store know that this controller still serves; done when it does."""
        await self.beat_soon()

    def beat_soon(self) -> Durable:
        """The same, for who does not wait for as long as that may take."""
        self._wanted.set()
        return self._forming.done

    async def _run(self) -> None:
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                batch = self._next_batch()
                self._flying = batch.calls
                try:
                    await self._write(batch)
                finally:
                    self._flying = 0
        finally:  # nobody will write what still comes, and who waits for it could not even be cancelled
            self._forming.taken.set_result(None)
            _refuse(self._forming, StoreUnavailable(reason="the controller has stopped"))

    def _next_batch(self) -> Batch:
        """The batch that has been forming; another one forms from now on."""
        batch, self._forming = self._forming, Batch()
        batch.taken.set_result(None)
        return batch

    async def _write(self, batch: Batch) -> None:
        now, unserved = self._clock.now(), self._clock.unserved
        if not self._clock.by_hand:  # there a commit takes no time, however far somebody moves the clock meanwhile
            unserved.begin(now)
        commit = Commit(
            self._term,
            served_until=unserved.served_until(now),
            clock_bound=now + self._lead_ms,
            unserved_ms=unserved.total_ms,
        )
        began = self._health.begin()
        try:
            written = [(kept, kept.write(commit)) for kept in batch.kept.values()]
            await self._commit(commit)
            self._health.committed(began, batch.calls)
            unserved.succeed(self._clock.now())
        except asyncio.CancelledError:
            batch.done.give_up()
            raise
        except Exception as error:
            unserved.begin(now)
            unserved.fail()
            self._fail(batch, error, began)
        else:
            self._publish(written)
            batch.done.set_result(None)

    def _publish(self, written: list[tuple[Kept, Callable[[], None]]]) -> None:
        for kept, publish in written:
            try:
                publish()
            except Exception as error:  # a fault of ours; what is durable stays, and is loaded again
                log.exception("what was written could not be shown")
                kept.discard()
                self._fail_forming(error)

    def _fail(self, batch: Batch, error: Exception, began: float) -> None:
        _refuse(batch, StoreUndecided(reason=error.reason) if isinstance(error, CommitUnknown) else _unchanged(error))
        self._fail_forming(error)
        self._health.failed("commit", error, batch.calls, began)

    def _fail_forming(self, error: Exception) -> None:
        """What was applied on top of something that was discarded goes with it."""
        on_top = self._next_batch()
        self._wanted.clear()
        _refuse(on_top, _unchanged(error))


def _unchanged(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(reason=diagnose(error).reason)


def _refuse(batch: Batch, error: StrandlineError) -> None:
    for kept in batch.kept.values():
        kept.discard()
    batch.done.set_exception(error)
    batch.done.exception()  # seen, even where nobody waits
