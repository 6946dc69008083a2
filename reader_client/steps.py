"""The jobs of readers, as generators of steps that a sync and an async loop run.

job yields                   the loop
  Remote(call)               makes the call over its connection
  Local(work)                runs work that may wait, such as a log's (async: in another thread)
  Pause(pause_ms)            waits
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias, TypeVar, assert_never

from strandline.client import loop
from strandline.client.http import AsyncConnection, Connection
from strandline.client.loop import Local, Remote
from strandline.client.retry import Pause

Value = TypeVar("Value")


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


async def drive_async(
    job: Job[Value],
    connection: AsyncConnection,
    sleep: Callable[[float], Awaitable[object]],
    turns: threading.Lock | None = None,
) -> Value:
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
                return await sleep(pause_ms / 1000)
            case _:
                assert_never(step)

    return await loop.drive_async(job, take)


def _in_turn(turns: threading.Lock, work: Callable[[], Any]) -> Any:
    with turns:
        return work()
