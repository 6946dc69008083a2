"""Jobs, and the two loops that run them: a job yields steps; the loop takes each and sends its result into the job.

So the work of a client is written once, for blocking and for asyncio use. Every client has these two kinds of steps; it
may have others, and takes those itself.

    Remote(call)     makes a call of the controller
    Local(work)      runs work that may wait without a call, such as a log's
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
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
    """Runs a job, and waits for each step. The error of a step is raised within the job, which handles it."""
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
