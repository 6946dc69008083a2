"""The store that several controllers share: rows in SQLite, and the sessions and locks of a server around them.

SQLite has one lock for all. So rows are locked here, as PostgreSQL does: a statement locks those rows that were there
when it began, one after the other, and what it then reads is as it is once it has them all. What a transaction writes
is kept until its COMMIT, and carried out in one real transaction.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from random import Random
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import IntegrityError
from sqlalchemy.pool import StaticPool

from controller.limits import DEFAULT_LIMITS
from controller.storage.diagnosis import StoreSilent, StoreTrouble
from controller.storage.heads import Service, compare, start_over
from controller.storage.news import Found, Known, lock_and_look, was_committed
from controller.storage.save import Commit, write_rows
from controller.storage.subjects import Subject
from controller.storage.transaction import CommitUnknown
from controller.storage.unreadable import made_of_rows
from controller.storage.upgrade import make
from strandline.errors import StoreUnavailable

START_MS: Final = 1_700_000_000_000  # of the server's clock
LOCK_WAIT_S: Final = 1.0  # whoever waits for so long ends sessions that have stopped within their transactions
KEPT_COMMITS: Final = 8  # to which a fail-over may go back
CHECKED_PART: Final = 0.1  # of the locks, before which the caches are checked
WAY_S: Final = (0.0002, 0.001, 0.003)  # of a question or an answer

Given = ParamSpec("Given")
Result = TypeVar("Result")


class SessionEnded(StoreTrouble):
    says = "the server ended the session"


class ServerFailed(StoreTrouble):
    says = "the server does not answer"


class Session:
    """A transaction as the server has it."""

    def __init__(self) -> None:
        self.holds: list[Hashable] = []
        self.over = False
        self.idle_since: float | None = None  # while it waits for its controller

    def check(self) -> None:
        if self.over:
            raise SessionEnded


class Witness(Protocol):
    """Sees what happens in the store."""

    def committed(self, commit: Commit) -> None: ...

    def went_back(self, commits: int, *, restored: bool) -> None: ...


def _engine(driver: sqlite3.Connection) -> Engine:
    driver.execute("PRAGMA foreign_keys = ON")
    engine = create_engine("sqlite://", poolclass=StaticPool, creator=lambda: driver)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


@cache
def _empty() -> bytes:
    """An empty store."""
    driver = sqlite3.connect(":memory:", isolation_level=None)
    with _engine(driver).begin() as connection:
        make(connection)
    return bytes(driver.serialize())


class Server:
    """One store. `trouble` of all calls fail, or their answers are lost."""

    def __init__(self, random: Random, trouble: float) -> None:
        self.random = random
        self.trouble = trouble
        self.fails = False
        self.ahead_ms = 0
        self.witness: Witness | None = None
        self.commits = 0
        self.counts = Counter[str]()
        self.troubled_at = 0.0  # when anything failed last
        self._driver = sqlite3.connect(":memory:", isolation_level=None)
        self._driver.deserialize(_empty())
        self.connection = _engine(self._driver).connect()
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=KEPT_COMMITS)
        self._keep()
        self._holders: dict[Hashable, Session] = {}
        self._deleted = Counter[Subject]()
        self._freed = asyncio.get_running_loop().create_future()
        self._sessions: set[Session] = set()

    def now(self) -> int:
        return START_MS + round(asyncio.get_running_loop().time() * 1000) + self.ahead_ms

    def _keep(self) -> None:
        self._kept.append((self.commits, bytes(self._driver.serialize())))

    # -- sessions ------------------------------------------------------------------------------------------------

    def begin(self) -> Session:
        session = Session()
        self._sessions.add(session)
        return session

    def end(self, session: Session) -> None:
        """Rolls back what is not committed, and frees its locks."""
        session.over = True
        self._sessions.discard(session)
        for key in session.holds:
            del self._holders[key]
        session.holds.clear()
        freed, self._freed = self._freed, asyncio.get_running_loop().create_future()
        freed.set_result(None)

    def end_all(self) -> None:
        for session in list(self._sessions):
            self.end(session)

    async def _acquire(self, session: Session, key: Hashable) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + LOCK_WAIT_S
        while (holder := self._holders.get(key)) is not None and holder is not session:
            await asyncio.wait([self._freed], timeout=max(0.0, until - loop.time()))
            if loop.time() >= until:
                self._end_stopped()
                until = loop.time() + LOCK_WAIT_S
            session.check()
        if key not in self._holders:
            self._holders[key] = session
            session.holds.append(key)

    def _end_stopped(self) -> None:
        now = asyncio.get_running_loop().time()
        for each in [each for each in self._sessions if each.idle_since is not None]:
            assert each.idle_since is not None
            if now - each.idle_since >= LOCK_WAIT_S - 0.001:
                self.counts["session ended"] += 1
                self.end(each)

    async def lock(
        self,
        session: Session,
        subjects: Collection[Subject],
        known: Mapping[Subject, Known],
        creating: Collection[Subject],
    ) -> Found:
        for name in sorted(creating):
            await self._acquire(session, ("name", name))
        there = {each: self._deleted[each] for each in await self._lock_rows(session, subjects)}
        still = [each for each, deleted in there.items() if self._deleted[each] == deleted]
        with self.connection.begin():
            at_once = self.commits % 2 == 1  # either way it is the same
            found = lock_and_look(self.connection, still, known, creating, at_once=at_once)()
        session.idle_since = asyncio.get_running_loop().time()
        assert found.service is not None
        found.service = found.service._replace(now=self.now())
        return found

    async def _lock_rows(self, session: Session, subjects: Collection[Subject]) -> list[Subject]:
        """Locks those that are there now. Returns those that are there still."""
        with self.connection.begin():
            there = {each: self._deleted[each] for each in compare(self.connection, subjects)}
        for each in sorted(there):
            await self._acquire(session, each)
        return [each for each, deleted in there.items() if self._deleted[each] == deleted]

    async def outcome(self, session: Session, versions: Mapping[Subject, int], stamp: int) -> bool | None:
        await self._lock_rows(session, versions.keys())
        with self.connection.begin():
            return was_committed(self.connection, versions, stamp)

    def carry_out(self, session: Session, commit: Commit) -> None:
        session.check()
        try:
            with self.connection.begin():
                write_rows(self.connection, commit)
            self.commits += 1
            self._keep()
            self._deleted.update(Subject(*each) for each in commit.deleted)
            if self.witness is not None:
                self.witness.committed(commit)
        finally:
            self.end(session)

    def change_tokens(self, change: Callable[[Connection], object]) -> None:
        """Makes or revokes a token, as a command does beside the controllers. That counts as part of the next commit:
        a fail-over that loses no commit loses it nevertheless, if it has come since the last one."""
        with self.connection.begin():
            change(self.connection)

    # -- faults --------------------------------------------------------------------------------------------------

    def go_back(self, lost: int, restored: bool) -> None:
        """A fail-over, or a restore, to an earlier commit."""
        self.troubled_at = asyncio.get_running_loop().time()
        self.end_all()
        lost = min(lost, len(self._kept) - 1)
        for _ in range(lost):
            self._kept.pop()
        self.commits, stored = self._kept[-1]
        with closing(sqlite3.connect(":memory:")) as earlier:
            earlier.deserialize(stored)
            earlier.backup(self._driver)
        if restored:
            with self.connection.begin():
                start_over(self.connection, self.now())
            self._kept.clear()
            self._keep()
        if self.witness is not None:
            self.witness.went_back(self.commits, restored=restored)


class Process(Protocol):
    """The process of a controller, as its store sees it."""

    async def awake(self) -> None:
        """Returns at once unless the process is stopped."""

    def stop(self, seconds: float) -> None:
        """It does nothing for a while."""


class SimulatedStore:
    """What `controller.commit.store.Store` is to the services of a controller."""

    is_shared = True

    def __init__(self, server: Server, process: Process) -> None:
        self._server = server
        self._process = process
        self.writing = asyncio.Lock()
        self.session = Session()
        self.before_lock: Callable[[], None] | None = None  # looks whether what is in memory is right
        self.stops_for_s = 0.0  # the process, once it has locked anything
        self.failed_at = 0.0  # when a read failed last

    async def _way(self) -> None:
        await asyncio.sleep(self._server.random.choice(WAY_S))
        await self._process.awake()

    def _fault(self) -> bool:
        server = self._server
        failed = server.fails or server.random.random() < server.trouble
        if failed:
            server.troubled_at = asyncio.get_running_loop().time()
        return failed

    async def transact(
        self,
        subjects: Collection[Subject],
        known: Mapping[Subject, Known],
        creating: Collection[Subject],
        apply: Callable[[Found], Commit | None],
    ) -> None:
        found = await self._lock(subjects, known, creating)
        try:
            commit = apply(found)
        except BaseException:
            self._server.end(self.session)
            raise
        if commit is None:
            self._server.end(self.session)
        else:
            await self._commit(commit)

    async def _lock(
        self, subjects: Collection[Subject], known: Mapping[Subject, Known], creating: Collection[Subject]
    ) -> Found:
        if self.before_lock is not None and self._server.random.random() < CHECKED_PART:
            self.before_lock()
        await self._way()
        if self._fault():
            raise ServerFailed
        self.session = self._server.begin()
        try:
            async with asyncio.timeout(DEFAULT_LIMITS.commit_s):
                found = await self._server.lock(self.session, tuple(subjects), known, tuple(creating))
        except BaseException as error:
            self._server.end(self.session)
            if isinstance(error, TimeoutError):
                raise StoreSilent(seconds=DEFAULT_LIMITS.commit_s) from None
            raise
        if self.stops_for_s:
            self._process.stop(self.stops_for_s)
            self.stops_for_s = 0.0
        await self._way()
        return found

    async def _commit(self, commit: Commit) -> None:
        server, session = self._server, self.session
        try:
            await self._way()
            session.check()
            session.idle_since = None
            if not self._fault():
                server.carry_out(session, commit)
                await self._way()
                return
            fate = server.random.choice(("failed", "carried out", "not carried out", "carried out later"))
            server.counts[f"commit {fate}"] += 1
            match fate:
                case "failed":
                    server.end(session)
                    raise ServerFailed
                case "carried out":
                    server.carry_out(session, commit)
                case "not carried out":
                    server.end(session)
                case _:
                    delay_s = server.random.choice((0.01, 0.5, 3.0))
                    asyncio.get_running_loop().call_later(delay_s, _carry_out_late, server, session, commit)
            raise CommitUnknown(reason="the answer was lost")
        except (SessionEnded, IntegrityError):
            server.end(session)
            raise

    async def outcome(self, versions: Mapping[Subject, int], stamp: int) -> bool | None:
        await self._way()
        session = self._server.begin()
        try:
            async with asyncio.timeout(DEFAULT_LIMITS.outcome_s):
                return await self._server.outcome(session, versions, stamp)
        except (TimeoutError, StoreTrouble):
            return None
        finally:
            self._server.end(session)

    async def serve(self, beat: Callable[[Connection], Service]) -> Service:
        async with self.writing:
            await self._way()
            if self._fault():
                raise StoreUnavailable(reason="the server does not answer")
            served = beat(self._server.connection)._replace(now=self._server.now())
            await self._way()
            return served

    async def read(
        self, function: Callable[Concatenate[Connection, Given], Result], *args: Given.args, **kwargs: Given.kwargs
    ) -> Result:
        await self._way()
        if self._fault():
            self.failed_at = asyncio.get_running_loop().time()
            raise StoreUnavailable(reason="the server does not answer")
        result = function(self._server.connection, *args, **kwargs)
        await self._way()
        return result

    async def load(
        self,
        function: Callable[Concatenate[Connection, Callable[[], None], Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        return await self.read(lambda connection: function(connection, lambda: None, *args, **kwargs))

    @contextmanager
    def made_of_rows(self, *, stream: str | None = None, group: str | None = None) -> Iterator[None]:
        with made_of_rows(stream=stream, group=group):
            yield

    def unreadable(self, error: Exception) -> None:
        raise error


def _carry_out_late(server: Server, session: Session, commit: Commit) -> None:
    if not session.over:
        server.carry_out(session, commit)
