"""The two short loops that do a writer's jobs: one waits, one awaits."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar, assert_never

from strandline.protocol.calls import clocked, note
from strandline.protocol.transport import Connection
from writer_client.batches import AsyncNotes
from writer_client.session import Job, Local, Noting, Remote, Step

Value = TypeVar("Value")


def do(job: Job[Value], connection: Connection) -> Value:
    """Does a job, over a connection and in this thread."""
    try:
        step = next(job)
        while True:
            try:
                value = _take(step, connection)
            except Exception as error:
                step = job.throw(error)
            else:
                step = job.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # it is the job's own
    finally:
        job.close()


def _take(step: Step, connection: Connection) -> Any:
    match step:
        case Remote(call):
            return connection.run(call)
        case Noting(addressed):
            return connection.run(clocked(note(addressed.stream, addressed.note)))
        case Local(work):
            return work()
        case _:
            assert_never(step)


async def do_async(job: Job[Value], notes: AsyncNotes) -> Value:
    """Does a job over a connection that is shared; the log is called in other threads."""
    try:
        step = next(job)
        while True:
            try:
                value = await _take_async(step, notes)
            except Exception as error:
                step = job.throw(error)
            else:
                step = job.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # it is the job's own
    finally:
        job.close()


async def _take_async(step: Step, notes: AsyncNotes) -> Any:
    match step:
        case Remote(call):
            return await notes.run(call)
        case Noting(addressed):
            return await notes.send(addressed)
        case Local(work):
            return await asyncio.to_thread(work)
        case _:
            assert_never(step)
