"""The store as services see it: reads in one thread, commits in another, so that no reader waits for a sync.

What takes long to read is read in a third one, in steps, between which the event loop and other such reads go on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Concatenate, Generic, ParamSpec, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from controller.limits import LOADS_AT_ONCE, STEPS_AT_HAND
from controller.services.damage import Damage
from controller.services.garbage import lasting_objects
from controller.services.health import StoreHealth
from controller.storage.database import Database
from controller.storage.dialect import is_damage
from controller.storage.refusals import AlreadyServed
from controller.storage.steps import Steps
from controller.storage.transaction import CommitUnknown, reason_of
from controller.storage.writing import Scribe, Writing
from strandline.errors import StoreCorrupt, StoreUnavailable, StrandlineError, Unavailable
from strandline.protocol.errors import StoreUndecided

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
    except Unavailable as error:
        raise StoreUndecided(reason=f"it was kept, and the answer could not be read: {error.code}") from error


class Store:
    """An open database with a thread for each of its two connections, and one for long reads.

    After a commit of which nobody knows how it went, nothing is read before that is settled: what was read earlier
    could be overtaken by that commit, and memory would not have what the store has.
    """

    def __init__(self, database: Database, health: StoreHealth | None = None) -> None:
        self._database = database
        self._health = health if health is not None else StoreHealth(time.perf_counter)
        self._scribe = Scribe(database.writer)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-reader")
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="store-loader")
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)
        self._settled = True
        self.damage = Damage()

    def commit(self, writing: Writing) -> asyncio.Future[None]:
        """Raises what `Scribe.commit` does."""
        return asyncio.get_running_loop().run_in_executor(self._writer, self._commit, writing)

    def _commit(self, writing: Writing) -> None:
        try:
            self._scribe.commit(writing)
        except CommitUnknown:
            self._settled = False
            raise
        self._settled = True

    def _settle(self) -> None:
        if not self._settled:  # nobody else did, meanwhile
            self._scribe.settle()
            self._settled = True

    async def read(
        self,
        function: Callable[Concatenate[Connection, Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Calls a function of `controller.storage` with a connection; raises StoreUnavailable where the store fails,
        and StoreCorrupt where it has something else than was written."""

        def call() -> Result:
            try:
                return function(self._database.reader, *args, **kwargs)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
            return function(self._database.reader, *args, **kwargs)  # over a connection that is made anew

        loop = asyncio.get_running_loop()
        try:
            if not self._settled:
                await loop.run_in_executor(self._writer, self._settle)
            return await loop.run_in_executor(self._reader, call)
        except (DBAPIError, StoreCorrupt) as error:
            raise self._failed(error) from error
        except (AlreadyServed, CommitUnknown) as error:
            raise StoreUnavailable(reason=str(error)) from error

    def _failed(self, error: DBAPIError | StoreCorrupt) -> StrandlineError:
        """What a read that failed is answered with."""
        if isinstance(error, StoreCorrupt):
            self.damage.found(error)
            return error
        self._health.failed("read", error)
        if is_damage(error.orig):
            return self._failed(StoreCorrupt(reason=reason_of(error)))
        return StoreUnavailable(reason=type(error).__name__)

    async def load(
        self,
        steps: Callable[Concatenate[Connection, Given], Steps[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Takes the steps of a function of `controller.storage`; raises what `read` does.

        A few of them are taken at once, like any read. Where they do not suffice it begins again, over a connection of
        its own, and between any two steps others have their turn.
        """

        def begin(connection: Connection) -> _Done[Result] | None:
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

    async def _load(self, steps: Callable[[Connection], Steps[Result]]) -> _Done[Result]:
        try:
            connection = await self.aside(self._database.reading.connect)
            try:
                taken = steps(connection)
                try:
                    while (done := await self.aside(_next, taken)) is None:
                        pass
                    return done
                finally:
                    await self.aside(taken.close)
            finally:
                await self.aside(connection.close)
        except (DBAPIError, StoreCorrupt) as error:
            raise self._failed(error) from error

    async def aside(self, function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Calls a function in the thread for what takes long, where nothing that it uses may be used meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._loader, partial(function, *args, **kwargs))

    async def write(
        self,
        function: Callable[Concatenate[Connection, Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Calls a function that changes what no stream and no group has; raises StoreUnavailable where that fails, and
        StoreUndecided where nobody knows."""

        def call() -> Result:
            try:
                return function(self._database.writer, *args, **kwargs)
            except CommitUnknown:
                self._settled = False
                raise

        try:
            return await asyncio.get_running_loop().run_in_executor(self._writer, call)
        except CommitUnknown as error:
            raise StoreUndecided(reason=error.reason) from error
        except DBAPIError as error:
            raise StoreUnavailable(reason=type(error).__name__) from error
        except AlreadyServed as error:
            raise StoreUnavailable(reason=str(error)) from error

    def close(self) -> None:
        """Waits for all threads, then closes the connections."""
        self._writer.shutdown()
        self._reader.shutdown()
        self._loader.shutdown()
        self._database.close()


def _next(steps: Steps[Result]) -> _Done[Result] | None:
    """Takes a step; what came of them all, if it was the last."""
    try:
        next(steps)
    except StopIteration as done:
        return _Done(done.value)
    return None
