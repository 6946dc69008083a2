"""What readers do, written once: jobs that say step by step what is to be done, for a sync and an async loop to drive.

job yields                   the loop
  Remote(call)               makes the call over its connection
  Local(work)                runs what may wait, a log for one (async: in another thread)
  Pause(pause_ms)            waits
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, assert_never

from strandline.client import loop
from strandline.client.http import AsyncConnection, Connection
from strandline.client.loop import Local, Remote

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Pause:
    pause_ms: float


Step: TypeAlias = Remote | Local | Pause
Job: TypeAlias = Generator[Step, Any, Value]


def drive(job: Job[Value], connection: Connection, sleep: Callable[[float], object]) -> Value:
    """Does a job. What a step raises is raised within the job. `sleep` takes seconds."""

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
    """The same for asyncio. Local work runs in other threads; `turns` sees to it that it does so one at a time, also
    where a job was cancelled, whose work goes on to its end."""
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
