"""Jobs, and the two loops that do them: a job yields steps, each is taken, and what came of it goes back into the job.

So what a client does is written once, for those who wait and for those who await. Two kinds of steps every client has;
what others there are, and how they are taken, is its own affair.

    Remote(call)     makes a call of the controller
    Local(work)      runs what may wait without one, a log for example
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from strandline.client.calls import Call

Step = TypeVar("Step")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Remote:
    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Local:
    work: Callable[[], Any]


def remote(call: Call[Value]) -> Generator[Remote, Any, Value]:
    """The one step of making a call."""
    value: Value = yield Remote(call)
    return value


def local(work: Callable[[], Value]) -> Generator[Local, Any, Value]:
    """The one step of doing some work."""
    value: Value = yield Local(work)
    return value


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
