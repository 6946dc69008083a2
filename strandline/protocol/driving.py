"""The two loops that do jobs: a job yields steps, each is taken, and what came of it goes back into the job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

Step = TypeVar("Step")
Value = TypeVar("Value")


def drive(job: Generator[Step, Any, Value], take: Callable[[Step], Any]) -> Value:
    """Does a job, waiting for each step. What a step raises is raised within the job, which decides what it means."""
    try:
        step = next(job)
        while True:
            try:
                result = take(step)
            except Exception as error:
                step = job.throw(error)
            else:
                step = job.send(result)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # it is the job's own
    finally:
        job.close()


async def drive_async(job: Generator[Step, Any, Value], take: Callable[[Step], Awaitable[Any]]) -> Value:
    """The same for asyncio."""
    try:
        step = next(job)
        while True:
            try:
                result = await take(step)
            except Exception as error:
                step = job.throw(error)
            else:
                step = job.send(result)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # it is the job's own
    finally:
        job.close()
