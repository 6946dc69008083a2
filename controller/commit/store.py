"""The store as services see it: reads in one thread and commits in another, so that no reader waits for a sync.

Long reads run in a third thread, one after the other.

A commit is one transaction in the writing thread. Between its lock and its writes the event loop's thread applies what
was found: memory is its own.

Every call has a deadline. Past it, the caller gets an error, the session is ended, and the next call makes a new one. A
call that cannot be ended, such as one of SQLite, is abandoned: until it ends, further calls fail at once with
StoreSilent.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from controller.commit.health import StoreHealth
from controller.commit.store_threads import CommitOrder, StoreThread
from controller.limits import DEFAULT_LIMITS, Limits
from controller.storage import upgrade
from controller.storage.database import Database
from controller.storage.diagnosis import StoreMoved, StoreSilent, StoreTrouble, diagnose, is_locked
from controller.storage.heads import Service, touch
from controller.storage.kinds import kind_of
from controller.storage.news import Found, Known, lock_and_look, was_committed
from controller.storage.refusals import StoreRefused
from controller.storage.save import Commit, write_rows
from controller.storage.session import StoreConnection, StoreFailed
from controller.storage.subjects import Subject
from controller.storage.transaction import CommitUnknown, Transaction, transaction
from controller.storage.unreadable import made_of_rows
from controller.storage.worker import in_thread
from strandline.errors import (
    StoreCorrupt,
    StoreUnavailable,
    StoreUndecided,
    StreamLoading,
    StreamRecreated,
    UnknownGroup,
    UnknownStream,
)

Given = ParamSpec("Given")
Result = TypeVar("Result")


@contextmanager
def after_commit() -> Iterator[None]:
    """For reads after a call's change is durable: turns errors that mean that nothing was changed into StoreUndecided,
    those of a stream or group that was deleted meanwhile too."""
    try:
        yield
    except (StoreUnavailable, StreamLoading, UnknownStream, StreamRecreated, UnknownGroup) as error:
        why = error.reason if isinstance(error, StoreUnavailable) else str(error)
        raise StoreUndecided(reason=f"it is stored, but the answer could not be read: {why}") from error


class Store:
    """An open database with a thread for each of its two connections, and one for long reads."""

    def __init__(self, database: Database, health: StoreHealth | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self._database = database
        self._limits = limits
        self._health = health if health is not None else StoreHealth(time.perf_counter)
        self._writer = StoreThread("writer", database.sessions.writer, limits.cut_grace_s)
        self._reader = StoreThread("reader", database.sessions.reader, limits.cut_grace_s)
        self._loader = StoreThread("loader", database.sessions.loader, limits.cut_grace_s)
        self._loads = asyncio.Lock()
        self._closing = threading.Event()
        # Who calls `transact` and `outcome` holds it: nothing stands between a commit and what became of it.
        self.writing = asyncio.Lock()
        self._others_write = False  # whether they had written a quarter of what was locked last, or more
        self._settled = True  # whether it is known how every commit ended
        self.is_shared = kind_of(database.writer).serves_many  # whether others may write it

    # -- commits -------------------------------------------------------------------------------------------------

    async def transact(
        self,
        subjects: Collection[Subject],
        known: Mapping[Subject, Known],
        creating: Collection[Subject],
        apply: Callable[[Found], Commit | None],
    ) -> None:
        """One transaction: locks these streams and groups, compares what is known of them with what the store has, has
        that applied in this thread, writes what `apply` returns, and commits. Raises StoreTrouble, an error of
        SQLAlchemy or of `apply`; only CommitUnknown leaves open what changed.

        Where nobody else writes the store, all of these are as they are known: then nothing is locked before.
        """
        loop, order = asyncio.get_running_loop(), CommitOrder(self._limits.commit_s)
        if self.is_shared or creating or len(known) < len(subjects):
            lock = partial(self._lock, subjects, known, creating)
            work = partial(self._transact, lock, partial(_in_loop, loop, apply, order), order)
        else:
            self._writer.check(loop.time())
            commit = apply(Found({subject: each.head for subject, each in known.items()}))
            if commit is None:
                return
            work = partial(self._write, None, commit, order)
        try:
            await self._writer.call(self._limits.commit_s, work)
        except StoreSilent as silent:
            if order.withdraw():
                raise
            self._settled = False
            raise CommitUnknown(reason=str(silent)) from silent
        except CommitUnknown:
            self._settled = False
            raise
        except asyncio.CancelledError:
            order.withdraw()
            raise

    def _transact(
        self,
        lock: Callable[[], tuple[Transaction, Callable[[], Found]]],
        apply: Callable[[Callable[[], Found]], tuple[Found, Commit | None]],
        order: CommitOrder,
    ) -> None:
        begun, decode = lock()
        try:
            found, commit = apply(decode)
        except BaseException:
            begun.undo()
            raise
        self._others_write = 4 * len(found.streams) >= len(found.heads)
        if commit is None:
            begun.undo()
        else:
            # What has a head shows by its stamp what became of the commit, so its rows may be sent with the COMMIT.
            has_heads = all(each in found.heads for each in commit.versions)
            self._write(begun, commit, order, at_once=self.is_shared and has_heads and commit.is_plain)

    def _lock(
        self, subjects: Collection[Subject], known: Mapping[Subject, Known], creating: Collection[Subject]
    ) -> tuple[Transaction, Callable[[], Found]]:
        until = time.monotonic() + self._limits.commit_s
        reconnected = False
        while True:
            begun = Transaction(self._database.writer)
            try:
                at_once = self._others_write
                return begun, lock_and_look(self._database.writer, subjects, known, creating, at_once=at_once)
            except BaseException as error:
                begun.undo()
                if not isinstance(error, StoreFailed) or time.monotonic() > until:
                    raise
                if error.connection_invalidated and not reconnected:
                    reconnected = True  # the connection was lost before anything was sent
                elif is_locked(error):
                    with transaction(self._database.writer):
                        kind_of(self._database.writer).end_stopped(self._database.writer)
                else:
                    raise

    def _write(self, begun: Transaction | None, commit: Commit, order: CommitOrder, *, at_once: bool = False) -> None:
        begun = Transaction(self._database.writer) if begun is None else begun
        write = partial(write_rows, self._database.writer, commit)
        try:
            if not at_once:
                write()
            order.give()
            self._database.check_files()
        except BaseException:
            begun.undo()
            raise
        begun.commit(write if at_once else None)
        try:
            self._database.check_files()
        except StoreMoved as moved:  # the commit went to a file that was removed: it must not be acknowledged
            raise CommitUnknown(reason=str(moved)) from moved

    async def serve(self, beat: Callable[[StoreConnection], Service]) -> Service:
        """Records that somebody serves the store. Raises StoreUnavailable."""
        async with self.writing:
            began = self._health.begin()
            try:
                served = await self._writer.call(self._limits.commit_s, partial(self._serve, beat))
            except (StoreFailed, StoreTrouble) as error:
                self._health.failed("commit", error, 0, began)
                raise StoreUnavailable(reason=diagnose(error).reason) from error
            self._health.committed(began, 0)
            return served

    def _serve(self, beat: Callable[[StoreConnection], Service]) -> Service:
        self._database.check_files()
        try:
            return beat(self._database.writer)
        except StoreFailed as error:
            if not error.connection_invalidated:
                raise
        return beat(self._database.writer)  # over a new connection

    async def outcome(self, versions: Mapping[Subject, int], stamp: int) -> bool | None:
        """Whether the commit with a stamp, which gave these versions, became durable; None if that cannot be told.

        Waits until the session that sent it has ended.
        """
        try:
            return await self._writer.call(self._limits.outcome_s, partial(self._outcome, versions, stamp))
        except (StoreFailed, StoreTrouble):
            return None

    def _outcome(self, versions: Mapping[Subject, int], stamp: int) -> bool | None:
        self._database.check_files()
        with transaction(self._database.writer):
            outcome = was_committed(self._database.writer, versions, stamp)
            touch(self._database.writer)  # once this is durable, so is every earlier commit
        self._settled = True
        return outcome

    async def _settle(self) -> None:
        """Returns once every commit of this controller is durable or undone. Nobody is shown what may be lost with a
        server of which a standby has not confirmed a commit."""
        async with self.writing:
            if not self._settled:
                await self._writer.call(self._limits.read_s, self._touch)
                self._settled = True

    def _touch(self) -> None:
        self._database.check_files()
        with transaction(self._database.writer):
            touch(self._database.writer)

    # -- reads ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        """Encloses a read: it begins when it is known how every commit ended, and its errors become those of calls."""
        try:
            if not self._settled:
                await self._settle()
            yield
        except StoreCorrupt as error:
            self.unreadable(error)
            raise
        except (StoreFailed, StoreTrouble, StoreRefused) as error:
            raise self._unavailable("read", error) from error

    async def read(
        self,
        function: Callable[Concatenate[StoreConnection, Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Calls a function of `controller.storage` with a connection; raises StoreUnavailable if the store fails, and
        StoreCorrupt for a row that cannot be read."""

        def call() -> Result:
            try:
                return function(self._database.reader, *args, **kwargs)
            except StoreFailed as error:
                if not error.connection_invalidated:
                    raise
            return function(self._database.reader, *args, **kwargs)  # over a new connection

        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.read_s
        async with self._reading():
            return await self._reader.call(max(0.0, until - loop.time()), call)

    async def check(self) -> None:
        """Raises StoreUnavailable unless the store's files are in place, it can be read, and its schema is right."""

        def look(connection: StoreConnection) -> None:
            self._database.check_files()
            upgrade.check_now(connection)

        await self.read(look)

    async def load(
        self,
        function: Callable[Concatenate[StoreConnection, Callable[[], None], Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Calls a function of `controller.storage` that reads for long, in a third thread over a connection of its own.
        What it gets beside that it calls now and then, and ends with its error. Raises what `read` raises."""
        ended = threading.Event()

        def go_on() -> None:
            if ended.is_set() or self._closing.is_set():
                raise StoreSilent(seconds=self._limits.load_s)

        def call() -> Result:
            self._database.check_files()  # SQLite would create a file that is missing
            with self._database.reading.connect() as connection:
                return function(connection, go_on, *args, **kwargs)

        try:
            async with self._loads, self._reading():
                return await self._loader.call(self._limits.load_s, call)
        finally:
            ended.set()

    async def write(
        self,
        function: Callable[Concatenate[StoreConnection, Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Calls a function that writes outside of streams and groups; raises StoreUnavailable if it fails, and
        StoreUndecided if its outcome is unknown."""

        def call() -> Result:
            self._database.check_files()
            return function(self._database.writer, *args, **kwargs)

        try:
            async with self.writing:
                return await self._writer.call(self._limits.commit_s, call)
        except (CommitUnknown, StoreSilent) as error:  # after silence it is unknown whether COMMIT was sent
            self._health.failed("write", error)
            raise StoreUndecided(reason=str(error)) from error
        except (StoreFailed, StoreTrouble) as error:
            raise self._unavailable("write", error) from error

    @contextmanager
    def made_of_rows(self, *, stream: str | None = None, group: str | None = None) -> Iterator[None]:
        """Turns what the rows of a stream or group bring about, after they were read, into StoreCorrupt."""
        try:
            with made_of_rows(stream=stream, group=group):
                yield
        except StoreCorrupt as error:
            self.unreadable(error)
            raise

    def unreadable(self, error: StoreCorrupt) -> None:
        """Records what cannot be read, for metrics and the log."""
        self._health.failed("read", error)

    def _unavailable(self, operation: str, error: BaseException) -> StoreUnavailable:
        self._health.failed(operation, error)
        return StoreUnavailable(reason=diagnose(error).reason)

    async def close(self, seconds: float) -> bool:
        """Waits for the threads, then closes the connections; a call that still hangs ends with the process.

        Returns whether everything was closed.
        """
        closing = asyncio.wrap_future(in_thread("store-end", partial(self._close, seconds)))
        await asyncio.wait([closing], timeout=seconds + self._limits.cut_grace_s)
        return closing.done() and closing.exception() is None and closing.result()

    def _close(self, seconds: float) -> bool:
        self._closing.set()
        until = time.monotonic() + seconds
        ended = [each.close(max(0.0, until - time.monotonic())) for each in (self._writer, self._reader, self._loader)]
        if all(ended):
            self._database.close()
        return all(ended)


def _in_loop(
    loop: asyncio.AbstractEventLoop,
    apply: Callable[[Found], Commit | None],
    order: CommitOrder,
    decode: Callable[[], Found],
) -> tuple[Found, Commit | None]:
    """Has what was found decoded and applied in the event loop's thread, unless the caller has left meanwhile: then
    raises StoreSilent."""
    applied: Future[tuple[Found, Commit | None]] = Future()

    def run() -> None:
        try:
            order.check()
            found = decode()
            applied.set_result((found, apply(found)))
        except BaseException as error:
            applied.set_exception(error)

    loop.call_soon_threadsafe(run)
    return applied.result()
