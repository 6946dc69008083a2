"""Durable before answered: group commit.

    calls     wait, wait, wait ─► apply ─┐        wait, wait ─► apply ─┐
    flusher   └──── commit 1 ────┘       └──── commit 2 ────┘          └──── commit 3 …

Calls have their turn while no commit is under way. A call is then applied in memory and joins the forming batch. One
flusher takes that batch, writes every row that it changed in one transaction, and then resolves the one future that all
of its calls await. Calls that come meanwhile wait for their turn. The flusher lets calls join that have arrived, and
never waits for more.

What may no longer be served is not written either: its batch is refused before anything is sent.

If a commit fails, memory is ahead of the store: every stream of that batch is discarded, its calls raise
StoreUnavailable, and the next call loads the stream as the store has it. The calls that waited are not affected. If
COMMIT was sent and not answered, the calls of the batch raise StoreUndecided instead, and nothing is loaded before the
outcome of the commit is known (`Store.read`).

What changes without a call, such as a deadline, does not wait for a turn. It joins the forming batch, and is lost with
a commit that fails below it: whoever loads the stream finds the deadline again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from controller.commit.health import StoreHealth
from controller.commit.serving import ServingRecord
from controller.limits import DEFAULT_LIMITS
from controller.storage.diagnosis import StoreTrouble, diagnose
from controller.storage.save import Commit
from controller.storage.transaction import CommitUnknown
from strandline.errors import Overloaded, StoreUnavailable, StoreUndecided, StrandlineError

# Turns of the event loop for calls that have arrived to join: it reads them in one, and begins their handlers in a
# later one. Without them, 64 connections made commits of half as many calls, each of which costs about as much.
TURNS_TO_JOIN: Final = 3
TURNS_A_REQUEST: Final = 2  # of the loop, until the next request with many notes has its turn; not more if that is slow
FLUSH_NOTES: Final = 1_024  # of requests with many notes, in one commit; further ones wait for the next

Item = TypeVar("Item")

log = logging.getLogger(__name__)


class Unwritten(Protocol):
    """Something in memory that is ahead of the store until it is written: a stream or a reader group."""

    @property
    def discarded(self) -> bool:
        """Whether it is no longer equal to the store, or its tenure is over: then it is not written."""

    def write(self, commit: Commit) -> Callable[[], None]:
        """Adds its changes to a commit; returns what to call once they are durable."""

    def discard(self) -> None:
        """Marks it as no longer equal to the store: its changes are not durable and never will be."""


class SharedFuture(asyncio.Future[None]):
    """A future that many calls await.

    Cancelling a task cancels the future that it awaits, which here would cancel all other calls. So this future cannot
    be cancelled: a cancelled caller ends when the commit has ended. (A shield for each caller did the same, and cost
    more than the rest of the waiting.)
    """

    def cancel(self, msg: object | None = None) -> bool:
        return False


class Durable(SharedFuture):
    """Done when a batch is durable; all calls of the batch await this one future."""

    def give_up(self) -> None:
        """Cancels it for all calls."""
        asyncio.Future.cancel(self)


class Batch:
    """The calls that become durable together."""

    __slots__ = ("calls", "done", "taken", "unwritten")

    def __init__(self) -> None:
        self.done = Durable(loop=asyncio.get_running_loop())
        self.taken = asyncio.get_running_loop().create_future()  # done when no further call can join
        self.unwritten: dict[int, Unwritten] = {}
        self.calls = 0


class Committer:
    """Collects what calls changed, and writes it batch by batch."""

    def __init__(
        self,
        commit: Callable[[Commit], Awaitable[None]],
        serving: ServingRecord,
        *,
        waiting_calls: int = DEFAULT_LIMITS.waiting_calls,
        health: StoreHealth | None = None,
    ) -> None:
        """`commit` writes, and ends in bounded time whatever the store does."""
        self._commit = commit
        self._serving = serving
        self.limit = waiting_calls
        self._health = health if health is not None else StoreHealth()
        self._forming = Batch()
        self._writing: Batch | None = None  # the batch that is being committed
        self._turn_comes = SharedFuture(loop=asyncio.get_running_loop())  # when that commit has ended
        self._queued = 0  # calls that wait for it
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._expected = 0  # requests with many notes that wait for their turn

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="committer")

    async def stop(self, seconds: float) -> bool:
        """Writes what is waiting and how long this controller served, then ends. Returns whether that is durable."""
        last = self.beat_soon() if self._serving.stop() else None
        if last is not None:
            await asyncio.wait([last], timeout=seconds)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if last is None:
            return not self.waiting
        return last.done() and not last.cancelled() and last.exception() is None

    @property
    def is_turn(self) -> bool:
        """Whether calls may be applied now: no commit is under way."""
        return self._writing is None

    async def turn(self) -> None:
        """Waits while a commit is under way. Then a call may be applied, and join, without waiting in between."""
        while self._writing is not None:
            self._queued += 1
            try:
                await self._turn_comes
            finally:
                self._queued -= 1

    async def in_turn(
        self, name: str, find: Callable[[str], Item | None], load: Callable[[str], Awaitable[object]]
    ) -> Item:
        """A stream or group that is in memory, when it is the turn of calls. `load` loads it where `find` has none."""
        while True:
            await self.turn()
            found = find(name)
            if found is not None:
                return found
            await load(name)

    def admit(self, calls: int = 1) -> None:
        """Raises Overloaded if too many calls are waiting. Call it before applying anything."""
        waiting = self.waiting
        if waiting + calls > self.limit and waiting:
            raise Overloaded(waiting=waiting, limit=self.limit)

    @property
    def waiting(self) -> int:
        """The number of calls that wait for their turn, or are applied and not yet durable."""
        return self._queued + self._forming.calls + (self._writing.calls if self._writing is not None else 0)

    def pending(self, unwritten: Unwritten) -> Durable | None:
        """Done when everything that has changed in `unwritten` so far is durable. None if it is durable already."""
        for batch in (self._forming, self._writing):
            if batch is not None and id(unwritten) in batch.unwritten:
                return batch.done
        return None

    @property
    def is_full(self) -> bool:
        """Whether the forming batch has no room for more notes of requests with many."""
        return self._forming.calls >= FLUSH_NOTES

    async def room(self) -> None:
        """Waits until it is the turn of calls, and the forming batch has room for more notes of a large request."""
        await self.turn()
        while self.is_full and not self._forming.taken.done():
            await asyncio.wait([self._forming.taken])
            await self.turn()

    @contextmanager
    def expecting(self) -> Iterator[None]:
        """Lets the next commit wait for a request that waits for its turn."""
        self._expected += 1
        try:
            yield
        finally:
            self._expected -= 1

    def keep(self, unwritten: Unwritten) -> None:
        """Adds a change to the next commit, without waiting for it."""
        self._forming.unwritten[id(unwritten)] = unwritten
        self._wanted.set()

    def join(self, unwritten: Unwritten, calls: int = 1) -> Durable:
        """Adds what a call changed, or several, to the next commit; the returned future is done when it is durable."""
        batch = self._forming
        batch.unwritten[id(unwritten)] = unwritten
        if not batch.calls:  # later calls join a batch that is wanted already
            self._wanted.set()
        batch.calls += calls
        return batch.done

    async def beat(self) -> None:
        """Commits that this controller still serves, and waits for that commit."""
        await self.beat_soon()

    def beat_soon(self) -> Durable:
        """The same, without waiting: returns the future."""
        self._wanted.set()
        return self._forming.done

    async def _run(self) -> None:
        try:
            while True:
                await self._wanted.wait()
                for _ in range(TURNS_TO_JOIN):
                    await asyncio.sleep(0)
                for _ in range(TURNS_A_REQUEST * self._expected):
                    if not self.is_full:
                        await asyncio.sleep(0)
                await self._serving.ready()
                self._wanted.clear()
                batch = self._next_batch()
                self._writing = batch
                try:
                    await self._write(batch)
                finally:
                    self._writing = None
                    self._turn_comes.set_result(None)
                    self._turn_comes = SharedFuture(loop=asyncio.get_running_loop())
        finally:  # later calls will not be written, and their future cannot be cancelled: it must get an error
            self._forming.taken.set_result(None)
            _refuse(self._forming, StoreUnavailable(reason="the controller has stopped"))

    def _next_batch(self) -> Batch:
        """Takes the forming batch, and starts a new one."""
        batch, self._forming = self._forming, Batch()
        batch.taken.set_result(None)
        return batch

    async def _write(self, batch: Batch) -> None:
        for unwritten in batch.unwritten.values():
            if unwritten.discarded:
                _refuse(batch, StoreUnavailable(reason="this controller no longer serves what was to be written"))
                return
        try:
            commit = Commit(self._serving.begin())
        except StoreTrouble as error:
            if batch.unwritten:
                self._fail(batch, error)
            else:
                _refuse(batch, _unchanged(error))  # it was a beat alone: the store has not failed, and nothing is lost
            return
        began = self._health.begin()
        try:
            written = [(unwritten, unwritten.write(commit)) for unwritten in batch.unwritten.values()]
            await self._commit(commit)
            self._health.committed(began, batch.calls)
            self._serving.succeed()
        except asyncio.CancelledError:
            batch.done.give_up()
            raise
        except Exception as error:
            self._serving.fail(error)
            self._fail(batch, error, began)
        else:
            self._publish(written)
            batch.done.set_result(None)

    def _publish(self, written: list[tuple[Unwritten, Callable[[], None]]]) -> None:
        for unwritten, publish in written:
            try:
                publish()
            except Exception as error:  # a bug; the changes are durable, and are loaded again
                log.exception("durable changes could not be published; they will be loaded again")
                unwritten.discard()
                self._fail_forming(error, [id(unwritten)])

    def _fail(self, batch: Batch, error: Exception, began: float | None = None) -> None:
        _refuse(batch, StoreUndecided(reason=error.reason) if isinstance(error, CommitUnknown) else _unchanged(error))
        self._fail_forming(error, batch.unwritten.keys())
        self._health.failed("commit", error, batch.calls, began)

    def _fail_forming(self, error: Exception, discarded: Iterable[int]) -> None:
        """Discards the forming batch too, if something in it was applied on top of discarded changes."""
        if self._forming.unwritten.keys().isdisjoint(discarded):
            return
        on_top = self._next_batch()
        self._wanted.clear()
        _refuse(on_top, _unchanged(error))


def _unchanged(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(reason=diagnose(error).reason)


def _refuse(batch: Batch, error: StrandlineError) -> None:
    for unwritten in batch.unwritten.values():
        unwritten.discard()
    batch.done.set_exception(error)
    batch.done.exception()  # marks it as retrieved, even if nobody waits
