"""Jobs, and the two loops that run them: a job yields steps; the loop takes each and sends its result into the job.

So the work of a client is written once, for blocking and for asyncio use. Every client has these two kinds of steps; it
may have others, and takes those itself.

    Remote(call)     makes a call of the controller
    Local(work)      runs work that may wait without a call, such as a log's
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from strandline.client.calls import Call
from strandline.errors import StrandlineError

Step = TypeVar("Step")
Value = TypeVar("Value")
Client = TypeVar("Client")
Given = ParamSpec("Given")


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


def waits(
    job: Callable[Concatenate[Client, Given], Generator[Any, Any, Value]],
) -> Callable[Concatenate[Client, Given], Value]:
    """Makes a method that runs a job with `_run` of its object, and returns what the job does."""

    @wraps(job)
    def method(self: Any, /, *args: Given.args, **kwargs: Given.kwargs) -> Any:
        try:
            return self._run(job(self, *args, **kwargs))
        except StrandlineError as error:  # without the steps of the call: its sentence says what is wrong
            raise error.with_traceback(None) from error.__cause__

    signature = inspect.signature(job)
    returned = str(signature.return_annotation).removeprefix("Job[").removesuffix("]")
    method.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]  # for help()
    return method


def awaits(
    method: Callable[Concatenate[Any, Given], Value],
) -> Callable[Concatenate[Any, Given], Coroutine[Any, Any, Value]]:
    """The same method for a class whose `_run` is a coroutine function."""

    @wraps(method)
    async def awaiting(self: Any, /, *args: Given.args, **kwargs: Given.kwargs) -> Value:
        try:
            return await method(self, *args, **kwargs)  # type: ignore[misc,no-any-return]  # what this `_run` gives
        except StrandlineError as error:
            raise error.with_traceback(None) from error.__cause__

    awaiting.__doc__ = f"See `{method.__qualname__}`."
    return awaiting


def awaits_as(
    made: type[Value], method: Callable[Concatenate[Any, Given], Any]
) -> Callable[Concatenate[Any, Given], Coroutine[Any, Any, Value]]:
    """`awaits` for a method that makes an object of another class in the asyncio client."""
    awaiting = awaits(method)
    signature = inspect.signature(method).replace(return_annotation=made.__name__)
    awaiting.__signature__ = signature  # type: ignore[attr-defined]  # for help()
    return awaiting
