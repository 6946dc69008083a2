"""The jobs of readers, as generators of steps that a sync and an async loop run; and what their classes share.

job yields                   the loop
  Remote(call)               makes the call over its connection
  Local(work)                runs work that may wait, such as a log's (async: in another thread)
  Pause(pause_ms)            waits
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, assert_never

from strandline.client import loop
from strandline.client.calls import Call
from strandline.client.http import AsyncConnection, Connection, Reaching, reach, reach_async
from strandline.client.loop import Local, Remote, remote
from strandline.client.retry import Pause
from strandline.errors import StrandlineError

Value = TypeVar("Value")
AnyConnection = TypeVar("AnyConnection")

Step: TypeAlias = Remote | Local | Pause
Job: TypeAlias = Generator[Step, Any, Value]


def drive(job: Job[Value], connection: Connection, sleep: Callable[[float], object]) -> Value:
    """Runs a job. The error of a step is raised within the job. `sleep` takes seconds."""

    def take(step: Step) -> Any:
        match step:
            case Remote(call):
                return connection.run(call)
            case Local(work):
                return work()
            case Pause(pause_ms):
                return sleep(pause_ms / 1000)
            case _:
                assert_never(step)

    return loop.drive(job, take)


async def drive_async(job: Job[Value], connection: AsyncConnection, turns: threading.Lock | None = None) -> Value:
    """`drive` for asyncio. Local work runs in other threads, one at a time under the lock `turns`: the work of a
    cancelled job runs to its end, and the next job's work waits for it."""
    lock = turns if turns is not None else threading.Lock()

    async def take(step: Step) -> Any:
        match step:
            case Remote(call):
                return await connection.run(call)
            case Local(work):
                return await asyncio.to_thread(_in_turn, lock, work)
            case Pause(pause_ms):
                return await asyncio.sleep(pause_ms / 1000)
            case _:
                assert_never(step)

    return await loop.drive_async(job, take)


def _in_turn(turns: threading.Lock, work: Callable[[], Any]) -> Any:
    with turns:
        return work()


class Client(Generic[AnyConnection]):
    """A client of the controller: what its blocking and its asyncio class share."""

    _reach: ClassVar[Callable[..., tuple[Any, Callable[[], Any]]]]  # a connection, and what releases it
    _connection: AnyConnection

    def _connect(self, controller: str | Sequence[str] | AnyConnection, reaching: Reaching) -> None:
        self._connection, self._leave = self._reach(controller, reaching, type(self))


class Blocking(Client[Connection]):
    """Waits for the steps of its jobs."""

    _reach = staticmethod(reach)

    def _run(self, job: Job[Value]) -> Value:
        try:
            return drive(job, self._connection, time.sleep)
        except StrandlineError as error:  # without the steps of the call: its sentence is enough
            raise error.with_traceback(None) from error.__cause__

    def _call(self, call: Call[Value]) -> Value:
        return self._run(remote(call))


class BlockingClient(Blocking):
    """One that closes its connection."""

    def close(self) -> None:
        """Closes the connection, unless it is shared."""
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Awaiting(Client[AsyncConnection]):
    """`Blocking` for asyncio."""

    _reach = staticmethod(reach_async)
    _turns: threading.Lock | None = None  # of local work, where jobs have such

    async def _run(self, job: Job[Value]) -> Value:
        try:
            return await drive_async(job, self._connection, self._turns)
        except StrandlineError as error:
            raise error.with_traceback(None) from error.__cause__

    async def _call(self, call: Call[Value]) -> Value:
        return await self._run(remote(call))


class AsyncClient(Awaiting):
    """`BlockingClient` for asyncio."""

    async def close(self) -> None:
        """Closes the connection, unless it is shared."""
        await self._leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
