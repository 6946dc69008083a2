"""The store as services see it: reads in one thread, commits in another, so that no reader waits for a sync.

What takes long to read is read in a third one, in steps, between which the event loop and other such reads go on.

Nobody waits longer for the store than its bounds say. Past one, whoever waits is told so, the session is ended, and the
next call makes another one. A call that cannot be ended, as one of SQLite's, is left alone: until it ends, whoever
calls is told at once that the store is silent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Concatenate, Generic, ParamSpec, TypeVar

from controller.commit.health import StoreHealth
from controller.commit.lanes import CommitOrder, Lane
from controller.garbage_collector import lasting_objects
from controller.limits import (
    CLOSE_DEADLINE_S,
    COMMIT_DEADLINE_S,
    CUT_GRACE_S,
    LOADS_AT_ONCE,
    READ_DEADLINE_S,
    STEPS_AT_HAND,
)
from controller.storage import upgrade
from controller.storage.database import Database
from controller.storage.diagnosis import LockHeld, StoreMoved, StoreSilent, StoreTrouble, diagnose
from controller.storage.refusals import AlreadyServed, StoreRefused
from controller.storage.save import Commit, CommitWriter, Term
from controller.storage.session import StoreConnection, StoreFailed
from controller.storage.terms import taken_over
from controller.storage.transaction import CommitUnknown
from controller.storage.worker import in_thread
from controller.yielding import Steps
from strandline.errors import StoreCorrupt, StoreUnavailable, StoreUndecided

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Done(Generic[Result]):
    """What came of steps that have all been taken."""

    result: Result


@contextmanager
def kept() -> Iterator[None]:
    """For what a call reads after its change is durable: where that fails, it may not say that nothing was changed.

    Raises StoreUndecided then.
    """
    try:
        yield
    except StoreUnavailable as error:
        raise StoreUndecided(reason=f"it was kept, and the answer could not be read: {error.reason}") from error


class Store:
    """An open database with a thread for each of its two connections, and one for long reads.

    After a commit of which nobody knows how it went, nothing is read before that is settled: what was read earlier
    could be overtaken by that commit, and memory would not have what the store has.
    """

    def __init__(self, database: Database, term: Term, health: StoreHealth | None = None) -> None:
        self._database = database
        self._term = term
        self._health = health if health is not None else StoreHealth(time.perf_counter)
        self._scribe = CommitWriter(database.writer)
        self._writer = Lane("store-writer", database.sessions.writer)
        self._reader = Lane("store-reader", database.sessions.reader)
        self._loader = Lane("store-loader", database.sessions.loader)
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)
        self._settled = True

    async def commit(self, commit: Commit) -> None:
        """Raises what `CommitWriter.commit` does, and StoreTrouble; only CommitUnknown may have changed anything."""
        order = CommitOrder()
        try:
            await self._writer.call(COMMIT_DEADLINE_S, partial(self._commit, commit, order))
        except StoreSilent as silent:
            if order.withdraw():
                raise
            self._settled = False
            raise CommitUnknown(str(silent)) from silent
        except AlreadyServed as error:
            raise await self._who_has_the_lock() from error

    def _commit(self, commit: Commit, order: CommitOrder) -> None:
        self._database.check_files()
        try:
            self._scribe.commit(commit, order.give)
            self._check_files_again()
        except CommitUnknown:
            self._settled = False
            raise
        self._settled = True

    def _check_files_again(self) -> None:
        """Nothing is answered that went into a file without a name."""
        try:
            self._database.check_files()
        except StoreMoved as moved:
            raise CommitUnknown(str(moved)) from moved

    def _settle(self) -> None:
        if not self._settled:  # nobody else did, meanwhile
            self._scribe.settle()
            self._settled = True

    async def read(
        self,
        function: Callable[Concatenate[StoreConnection, Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Calls a function of `controller.storage` with a connection; raises StoreUnavailable where the store fails,
        and StoreCorrupt where it has something else than was written."""

        def call() -> Result:
            try:
                return function(self._database.reader, *args, **kwargs)
            except StoreFailed as error:
                if not error.connection_invalidated:
                    raise
            return function(self._database.reader, *args, **kwargs)  # over a connection that is made again

        loop = asyncio.get_running_loop()
        until = loop.time() + READ_DEADLINE_S
        try:
            if not self._settled:
                await self._writer.call(READ_DEADLINE_S, self._settle)
            return await self._reader.call(max(0.0, until - loop.time()), call)
        except AlreadyServed:
            raise self._unavailable("read", await self._who_has_the_lock()) from None
        except StoreCorrupt as error:
            self.damaged(error)
            raise
        except (StoreFailed, StoreTrouble, StoreRefused) as error:
            raise self._unavailable("read", error) from error

    async def check(self) -> None:
        """Raises StoreUnavailable unless the store is where it was, can be read, and has the schema that it has to."""

        def look(connection: StoreConnection) -> None:
            self._database.check_files()
            upgrade.check_now(connection)

        await self.read(look)

    async def load(
        self,
        steps: Callable[Concatenate[StoreConnection, Given], Steps[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Takes the steps of a function of `controller.storage`; raises what `read` does.

        A few of them are taken at once, like any read. Where they do not suffice it begins again, over a connection of
        its own, and between any two steps others have their turn.
        """

        def begin(connection: StoreConnection) -> _Done[Result] | None:
            taken = steps(connection, *args, **kwargs)
            for _ in range(STEPS_AT_HAND):
                done = _next(taken)
                if done is not None:
                    return done
            taken.close()
            return None

        done = await self.read(begin)
        if done is None:
            async with self._loads:
                with lasting_objects():
                    done = await self._load(lambda connection: steps(connection, *args, **kwargs))
        return done.result

    async def _load(self, steps: Callable[[StoreConnection], Steps[Result]]) -> _Done[Result]:
        call = partial(self._loader.call, READ_DEADLINE_S)

        def connect() -> StoreConnection:
            self._database.check_files()  # SQLite would make a new file in the place of one that is gone
            return self._database.reading.connect()

        try:
            connection = await call(connect)
            try:
                taken = steps(connection)
                try:
                    while (done := await call(partial(_next, taken))) is None:
                        pass
                    return done
                finally:
                    self._loader.call_last(taken.close)
            finally:
                self._loader.call_last(connection.close)
        except StoreCorrupt as error:
            self.damaged(error)
            raise
        except (StoreFailed, StoreTrouble) as error:
            raise self._unavailable("read", error) from error

    async def aside(self, function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Calls a function in the thread for what takes long, where nothing that it uses may be used meanwhile.

        It is no function that reads the store. Raises StoreUnavailable while that thread is left with a call to it.
        """
        try:
            return await self._loader.call(None, partial(function, *args, **kwargs))
        except StoreSilent as error:
            raise self._unavailable("read", error) from error

    async def write(
        self,
        function: Callable[Concatenate[StoreConnection, Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Calls a function that changes what no stream and no group has; raises StoreUnavailable where that fails, and
        StoreUndecided where nobody knows."""

        def call() -> Result:
            self._database.check_files()
            try:
                return function(self._database.writer, *args, **kwargs)
            except CommitUnknown:
                self._settled = False
                raise

        try:
            return await self._writer.call(COMMIT_DEADLINE_S, call)
        except StoreSilent as error:
            self._settled = False  # nobody knows whether it was sent
            self._health.failed("write", error)
            raise StoreUndecided(reason=str(error)) from error
        except CommitUnknown as error:
            self._health.failed("write", error)
            raise StoreUndecided(reason=error.reason) from error
        except AlreadyServed:
            raise self._unavailable("write", await self._who_has_the_lock()) from None
        except (StoreFailed, StoreTrouble) as error:
            raise self._unavailable("write", error) from error

    async def _who_has_the_lock(self) -> StoreTrouble:
        """Another controller, if one began to serve since this one did; else a session that does not serve."""
        try:
            found = await self._reader.call(READ_DEADLINE_S, lambda: taken_over(self._database.reader, self._term))
        except (StoreFailed, StoreTrouble):
            return LockHeld()
        return found if found is not None else LockHeld()

    def damaged(self, error: StoreCorrupt) -> None:
        """A read met a row that is not what was written: readiness, metrics and the log tell it."""
        self._health.failed("read", error)

    def deleted(self, *, stream: str | None = None, group: str | None = None) -> None:
        """A stream or a reader group is gone, and with it whatever was damaged of it."""
        self._health.rows.gone(stream=stream, group=group)

    def _unavailable(self, operation: str, error: BaseException) -> StoreUnavailable:
        self._health.failed(operation, error)
        return StoreUnavailable(reason=diagnose(error).reason)

    async def close(self, seconds: float = CLOSE_DEADLINE_S) -> bool:
        """Waits for the threads, then closes the connections; what still hangs then ends with the process.

        Returns whether all was closed.
        """
        closing = asyncio.wrap_future(in_thread("store-end", partial(self._close, seconds)))
        await asyncio.wait([closing], timeout=seconds + CUT_GRACE_S)
        return closing.done() and closing.exception() is None and closing.result()

    def _close(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        ended = [lane.close(max(0.0, until - time.monotonic())) for lane in (self._writer, self._reader, self._loader)]
        if all(ended):
            self._database.close()
        return all(ended)


def _next(steps: Steps[Result]) -> _Done[Result] | None:
    """Takes a step; what came of them all, if it was the last."""
    try:
        next(steps)
    except StopIteration as done:
        return _Done(done.value)
    return None
